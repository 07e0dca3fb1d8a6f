// dot, pairwise_dot and their gradients: a few short rows a sample, too small for a product of matrices, many samples.
#include "ops/dot.h"

#include "base/vectorize.h"
#include "ops/cpu/lane_sum.h"
#include "ops/cpu/own_kernel.h"
#include "ops/registry.h"

namespace dtrain::ops::cpu {
namespace {

DTRAIN_CLONES
float product(const float* a, const float* b, int64_t n) {
  return lane_sum(
      n, [&](int64_t i) __attribute__((always_inline)) { return a[i] * b[i]; });
}

// y = (or +=) f · x
DTRAIN_CLONES
void scaled(float f, const float* x, float* y, int64_t n, bool first) {
  if (first) {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) y[i] = f * x[i];
  } else {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) y[i] += f * x[i];
  }
}

class DotBase : public OwnKernel {
 public:
  using OwnKernel::OwnKernel;
  static std::optional<std::string> unsupported(const OpRequest&) { return std::nullopt; }

 protected:
  // Calls f(sample) for all of them, with so many multiplications in each.
  template <typename F>
  void for_samples(int64_t n, int64_t work, F f) const {
    for_pieces(n, kGrain / std::max<int64_t>(work, 1), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) f(i);
    });
  }
};

class DotKernel final : public DotBase {
 public:
  explicit DotKernel(const OpRequest& r)
      : DotBase(r),
        n_(r.inputs[0].shape[0]),
        rows_(r.inputs[0].shape[1]),
        others_(r.inputs[1].shape[1]),
        dim_(r.inputs[0].shape[2]) {
    flops = 2.0 * static_cast<double>(n_ * rows_ * others_ * dim_);
  }

  void run(std::span<const void* const> in, std::span<void* const> out, void*, const RunContext&) override {
    const auto *a = static_cast<const float*>(in[0]), *b = static_cast<const float*>(in[1]);
    auto* y = static_cast<float*>(out[0]);
    for_samples(n_, rows_ * others_ * dim_, [&](int64_t i) {
      for (int64_t r = 0; r < rows_; ++r)
        for (int64_t s = 0; s < others_; ++s)
          y[(i * rows_ + r) * others_ + s] = product(a + (i * rows_ + r) * dim_, b + (i * others_ + s) * dim_, dim_);
    });
  }

 private:
  int64_t n_, rows_, others_, dim_;
};

class DotBackwardKernel final : public DotBase {
 public:
  explicit DotBackwardKernel(const OpRequest& r)
      : DotBase(r),
        second_(r.attributes_as<Dot>().second),
        n_(r.inputs[0].shape[0]),
        rows_(r.inputs[0].shape[1]),
        others_(r.inputs[0].shape[2]),
        dim_(r.outputs[0].shape[2]) {
    flops = 2.0 * static_cast<double>(n_ * rows_ * others_ * dim_);
  }

  void run(std::span<const void* const> in, std::span<void* const> out, void*, const RunContext&) override {
    const auto *dy = static_cast<const float*>(in[0]), *other = static_cast<const float*>(in[1]);
    auto* to = static_cast<float*>(out[0]);
    const int64_t made = second_ ? others_ : rows_, terms = second_ ? rows_ : others_;
    for_samples(n_, rows_ * others_ * dim_, [&](int64_t i) {
      for (int64_t o = 0; o < made; ++o)
        for (int64_t t = 0; t < terms; ++t) {
          const float f = dy[(i * rows_ + (second_ ? t : o)) * others_ + (second_ ? o : t)];
          scaled(f, other + (i * terms + t) * dim_, to + (i * made + o) * dim_, dim_, t == 0);
        }
    });
  }

 private:
  bool second_;
  int64_t n_, rows_, others_, dim_;
};

class PairwiseDotKernel final : public DotBase {
 public:
  explicit PairwiseDotKernel(const OpRequest& r)
      : DotBase(r), n_(r.inputs[0].shape[0]), rows_(r.inputs[0].shape[1]), dim_(r.inputs[0].shape[2]) {
    flops = static_cast<double>(n_ * rows_ * (rows_ - 1) * dim_);
  }

  void run(std::span<const void* const> in, std::span<void* const> out, void*, const RunContext&) override {
    for_samples(n_, rows_ * rows_ * dim_ / 2, [&](int64_t i) {
      const float* x = static_cast<const float*>(in[0]) + i * rows_ * dim_;
      float* y = static_cast<float*>(out[0]) + i * (rows_ * (rows_ - 1) / 2);
      for (int64_t r = 1; r < rows_; ++r)
        for (int64_t s = 0; s < r; ++s) *y++ = product(x + r * dim_, x + s * dim_, dim_);
    });
  }

 private:
  int64_t n_, rows_, dim_;
};

class PairwiseDotBackwardKernel final : public DotBase {
 public:
  explicit PairwiseDotBackwardKernel(const OpRequest& r)
      : DotBase(r), n_(r.inputs[1].shape[0]), rows_(r.inputs[1].shape[1]), dim_(r.inputs[1].shape[2]) {
    flops = 2.0 * static_cast<double>(n_ * rows_ * (rows_ - 1) * dim_);
  }

  void run(std::span<const void* const> in, std::span<void* const> out, void*, const RunContext&) override {
    for_samples(n_, rows_ * rows_ * dim_, [&](int64_t i) {
      const float* dy = static_cast<const float*>(in[0]) + i * (rows_ * (rows_ - 1) / 2);
      const float* x = static_cast<const float*>(in[1]) + i * rows_ * dim_;
      float* dx = static_cast<float*>(out[0]) + i * rows_ * dim_;
      for (int64_t r = 0; r < rows_; ++r) {
        bool first = true;
        for (int64_t s = 0; s < rows_; ++s) {
          if (s == r) continue;
          const int64_t high = std::max(r, s), low = std::min(r, s);
          scaled(dy[high * (high - 1) / 2 + low], x + s * dim_, dx + r * dim_, dim_, first);
          first = false;
        }
        if (first) std::fill_n(dx + r * dim_, dim_, 0.0f);
      }
    });
  }

 private:
  int64_t n_, rows_, dim_;
};

const Registration kDot("cpu", "dot", std::make_unique<OwnOp<DotKernel>>());
const Registration kDotBackward("cpu", "dot.backward", std::make_unique<OwnOp<DotBackwardKernel>>());
const Registration kPairwise("cpu", "pairwise_dot", std::make_unique<OwnOp<PairwiseDotKernel>>());
const Registration kPairwiseBackward("cpu", "pairwise_dot.backward",
                                     std::make_unique<OwnOp<PairwiseDotBackwardKernel>>());

}  // namespace
}  // namespace dtrain::ops::cpu
