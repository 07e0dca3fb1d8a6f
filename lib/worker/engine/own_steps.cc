#include "worker/engine/own_steps.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "ps/chunk_math.h"

namespace dtrain::worker {
namespace {

size_t elements(const ParameterInfo& p) { return static_cast<size_t>(p.shape.elements()); }

}  // namespace

OwnSteps::OwnSteps(std::span<const ParameterInfo> parameters, std::shared_ptr<const optim::Optimizer> optimizer)
    : parameters_(parameters), optimizer_(std::move(optimizer)), values_(parameters) {
  for (size_t s = 0; s < optimizer_->slots(); ++s) slots_.emplace_back(parameters);
}

size_t OwnSteps::bytes(std::span<const ParameterInfo> parameters, const optim::Optimizer& optimizer) {
  return ParameterStorage::bytes(parameters) * (1 + optimizer.slots());
}

void OwnSteps::begin() {
  for (ParameterStorage& slot : slots_)
    for (size_t p = 0; p < parameters_.size(); ++p)
      std::memset(slot.pointers()[p], 0, elements(parameters_[p]) * sizeof(float));
}

void OwnSteps::load(ParameterIndex p, const float* values) {
  std::memcpy(values_.at(p), values, elements(parameters_[static_cast<size_t>(p)]) * sizeof(float));
}

void OwnSteps::apply(std::span<const graph::ParameterOutput> outputs, int64_t step, double rate, float scale) {
  std::vector<float*> slots(slots_.size());
  for (const graph::ParameterOutput& out : outputs) {
    const ParameterInfo& p = parameters_[static_cast<size_t>(out.parameter)];
    float* const to = values_.at(out.parameter) + out.first;
    const auto n = static_cast<size_t>(out.elements);
    if (p.kind == ParameterKind::kStatistic) {
      std::memcpy(to, out.values, n * sizeof(float));
      continue;
    }
    for (size_t s = 0; s < slots.size(); ++s) slots[s] = slots_[s].at(out.parameter) + out.first;
    optimizer_->update({rate * p.rate_multiplier, step, scale, p.decay_multiplier}, n, out.values, to, to,
                       slots.data());
  }
}

void OwnSteps::result(ParameterIndex p, const float* start, float* out) const {
  const ParameterInfo& info = parameters_[static_cast<size_t>(p)];
  const size_t n = elements(info);
  const float* now = values_.at(p);
  if (info.kind == ParameterKind::kStatistic)
    std::memcpy(out, now, n * sizeof(float));
  else
    ps::subtract({out, n}, {start, n}, {now, n});
}

double gradient_norm(std::span<const ParameterInfo> parameters, std::span<const graph::ParameterOutput> outputs) {
  std::vector<graph::ParameterOutput> sorted(outputs.begin(), outputs.end());
  std::sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) {
    return a.parameter != b.parameter ? a.parameter < b.parameter : a.first < b.first;
  });
  double sum = 0.0;
  for (const graph::ParameterOutput& out : sorted)
    if (parameters[static_cast<size_t>(out.parameter)].kind == ParameterKind::kTrainable)
      for (int64_t at = 0; at < out.elements; at += kChunkElements)
        sum += ps::sum_of_squares({out.values + at, static_cast<size_t>(std::min(kChunkElements, out.elements - at))});
  return std::sqrt(sum);
}

}  // namespace dtrain::worker
