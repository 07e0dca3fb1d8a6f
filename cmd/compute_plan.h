// How a worker's step passes, for the simulator: which op needs which parameters, how long each takes, which gradients
// leave after it. Measured on this machine, or a given time shared out by the ops' FLOPs.
#pragma once

#include "base/result.h"
#include "node/run_definition.h"
#include "sim/scale/model.h"

namespace dtrain::cmd {

// Runs the training program on this machine's processor; the run has its data open. Takes some seconds.
Result<sim::scale::ComputePlan> measure_compute(const node::RunDefinition& run, int64_t micro_batch, int threads);
// `time`: of the whole program. Needs no data.
Result<sim::scale::ComputePlan> assume_compute(const node::RunDefinition& run, int64_t micro_batch, Nanoseconds time);
// Operations of convolutions and products in a training step, for each of its samples. Needs no data.
Result<double> training_flops(const node::RunDefinition& run);

}  // namespace dtrain::cmd
