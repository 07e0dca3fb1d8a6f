#include "optim/weight_average.h"

#include <algorithm>

#include "base/vectorize.h"

namespace dtrain::optim {
namespace {

// So many elements are moved and then averaged while they are in the nearest cache.
constexpr size_t kPiece = 2048;

DTRAIN_CLONES void blend(float keep, float take, size_t n, const float* weights, float* average) {
  DTRAIN_INDEPENDENT
  for (size_t i = 0; i < n; ++i) average[i] = keep * average[i] + take * weights[i];
}

class WeightAverage final : public Optimizer {
 public:
  WeightAverage(std::shared_ptr<const Optimizer> inner, double decay)
      : inner_(std::move(inner)),
        own_(inner_->slots()),
        keep_(static_cast<float>(decay)),
        take_(static_cast<float>(1 - decay)) {}

  std::vector<std::string> slot_names() const override {
    std::vector<std::string> names = inner_->slot_names();
    names.emplace_back(kWeightAverageSlot);
    return names;
  }
  NormNeed norm_need() const override { return inner_->norm_need(); }
  double ratio(const ParameterInfo& p, double values, double other) const override {
    return inner_->ratio(p, values, other);
  }
  void prepare(const UpdateContext& c, size_t n, float* gradient, const float* from,
               float* const* slots) const override {
    inner_->prepare(c, n, gradient, from, slots);
  }

  void update(const UpdateContext& c, size_t n, const float* gradient, const float* from, float* to,
              float* const* slots) const override {
    std::vector<float*> at(slots, slots + own_ + 1);
    for (size_t first = 0; first < n; first += kPiece) {
      const size_t count = std::min(kPiece, n - first);
      float*& average = at[own_];
      if (c.step == 0) std::copy_n(from + first, count, average);
      inner_->update(c, count, gradient + first, from + first, to + first, at.data());
      blend(keep_, take_, count, to + first, average);
      for (float*& slot : at) slot += count;
    }
  }

 private:
  const std::shared_ptr<const Optimizer> inner_;
  const size_t own_;  // place of the slot
  const float keep_, take_;
};

}  // namespace

std::shared_ptr<const Optimizer> with_weight_average(std::shared_ptr<const Optimizer> optimizer, double decay) {
  return std::make_shared<WeightAverage>(std::move(optimizer), decay);
}

}  // namespace dtrain::optim
