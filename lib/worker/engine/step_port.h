// What the step engine needs of the world while it computes a Work: parameters to arrive, gradients to leave. Called on
// the engine's thread; may wait, never for ever.
#pragma once

#include <functional>
#include <memory>
#include <span>

#include "base/result.h"
#include "graph/observer.h"
#include "worker/worker_protocol.h"

namespace dtrain::worker {

class StepPort {
 public:
  virtual ~StepPort() = default;

  // Returns once parameter p is in memory at the version of `work`. An error ends the work: it was cancelled, or the
  // run is over.
  virtual Status await_parameter(const Work& work, ParameterIndex p) = 0;
  // Returns once `free()` is true; called when all gradient memory is under way to servers. Where `free` takes what is
  // free, it must stay true from then on: it is called again.
  virtual Status await_memory(const Work& work, const std::function<bool()>& free) = 0;
  // As WorkerProtocol has it: for their memory a work does not wait.
  virtual size_t held_sets(const Work&) { return 0; }
  // Returns once `there()` is true; what other tasks send may make it so. Errors as above.
  virtual Status await_others(const Work& work, const std::function<bool()>& there) {
    return await_memory(work, there);
  }
  // Where there are sparse tables, for each micro-batch: asks for the rows that it uses, waits for them, and takes
  // their gradient, as WorkerProtocol has it. A gradient may have to wait until earlier ones are with the servers.
  virtual Status pull_rows(const Work&, std::span<const uint64_t> /*rows*/, std::span<float* const> /*into*/) {
    return no_rows();
  }
  virtual Status await_rows(const Work&) { return no_rows(); }
  virtual Status push_rows(const Work&, uint32_t /*micro_batch*/, std::span<const uint64_t> /*rows*/,
                           std::span<const float* const> /*gradients*/) {
    return no_rows();
  }
  // Asked between ops, so that a work that is of no use any more does not go on to its end: an error ends it.
  virtual Status still_wanted(const Work&) { return {}; }
  // The learning rate of a step of the work's round, for an engine that takes steps by itself.
  virtual double rate(const Work&, int64_t /*step*/) { return 0.0; }
  virtual void metrics(const Work& work, const Metrics& metrics) = 0;
  // The sum over the node of a parameter's output, or of a piece of it that is whole blocks. The values stay as they
  // are while `owner` is held.
  virtual void gradient(const Work& work, const graph::ParameterOutput& sum, std::shared_ptr<const void> owner) = 0;

 private:
  static Status no_rows() { return fail(ExitCode::kBug, "nobody here keeps sparse tables"); }
};

}  // namespace dtrain::worker
