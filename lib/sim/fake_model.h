// What simulated workers compute instead of a network: gradients, new statistics and metrics as cheap pure functions of
// (step, micro-batch, element) and of all parameters. Every value depends on samples of every parameter, so that mixed
// versions cannot stay unseen; magnitudes are uneven, so that the order of sums shows in the bits. Pure functions.
#pragma once

#include <cstdint>
#include <vector>

#include "proto-free-wire/step_kind.h"
#include "tensor/metrics.h"
#include "tensor/parameter.h"

namespace dtrain::sim {

using Values = std::vector<std::vector<float>>;  // [parameter][element]

Values initial_values(const std::vector<ParameterInfo>& parameters);
// One number that every gradient depends on.
float probe(const Values& parameters);
// What micro-batch k of the step makes of parameter p: its gradient, or a statistic's new value.
void micro_gradient(const std::vector<ParameterInfo>& parameters, const Values& values, float probe, int64_t step,
                    uint32_t k, ParameterIndex p, std::vector<float>& out);
Metrics micro_metrics(float probe, wire::StepKind kind, int64_t step, uint32_t k);
// The coordinator's learning rate.
double learning_rate(int64_t step);

}  // namespace dtrain::sim
