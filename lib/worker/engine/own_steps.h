// The optimizer steps that a worker takes by itself, on a copy of the parameters: a round of local steps. A round is a
// pure function of the version that it begins with and of its micro-batches: the optimizer's slots begin at zero. One
// thread, the engine's.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "graph/observer.h"
#include "optim/optimizer.h"
#include "worker/engine/parameter_storage.h"

namespace dtrain::worker {

class OwnSteps {
 public:
  // `parameters` outlive it.
  OwnSteps(std::span<const ParameterInfo> parameters, std::shared_ptr<const optim::Optimizer> optimizer);

  // Bytes for the copy and the slots.
  static size_t bytes(std::span<const ParameterInfo> parameters, const optim::Optimizer& optimizer);

  // A round begins; load() every parameter before it is read.
  void begin();
  void load(ParameterIndex p, const float* values);
  // One step: `outputs` are all gradients and next values, whole parameters or their pieces. `step` counts within the
  // round, from 0; `scale` multiplies the gradients.
  void apply(std::span<const graph::ParameterOutput> outputs, int64_t step, double rate, float scale);
  // What the round comes to, to be averaged over all that began with the same version: how far a parameter has gone
  // (start − now, like a gradient), or a statistic's value. Into `out`, of all its elements.
  void result(ParameterIndex p, const float* start, float* out) const;

  std::span<float* const> values() const { return values_.pointers(); }

 private:
  std::span<const ParameterInfo> parameters_;
  const std::shared_ptr<const optim::Optimizer> optimizer_;
  ParameterStorage values_;
  std::vector<ParameterStorage> slots_;
};

// The norm of a whole gradient, in fp64, summed in the order of the parameters; of trainable ones.
double gradient_norm(std::span<const ParameterInfo> parameters, std::span<const graph::ParameterOutput> outputs);

}  // namespace dtrain::worker
