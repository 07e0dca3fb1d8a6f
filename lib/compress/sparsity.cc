#include "compress/sparsity.h"

#include <algorithm>
#include <cmath>

namespace dtrain::compress {
namespace {

constexpr double kFirstRatio = 0.25;
constexpr int64_t kPartOfRun = 4, kEpochs = 4;

}  // namespace

Sparsity::Sparsity(config::TableReader& reader, double default_ratio, MethodSetting::Use use)
    : ratio_(reader.number("ratio", default_ratio, 1e-5, 0.5)) {
  const bool parameters = use == MethodSetting::Use::kParameters;
  if (parameters && reader.has("warmup"))
    reader.error("warmup", "'warmup' is for gradients; parameters have the same 'ratio' in all steps");
  const int64_t warmup = reader.integer("warmup", 0, 0);
  if (parameters || reader.has("warmup")) warmup_ = warmup;
}

double Sparsity::ratio(const EncodeContext& c) const {
  const int64_t warmup = warmup_ ? *warmup_ : std::min(c.run_steps / kPartOfRun, c.epoch_steps * kEpochs);
  if (c.step >= warmup || ratio_ >= kFirstRatio) return ratio_;
  const double done = static_cast<double>(c.step) / static_cast<double>(warmup);
  return kFirstRatio * std::pow(ratio_ / kFirstRatio, done);
}

double Sparsity::most() const { return warmup_ == 0 ? ratio_ : std::max(ratio_, kFirstRatio); }

}  // namespace dtrain::compress
