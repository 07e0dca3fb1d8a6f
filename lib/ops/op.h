// The contract between the graph and the backends. An op is a name with a documented meaning (one header per op family
// in this folder: conv2d.h, linear.h, …). A backend plans it: from the attributes and the shapes and present layouts of
// the inputs it makes a Kernel, which then runs as often as wanted without allocating.
#pragma once

#include <any>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/result.h"
#include "ops/layout.h"

namespace dtrain::ops {

// What one execution of a program is about. The same for all kernels of the execution.
struct RunContext {
  uint64_t seed = 0;         // of the run
  int64_t step = 0;          // training step, counted from 0
  int64_t first_sample = 0;  // place in the global batch of this micro-batch's first sample
  int64_t valid = 0;         // leading samples that count in losses and metrics; the rest is padding
};

struct OpRequest {
  std::string op;                   // "conv2d.backward_data"
  std::any attributes;              // the struct that the op's header names
  std::vector<TensorDesc> inputs;   // with the layouts that they have at this point
  std::vector<TensorDesc> outputs;  // shapes and types wanted; layouts are the kernel's to choose (but for "reorder")
  // What the factors of matrix products and convolutions are rounded to; sums and all else stay F32. Ops without such
  // products ignore it.
  DType compute = DType::kF32;

  template <typename T>
  const T& attributes_as() const {
    const T* a = std::any_cast<T>(&attributes);
    DTRAIN_CHECK(a != nullptr, "{}: attributes of another op", op);
    return *a;
  }
};

// A planned op. Immutable after planning but for what `run` writes; one thread runs it at a time (it may use OpenMP
// threads inside, as many as omp_get_max_threads() says).
class Kernel {
 public:
  virtual ~Kernel() = default;

  // `in` and `out` as in the request, each laid out as input_layouts and outputs say, aligned to 64 bytes, every output
  // written in full (padding included: zeros). `scratch` holds scratch_bytes, undefined before and after.
  virtual void run(std::span<const void* const> in, std::span<void* const> out, void* scratch,
                   const RunContext& context) = 0;
  // Which implementation was chosen, for `benchmark step --profile`: "brgconv:avx512_core".
  virtual std::string implementation() const = 0;

  std::vector<LayoutPtr> input_layouts;  // wanted; the planner reorders where they differ from what is there
  std::vector<DType> input_types;        // wanted; empty: those of the request
  std::vector<TensorDesc> outputs;       // the request's, with layouts; opaque outputs (workspaces) get their size here
  size_t scratch_bytes = 0;
  double flops = 0;  // of one run, 2 for each multiply-add of its products; 0 where it has none. For profiles
  std::vector<std::pair<int, int>> in_place;  // (output, input) pairs that may share one buffer
};

// One op of one backend.
class Op {
 public:
  virtual ~Op() = default;
  // nullopt: yes; else why not, for a person ("groups with dilation").
  virtual std::optional<std::string> unsupported(const OpRequest& request) const = 0;
  virtual Result<std::unique_ptr<Kernel>> plan(const OpRequest& request) const = 0;
};

}  // namespace dtrain::ops
