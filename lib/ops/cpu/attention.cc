// attention, attention.backward: for each sample and head, one block of queries after the other against all the keys
// that it may see. Products by oneDNN's sgemm, on rows where they lie in qkv; the scores of a block stay in the second
// cache, and nothing of size T² is written to memory.
//
// What lies above the diagonal is computed only within a block: with 64 queries a quarter of the work is saved at T =
// 128, nearly half of it at T = 1024, and products of 64 rows run as fast as larger ones (smaller ones do not). The
// probabilities are computed again for the gradient: one product more of seven costs as much as writing and reading T²
// numbers a head, and no memory.
#include "ops/attention.h"

#include <omp.h>
#include <oneapi/dnnl/dnnl.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/vectorize.h"
#include "ops/cpu/own_kernel.h"
#include "ops/cpu/vector_math.h"
#include "ops/registry.h"

namespace dtrain::ops::cpu {
namespace {

constexpr int64_t kBlock = 64;  // queries
constexpr int64_t kLanes = 16;

// Where in `from` a matrix begins and how far its rows are apart.
template <typename T>
struct Rows {
  T* at;
  int64_t stride;

  Rows from(int64_t row) const { return {at + row * stride, stride}; }
};
using Matrix = Rows<float>;
using ConstMatrix = Rows<const float>;

// c[m,n] = alpha · op(a)·op(b) + beta · c with k terms.
void product(char trans_a, char trans_b, int64_t m, int64_t n, int64_t k, float alpha, ConstMatrix a, ConstMatrix b,
             float beta, Matrix c) {
  const dnnl_status_t status =
      dnnl_sgemm(trans_a, trans_b, m, n, k, alpha, a.at, a.stride, b.at, b.stride, beta, c.at, c.stride);
  DTRAIN_CHECK(status == dnnl_success, "oneDNN's sgemm failed: {}", static_cast<int>(status));
}

// A block of scores: row r begins at r · `stride` and has `first` + r · `step` keys. Rows are taken in whole vectors:
// what stands behind a row's keys in its last vector counts as a score of −∞, and all behind that becomes 0.
struct Block {
  int64_t rows, width, stride, first, step;

  [[gnu::always_inline]] int64_t keys(int64_t r) const { return first + r * step; }
};

[[gnu::always_inline]] inline int64_t whole_vectors(int64_t n) { return (n + kLanes - 1) / kLanes * kLanes; }

// Hides what stands behind the n keys in their last vector.
[[gnu::always_inline]] inline void hide_rest(float* s, int64_t n) {
  constexpr float kHidden = -std::numeric_limits<float>::infinity();
  const int64_t last = whole_vectors(n) - kLanes;
  const auto left = static_cast<int32_t>(n - last);
#pragma omp simd
  for (int32_t l = 0; l < static_cast<int32_t>(kLanes); ++l) s[last + l] = l < left ? s[last + l] : kHidden;
}

[[gnu::always_inline]] inline float largest(const float* s, int64_t vectors) {
  float a[kLanes], b[8], c[4];
#pragma omp simd
  for (int64_t l = 0; l < kLanes; ++l) a[l] = s[l];
  for (int64_t i = kLanes; i < vectors; i += kLanes)
#pragma omp simd
    for (int64_t l = 0; l < kLanes; ++l) a[l] = s[i + l] > a[l] ? s[i + l] : a[l];
#pragma omp simd
  for (int l = 0; l < 8; ++l) b[l] = a[l] > a[l + 8] ? a[l] : a[l + 8];
#pragma omp simd
  for (int l = 0; l < 4; ++l) c[l] = b[l] > b[l + 4] ? b[l] : b[l + 4];
  const float left = c[0] > c[1] ? c[0] : c[1], right = c[2] > c[3] ? c[2] : c[3];
  return left > right ? left : right;
}

[[gnu::always_inline]] inline float sum_of(const float* a) {
  float b[8], c[4];
#pragma omp simd
  for (int l = 0; l < 8; ++l) b[l] = a[l] + a[l + 8];
#pragma omp simd
  for (int l = 0; l < 4; ++l) c[l] = b[l] + b[l + 4];
  return (c[0] + c[2]) + (c[1] + c[3]);
}

// s becomes exp(s − the row's largest); `share` is 1 over the row's sum.
DTRAIN_CLONES
void exponentials(const Block& b, float* s, float* tops, float* share) {
  for (int64_t r = 0; r < b.rows; ++r, s += b.stride) {
    const int64_t vectors = whole_vectors(b.keys(r));
    hide_rest(s, b.keys(r));
    const float top = largest(s, vectors);
    float lanes[kLanes] = {};
    for (int64_t i = 0; i < vectors; i += kLanes) {
#pragma omp simd
      for (int64_t l = 0; l < kLanes; ++l) {
        const float e = exponential(s[i + l] - top);
        s[i + l] = e;
        lanes[l] += e;
      }
    }
    for (int64_t i = vectors; i < b.stride; i += kLanes)
#pragma omp simd
      for (int64_t l = 0; l < kLanes; ++l) s[i + l] = 0.0f;
    const float sum = sum_of(lanes);
    tops[r] = sum == sum ? top : sum;  // whether a NaN was left out of the largest depends on where it stood
    share[r] = 1.0f / sum;
  }
}

DTRAIN_CLONES
void multiply_rows(Matrix y, int64_t rows, int64_t n, const float* factor) {
  for (int64_t r = 0; r < rows; ++r) {
    float* row = y.at + r * y.stride;
    const float f = factor[r];
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) row[i] *= f;
  }
}

// Σ y · dy of each row: what the softmax's gradient takes off, Σ p · dp.
DTRAIN_CLONES
void row_products(ConstMatrix y, ConstMatrix dy, int64_t rows, int64_t n, float* sums) {
  for (int64_t r = 0; r < rows; ++r) {
    const float *a = y.at + r * y.stride, *b = dy.at + r * dy.stride;
    float lanes[kLanes] = {};
    int64_t i = 0;
    for (; i + kLanes <= n; i += kLanes)
#pragma omp simd
      for (int64_t l = 0; l < kLanes; ++l) lanes[l] += a[i + l] * b[i + l];
    for (int64_t l = 0; i + l < n; ++l) lanes[l] += a[i + l] * b[i + l];
    sums[r] = sum_of(lanes);
  }
}

// What the gradient takes from the forward pass, for each query.
struct Softmax {
  const float *top, *share;
};

// s becomes p = exp(s − top) · share, dp becomes p · (dp − taken) · scale.
DTRAIN_CLONES
void probability_gradients(const Block& b, float* s, float* dp, const Softmax& softmax, const float* taken,
                           float scale) {
  for (int64_t r = 0; r < b.rows; ++r, s += b.stride, dp += b.stride) {
    const int64_t vectors = whole_vectors(b.keys(r));
    const float top = softmax.top[r], share = softmax.share[r], t = taken[r];
    hide_rest(s, b.keys(r));
    for (int64_t i = 0; i < vectors; i += kLanes) {
#pragma omp simd
      for (int64_t l = 0; l < kLanes; ++l) {
        const float p = exponential(s[i + l] - top) * share;
        s[i + l] = p;
        dp[i + l] = p * (dp[i + l] - t) * scale;
      }
    }
    for (int64_t i = vectors; i < b.stride; i += kLanes)
#pragma omp simd
      for (int64_t l = 0; l < kLanes; ++l) s[i + l] = dp[i + l] = 0.0f;
  }
}

class AttentionBase : public OwnKernel {
 public:
  // `matrices` of a block's scores in the scratch of each thread, and the products that a block takes.
  AttentionBase(const OpRequest& request, int64_t matrices, int products)
      : OwnKernel(request), causal_(attributes(request).causal) {
    const Shape& qkv = request.inputs[0].shape;
    heads_ = attributes(request).heads;
    DTRAIN_CHECK(qkv.rank() == 3 && qkv[2] % (3 * heads_) == 0);
    samples_ = qkv[0];
    length_ = qkv[1];
    dim_ = qkv[2] / 3;
    size_ = dim_ / heads_;
    scale_ = static_cast<float>(1.0 / std::sqrt(static_cast<double>(size_)));
    threads_ = static_cast<int>(std::min<int64_t>(omp_get_max_threads(), samples_ * heads_));
    own_scratch_ = matrices * std::min(kBlock, length_) * whole_vectors(length_) + 2 * kBlock;
    scratch_bytes = static_cast<size_t>(threads_ * own_scratch_) * sizeof(float);
    for (int64_t first = 0; first < length_; first += kBlock) {
      const Block b = block(first);
      flops += 2.0 * products * static_cast<double>(samples_ * dim_) * static_cast<double>(b.rows * b.width);
    }
  }
  std::string implementation() const override { return "sgemm"; }

  static std::optional<std::string> unsupported(const OpRequest&) { return std::nullopt; }

 protected:
  static const Attention& attributes(const OpRequest& r) { return r.attributes_as<Attention>(); }

  // Calls f(sample, head, the thread's scratch) for all of them.
  template <typename F>
  void for_heads(void* scratch, F f) const {
#pragma omp parallel for schedule(static) num_threads(threads_) if (threads_ > 1)
    for (int64_t i = 0; i < samples_ * heads_; ++i)
      f(i / heads_, i % heads_, static_cast<float*>(scratch) + omp_get_thread_num() * own_scratch_);
  }

  Block block(int64_t first) const {
    const int64_t rows = std::min(kBlock, length_ - first);
    const int64_t width = causal_ ? first + rows : length_;
    return {rows, width, whole_vectors(width), causal_ ? first + 1 : width, causal_ ? 1 : 0};
  }

  // The queries of a head; keys and values lie dim_ and 2·dim_ further.
  template <typename T>
  Rows<T> queries(T* qkv, int64_t sample, int64_t head) const {
    return {qkv + sample * length_ * 3 * dim_ + head * size_, 3 * dim_};
  }
  template <typename T>
  Rows<T> outputs_of(T* y, int64_t sample, int64_t head) const {
    return {y + sample * length_ * dim_ + head * size_, dim_};
  }
  template <typename T>
  Rows<T> shifted(Rows<T> m, int64_t columns) const {
    return {m.at + columns, m.stride};
  }

  bool causal_;
  int64_t heads_ = 1, samples_ = 0, length_ = 0, dim_ = 0, size_ = 0;  // size_: of a head
  float scale_ = 1;

 private:
  int threads_ = 1;
  int64_t own_scratch_ = 0;  // floats of a thread
};

class AttentionKernel final : public AttentionBase {
 public:
  explicit AttentionKernel(const OpRequest& request) : AttentionBase(request, 1, 2) {}

  void run(std::span<const void* const> in, std::span<void* const> out, void* scratch, const RunContext&) override {
    auto* kept = out.size() > 1 ? static_cast<float*>(out[1]) : nullptr;
    for_heads(scratch, [&](int64_t n, int64_t h, float* own) {
      const ConstMatrix q = queries(static_cast<const float*>(in[0]), n, h);
      const ConstMatrix k = shifted(q, dim_), v = shifted(q, 2 * dim_);
      const Matrix y = outputs_of(static_cast<float*>(out[0]), n, h);
      float* s = own + 2 * kBlock;
      for (int64_t first = 0; first < length_; first += kBlock) {
        const Block b = block(first);
        product('N', 'T', b.rows, b.width, size_, scale_, q.from(first), k, 0.0f, {s, b.stride});
        float *top = own, *share = own + kBlock;
        if (kept) top = kept + (n * heads_ + h) * 2 * length_ + first, share = top + length_;
        exponentials(b, s, top, share);
        product('N', 'N', b.rows, size_, b.width, 1.0f, {s, b.stride}, v, 0.0f, y.from(first));
        multiply_rows(y.from(first), b.rows, size_, share);
      }
    });
  }
};

class AttentionBackwardKernel final : public AttentionBase {
 public:
  explicit AttentionBackwardKernel(const OpRequest& request) : AttentionBase(request, 2, 5) {}

  void run(std::span<const void* const> in, std::span<void* const> out, void* scratch, const RunContext&) override {
    for_heads(scratch, [&](int64_t n, int64_t h, float* own) {
      const ConstMatrix q = queries(static_cast<const float*>(in[0]), n, h);
      const ConstMatrix k = shifted(q, dim_), v = shifted(q, 2 * dim_);
      const ConstMatrix y = outputs_of(static_cast<const float*>(in[1]), n, h);
      const ConstMatrix dy = outputs_of(static_cast<const float*>(in[2]), n, h);
      const float* kept = static_cast<const float*>(in[3]) + (n * heads_ + h) * 2 * length_;
      const Matrix dq = queries(static_cast<float*>(out[0]), n, h);
      const Matrix dk = shifted(dq, dim_), dv = shifted(dq, 2 * dim_);
      // The last block first: it sees every key, and so writes all that the others add to.
      for (int64_t first = (length_ - 1) / kBlock * kBlock; first >= 0; first -= kBlock) {
        const Block b = block(first);
        const float added = first + b.rows == length_ ? 0.0f : 1.0f;
        float *taken = own, *p = own + kBlock, *dp = p + b.rows * b.stride;
        product('N', 'T', b.rows, b.width, size_, scale_, q.from(first), k, 0.0f, {p, b.stride});
        product('N', 'T', b.rows, b.width, size_, 1.0f, dy.from(first), v, 0.0f, {dp, b.stride});
        row_products(y.from(first), dy.from(first), b.rows, size_, taken);
        probability_gradients(b, p, dp, {kept + first, kept + length_ + first}, taken, scale_);
        product('T', 'N', b.width, size_, b.rows, 1.0f, {p, b.stride}, dy.from(first), added, dv);
        product('T', 'N', b.width, size_, b.rows, 1.0f, {dp, b.stride}, q.from(first), added, dk);
        product('N', 'N', b.rows, size_, b.width, 1.0f, {dp, b.stride}, k, 0.0f, dq.from(first));
      }
    });
  }
};

const Registration kForward("cpu", "attention", std::make_unique<OwnOp<AttentionKernel>>());
const Registration kBackward("cpu", "attention.backward", std::make_unique<OwnOp<AttentionBackwardKernel>>());

}  // namespace
}  // namespace dtrain::ops::cpu
