// embedding, position_embedding and their gradients: rows copied, and rows added in the order in which they come. A
// gradient is cut between threads along the row, so that one thread makes all of an element's sum, and tokens that come
// often are no more work for one than for another.
#include "ops/embedding.h"

#include <omp.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "base/vectorize.h"
#include "ops/cpu/own_kernel.h"
#include "ops/registry.h"

namespace dtrain::ops::cpu {
namespace {

constexpr int64_t kLine = 16;     // floats of a cache line: columns are cut by these
constexpr int64_t kStrip = 1024;  // elements of a position table that are summed over all samples at a time

DTRAIN_CLONES
void add_to(float* sum, const float* x, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) sum[i] += x[i];
}

DTRAIN_CLONES
void add(const float* a, const float* b, float* y, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) y[i] = a[i] + b[i];
}

// Row numbers from tokens of either type.
class Tokens {
 public:
  explicit Tokens(const TensorDesc& tokens, int64_t vocabulary)
      : whole_(tokens.dtype == DType::kI32), vocabulary_(vocabulary) {}

  static std::optional<std::string> unsupported(const TensorDesc& tokens) {
    if (tokens.dtype == DType::kI32 || tokens.dtype == DType::kF32) return std::nullopt;
    return fmt::format("tokens of type {}", name_of(tokens.dtype));
  }

  // −1 where token `i` is not a class.
  int64_t row(const void* tokens, int64_t i) const {
    if (whole_) {
      const int64_t token = static_cast<const int32_t*>(tokens)[i];
      return token >= 0 && token < vocabulary_ ? token : -1;
    }
    const float token = static_cast<const float*>(tokens)[i];
    if (!(token >= 0.0f && token < static_cast<float>(vocabulary_))) return -1;
    const auto row = static_cast<int64_t>(token);
    return static_cast<float>(row) == token ? row : -1;
  }

 private:
  bool whole_;
  int64_t vocabulary_;
};

class EmbeddingKernel final : public OwnKernel {
 public:
  explicit EmbeddingKernel(const OpRequest& request)
      : OwnKernel(request),
        tokens_(request.inputs[0], request.inputs[1].shape[0]),
        n_(request.inputs[0].shape.elements()),
        dim_(request.inputs[1].shape[1]) {
    DTRAIN_CHECK(request.outputs[0].shape.elements() == n_ * dim_);
  }

  static std::optional<std::string> unsupported(const OpRequest& r) { return Tokens::unsupported(r.inputs[0]); }

  void run(std::span<const void* const> in, std::span<void* const> out, void*, const RunContext&) override {
    const auto* w = static_cast<const float*>(in[1]);
    auto* y = static_cast<float*>(out[0]);
    for_pieces(n_, kGrain / dim_, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t row = tokens_.row(in[0], i);
        if (row >= 0)
          std::memcpy(y + i * dim_, w + row * dim_, static_cast<size_t>(dim_) * sizeof(float));
        else
          std::fill_n(y + i * dim_, dim_, std::numeric_limits<float>::quiet_NaN());
      }
    });
  }

 private:
  Tokens tokens_;
  int64_t n_, dim_;
};

class EmbeddingBackwardKernel final : public OwnKernel {
 public:
  explicit EmbeddingBackwardKernel(const OpRequest& request)
      : OwnKernel(request),
        tokens_(request.inputs[0], request.outputs[0].shape[0]),
        n_(request.inputs[0].shape.elements()),
        vocabulary_(request.outputs[0].shape[0]),
        dim_(request.outputs[0].shape[1]) {
    DTRAIN_CHECK(request.inputs[1].shape.elements() == n_ * dim_);
  }

  static std::optional<std::string> unsupported(const OpRequest& r) { return Tokens::unsupported(r.inputs[0]); }

  void run(std::span<const void* const> in, std::span<void* const> out, void*, const RunContext&) override {
    const auto* dy = static_cast<const float*>(in[1]);
    auto* dw = static_cast<float*>(out[0]);
    const int64_t threads = (n_ + vocabulary_) * dim_ > kGrain ? omp_get_max_threads() : 1;
    const int64_t lines = (dim_ + kLine - 1) / kLine;
    for_pieces(lines, (lines + threads - 1) / threads, [&](int64_t begin, int64_t end) {
      const int64_t first = begin * kLine, columns = std::min(end * kLine, dim_) - first;
      for (int64_t row = 0; row < vocabulary_; ++row) std::fill_n(dw + row * dim_ + first, columns, 0.0f);
      for (int64_t i = 0; i < n_; ++i)
        if (const int64_t row = tokens_.row(in[0], i); row >= 0)
          add_to(dw + row * dim_ + first, dy + i * dim_ + first, columns);
    });
  }

 private:
  Tokens tokens_;
  int64_t n_, vocabulary_, dim_;
};

class PositionEmbeddingKernel final : public OwnKernel {
 public:
  explicit PositionEmbeddingKernel(const OpRequest& request) : OwnKernel(request) {
    const Shape &x = request.inputs[0].shape, &w = request.inputs[1].shape;
    DTRAIN_CHECK(x.rank() == 3 && w[0] >= x[1] && w[1] == x[2]);
    samples_ = x[0];
    sample_ = x[1] * x[2];
    in_place = {{0, 0}};
  }

  static std::optional<std::string> unsupported(const OpRequest&) { return std::nullopt; }

  void run(std::span<const void* const> in, std::span<void* const> out, void*, const RunContext&) override {
    const auto *x = static_cast<const float*>(in[0]), *w = static_cast<const float*>(in[1]);
    auto* y = static_cast<float*>(out[0]);
    const int64_t strips = (sample_ + kStrip - 1) / kStrip;
    for_pieces(samples_ * strips, kGrain / kStrip, [&](int64_t begin, int64_t end) {
      for (int64_t s = begin; s < end; ++s) {
        const int64_t at = s % strips * kStrip, from = s / strips * sample_ + at;
        add(x + from, w + at, y + from, std::min(kStrip, sample_ - at));
      }
    });
  }

 private:
  int64_t samples_ = 0, sample_ = 0;  // sample_: elements of one
};

class PositionEmbeddingBackwardKernel final : public OwnKernel {
 public:
  explicit PositionEmbeddingBackwardKernel(const OpRequest& request) : OwnKernel(request) {
    const Shape &dy = request.inputs[0].shape, &dw = request.outputs[0].shape;
    DTRAIN_CHECK(dy.rank() == 3 && dw[0] >= dy[1] && dw[1] == dy[2]);
    samples_ = dy[0];
    sample_ = dy[1] * dy[2];
    table_ = dw.elements();
  }

  static std::optional<std::string> unsupported(const OpRequest&) { return std::nullopt; }

  void run(std::span<const void* const> in, std::span<void* const> out, void*, const RunContext&) override {
    const auto* dy = static_cast<const float*>(in[0]);
    auto* dw = static_cast<float*>(out[0]);
    const int64_t strips = (sample_ + kStrip - 1) / kStrip;
    for_pieces(strips, kGrain / (kStrip * samples_), [&](int64_t begin, int64_t end) {
      for (int64_t s = begin; s < end; ++s) {
        const int64_t at = s * kStrip, n = std::min(kStrip, sample_ - at);
        std::memcpy(dw + at, dy + at, static_cast<size_t>(n) * sizeof(float));
        for (int64_t k = 1; k < samples_; ++k) add_to(dw + at, dy + k * sample_ + at, n);
      }
    });
    std::fill(dw + sample_, dw + table_, 0.0f);
  }

 private:
  int64_t samples_ = 0, sample_ = 0, table_ = 0;
};

const Registration kForward("cpu", "embedding", std::make_unique<OwnOp<EmbeddingKernel>>());
const Registration kBackward("cpu", "embedding.backward", std::make_unique<OwnOp<EmbeddingBackwardKernel>>());
const Registration kPosition("cpu", "position_embedding", std::make_unique<OwnOp<PositionEmbeddingKernel>>());
const Registration kPositionBackward("cpu", "position_embedding.backward",
                                     std::make_unique<OwnOp<PositionEmbeddingBackwardKernel>>());

}  // namespace
}  // namespace dtrain::ops::cpu
