// A network, or one task's stage of it, compiled for one micro-batch size, one backend, and training or evaluation.
// run() computes one micro-batch; after its first call it allocates nothing. A stage is run segment by segment, with
// several micro-batches under way, each in a lane of its own.
//
// One thread runs it at a time and calls parameter_changed() in between (or from within an Observer's functions, which
// run on that thread).
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "graph/network.h"
#include "graph/observer.h"
#include "graph/plan.h"
#include "graph/stage.h"
#include "ops/op.h"
#include "tensor/buffer.h"
#include "tensor/metrics.h"

namespace dtrain::graph {

// All pointers are the caller's, to plain row-major arrays aligned to 64 bytes.
struct Feed {
  const void* samples = nullptr;  // as Network::input_dtype() says, [micro-batch, sample…]
  const void* labels = nullptr;   // as Network::labels() says, for the micro-batch
  // Of a stage: what other tasks made, by Stage::imports. Where a segment that reads one has not come, it may be null.
  std::span<const void* const> imports = {};
  // Of each of Network::lookups(): [micro-batch, places] numbers below Network::rows_used().
  std::span<const int32_t* const> lookups = {};
};

struct Binding {
  std::span<const float* const> values;  // of each parameter; of a sparse table [Network::rows_used(), width]
  std::span<float* const> outputs;       // of each: its gradient, or a statistic's next value; empty for evaluation
  Metrics* metrics = nullptr;
  float* prediction = nullptr;  // of Mode::kPredict: [micro-batch, Network::output()…]
};

struct CompileOptions {
  // Gradients lie in the arena and are seen by the observer only; the caller binds no memory for them (but for
  // statistics). Saves a set of gradients where each is used at once, as in a step of one micro-batch, after which
  // every parameter differs: so copies of them in other layouts are not kept from run to run either.
  bool own_gradients = false;
  DType compute = DType::kF32;  // what the factors of products are rounded to: F32 or BF16
  // Compiles what one task of the split computes; null: everything.
  const Split* split = nullptr;
  int task = 0;
};

class Executable {
 public:
  // The memory of one micro-batch under way.
  class Lane {
   private:
    friend class Executable;
    Buffer arena_;
    std::vector<const void*> inputs_;
    std::vector<void*> outputs_;
    bool allocated_ = false;
  };

  static Result<std::unique_ptr<Executable>> compile(const Network& network, Mode mode, int64_t micro_batch,
                                                     const std::string& backend, const CompileOptions& options = {});

  // Fails only with what the observer's need_parameter() or step_done() returns; outputs are undefined then.
  Status run(const Feed& feed, const Binding& binding, const ops::RunContext& context, Observer& observer);
  // Tells the observer what run() would, in its order, without computing anything: all values are null.
  Status rehearse(Observer& observer) const;
  // One segment of stage(), after those before it of the same micro-batch; all with the same lane, samples, labels,
  // outputs and context.
  Status run_segment(Lane& lane, size_t segment, const Feed& feed, const Binding& binding,
                     const ops::RunContext& context, Observer& observer);
  // The value of a parameter differs from the one that the last run saw: what was derived from it is made anew.
  void parameter_changed(ParameterIndex parameter);

  int64_t micro_batch() const { return micro_batch_; }
  size_t arena_bytes() const { return plan_.arena_bytes + plan_.scratch_bytes; }  // activations, gradients, scratch
  size_t persistent_bytes() const { return plan_.persistent_bytes; }              // parameters in other layouts
  const std::vector<PlanStep>& steps() const { return plan_.steps; }
  const Stage& stage() const { return stage_; }
  // Whether any step reads the parameter.
  bool reads(ParameterIndex parameter) const;
  // What a step reads and writes.
  size_t bytes_moved(int step) const;

 private:
  // What happens around one step; ranges are of the lists below.
  struct Step {
    ops::Kernel* kernel;
    uint32_t first_input, inputs, first_output, outputs;  // in inputs_, outputs_
    int32_t copy;                                         // -1, or the parameter copy that it makes
    bool metrics;                                         // it writes the loss
  };
  // A place of inputs_ or outputs_ that holds a pointer of the caller's.
  struct CallerPointer {
    ValueKind kind;
    int32_t index;  // the parameter, or the import
    uint32_t slot;
    bool output;
  };

  Executable(Plan plan, Stage stage, size_t parameters, Mode mode, int64_t micro_batch);
  void add_step(const PlanStep& step);
  void add_slot(ValueId value, bool output);
  void hand_over(const Lane& lane, size_t step, const Binding& binding, Observer& observer);
  std::byte* pointer(Lane& lane, ValueId value);
  void allocate(Lane& lane);
  void bind(Lane& lane, const Feed& feed, const Binding& binding) const;
  void export_values(Lane& lane, int step, Observer& observer);

  Plan plan_;
  Stage stage_;
  size_t parameters_;
  Mode mode_;
  int64_t micro_batch_;
  std::vector<Step> steps_;
  std::vector<ValueId> input_values_, output_values_;  // of each slot
  std::vector<CallerPointer> caller_pointers_;
  std::vector<uint8_t> copy_valid_;
  Buffer scratch_, persistent_;
  bool allocated_ = false;
  Lane lane_;  // of run()
};

}  // namespace dtrain::graph
