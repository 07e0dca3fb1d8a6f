// cosine: sums of products in fp64 over sixteen lanes a position.
#include <cmath>

#include "base/vectorize.h"
#include "ops/cpu/own_kernel.h"
#include "ops/loss.h"
#include "ops/registry.h"

namespace dtrain::ops::cpu {
namespace {

constexpr int64_t kLanes = 16;

struct Products {
  double zz, zt, tt;
};

DTRAIN_CLONES
Products products(const float* z, const float* t, int64_t n) {
  double zz[kLanes] = {}, zt[kLanes] = {}, tt[kLanes] = {};
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes)
#pragma omp simd
    for (int64_t l = 0; l < kLanes; ++l) {
      const auto a = static_cast<double>(z[i + l]), b = static_cast<double>(t[i + l]);
      zz[l] += a * a;
      zt[l] += a * b;
      tt[l] += b * b;
    }
  for (int64_t l = 0; i + l < n; ++l) {
    const auto a = static_cast<double>(z[i + l]), b = static_cast<double>(t[i + l]);
    zz[l] += a * a;
    zt[l] += a * b;
    tt[l] += b * b;
  }
  Products sums{0, 0, 0};
  for (int64_t l = 0; l < kLanes; ++l) {
    sums.zz += zz[l];
    sums.zt += zt[l];
    sums.tt += tt[l];
  }
  return sums;
}

// dz = z·p − t·q.
DTRAIN_CLONES
void combine(const float* z, double p, const float* t, double q, float* dz, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i)
    dz[i] = static_cast<float>(static_cast<double>(z[i]) * p - static_cast<double>(t[i]) * q);
}

class CosineKernel final : public OwnKernel {
 public:
  explicit CosineKernel(const OpRequest& request) : OwnKernel(request) {
    const Shape& z = request.inputs[0].shape;
    samples_ = z[0];
    width_ = z.at(-1);
    positions_ = z.elements() / (samples_ * width_);
    DTRAIN_CHECK(z.rank() >= 2 && request.inputs[1].shape.elements() == z.elements());
    scratch_bytes = static_cast<size_t>(samples_ * positions_) * sizeof(double);
    if (request.outputs.size() > 1) in_place = {{1, 0}, {1, 1}};
  }

  static std::optional<std::string> unsupported(const OpRequest&) { return std::nullopt; }

  void run(std::span<const void* const> in, std::span<void* const> out, void* scratch,
           const RunContext& context) override {
    const auto *z = static_cast<const float*>(in[0]), *t = static_cast<const float*>(in[1]);
    auto* losses = static_cast<double*>(scratch);
    const double scale = 1.0 / static_cast<double>(samples_ * positions_);
    for_pieces(samples_ * positions_, kGrain / width_, [&](int64_t begin, int64_t end) {
      for (int64_t p = begin; p < end; ++p) {
        const int64_t at = p * width_;
        const Products sums = products(z + at, t + at, width_);
        const double length = std::sqrt(sums.zz), wanted = std::sqrt(sums.tt);
        const double below =
            (length < kCosineEpsilon ? kCosineEpsilon : length) * (wanted < kCosineEpsilon ? kCosineEpsilon : wanted);
        losses[p] = 1.0 - sums.zt / below;
        if (out.size() < 2) continue;
        // A vector shorter than the epsilon is divided by a constant.
        const double along = length < kCosineEpsilon ? 0.0 : sums.zt / (below * sums.zz);
        combine(z + at, along * scale, t + at, scale / below, static_cast<float*>(out[1]) + at, width_);
      }
    });
    Metrics metrics{.samples = static_cast<double>(context.valid)};
    for (int64_t s = 0; s < context.valid; ++s) {
      double loss = 0;
      for (int64_t p = s * positions_; p < (s + 1) * positions_; ++p) loss += losses[p];
      metrics.loss += loss / static_cast<double>(positions_);
    }
    *static_cast<Metrics*>(out[0]) = metrics;
  }

 private:
  int64_t samples_, positions_, width_;
};

const Registration kOp("cpu", "cosine", std::make_unique<OwnOp<CosineKernel>>());

}  // namespace
}  // namespace dtrain::ops::cpu
