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

#include "base/vectorize.h"
#include "ops/cpu/lane_sum.h"
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

[[gnu::always_inline]] inline float largest(const float* s, int64_t n) {
  float lanes[kLanes];
  for (float& lane : lanes) lane = s[0];
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes)
#pragma omp simd
    for (int64_t l = 0; l < kLanes; ++l) lanes[l] = s[i + l] > lanes[l] ? s[i + l] : lanes[l];
  for (int64_t l = 0; i + l < n; ++l) lanes[l] = s[i + l] > lanes[l] ? s[i + l] : lanes[l];
  float top = lanes[0];
  for (float lane : lanes) top = lane > top ? lane : top;
  return top;
}

// A block of scores: row r has `first` + r · `step` keys of `width`.
struct Block {
  int64_t rows, width, first, step;

  [[gnu::always_inline]] int64_t keys(int64_t r) const { return first + r * step; }
};

// s becomes exp(s − the row's largest), 0 where no key is; `share` is 1 over the row's sum, lse may be null.
DTRAIN_CLONES
void exponentials(const Block& b, float* s, float* share, float* lse) {
  for (int64_t r = 0; r < b.rows; ++r, s += b.width) {
    const int64_t n = b.keys(r);
    const float top = largest(s, n);
#pragma omp simd
    for (int64_t j = 0; j < n; ++j) s[j] = exponential(s[j] - top);
    for (int64_t j = n; j < b.width; ++j) s[j] = 0.0f;
    const float* e = s;
    const float sum = lane_sum(
        n, [e](int64_t j) __attribute__((always_inline)) { return e[j]; });
    share[r] = 1.0f / sum;
    if (lse) lse[r] = top + static_cast<float>(logarithm(static_cast<double>(sum)));
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
    sums[r] = lane_sum(
        n, [ a, b ](int64_t i) __attribute__((always_inline)) { return a[i] * b[i]; });
  }
}

// s becomes p = exp(s − lse), dp becomes p · (dp − taken) · scale, both 0 where no key is.
DTRAIN_CLONES
void probability_gradients(const Block& b, float* s, float* dp, const float* lse, const float* taken, float scale) {
  for (int64_t r = 0; r < b.rows; ++r, s += b.width, dp += b.width) {
    const int64_t n = b.keys(r);
    const float l = lse[r], t = taken[r];
#pragma omp simd
    for (int64_t j = 0; j < n; ++j) {
      const float p = exponential(s[j] - l);
      s[j] = p;
      dp[j] = p * (dp[j] - t) * scale;
    }
    for (int64_t j = n; j < b.width; ++j) s[j] = dp[j] = 0.0f;
  }
}

class AttentionBase : public OwnKernel {
 public:
  // `matrices` of a block's scores in the scratch of each thread.
  AttentionBase(const OpRequest& request, int64_t matrices) : OwnKernel(request), causal_(attributes(request).causal) {
    const Shape& qkv = request.inputs[0].shape;
    heads_ = attributes(request).heads;
    DTRAIN_CHECK(qkv.rank() == 3 && qkv[2] % (3 * heads_) == 0);
    samples_ = qkv[0];
    length_ = qkv[1];
    dim_ = qkv[2] / 3;
    size_ = dim_ / heads_;
    scale_ = static_cast<float>(1.0 / std::sqrt(static_cast<double>(size_)));
    threads_ = static_cast<int>(std::min<int64_t>(omp_get_max_threads(), samples_ * heads_));
    own_scratch_ = (matrices * std::min(kBlock, length_) * length_ + kBlock + kLanes - 1) / kLanes * kLanes;
    scratch_bytes = static_cast<size_t>(threads_ * own_scratch_) * sizeof(float);
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
    return causal_ ? Block{rows, first + rows, first + 1, 1} : Block{rows, length_, length_, 0};
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
  explicit AttentionKernel(const OpRequest& request) : AttentionBase(request, 1) {}

  void run(std::span<const void* const> in, std::span<void* const> out, void* scratch, const RunContext&) override {
    auto* lse = out.size() > 1 ? static_cast<float*>(out[1]) : nullptr;
    for_heads(scratch, [&](int64_t n, int64_t h, float* own) {
      const ConstMatrix q = queries(static_cast<const float*>(in[0]), n, h);
      const ConstMatrix k = shifted(q, dim_), v = shifted(q, 2 * dim_);
      const Matrix y = outputs_of(static_cast<float*>(out[0]), n, h);
      float *share = own, *s = own + kBlock;
      for (int64_t first = 0; first < length_; first += kBlock) {
        const Block b = block(first);
        product('N', 'T', b.rows, b.width, size_, scale_, q.from(first), k, 0.0f, {s, b.width});
        exponentials(b, s, share, lse ? lse + (n * heads_ + h) * length_ + first : nullptr);
        product('N', 'N', b.rows, size_, b.width, 1.0f, {s, b.width}, v, 0.0f, y.from(first));
        multiply_rows(y.from(first), b.rows, size_, share);
      }
    });
  }
};

class AttentionBackwardKernel final : public AttentionBase {
 public:
  explicit AttentionBackwardKernel(const OpRequest& request) : AttentionBase(request, 2) {}

  void run(std::span<const void* const> in, std::span<void* const> out, void* scratch, const RunContext&) override {
    for_heads(scratch, [&](int64_t n, int64_t h, float* own) {
      const ConstMatrix q = queries(static_cast<const float*>(in[0]), n, h);
      const ConstMatrix k = shifted(q, dim_), v = shifted(q, 2 * dim_);
      const ConstMatrix y = outputs_of(static_cast<const float*>(in[1]), n, h);
      const ConstMatrix dy = outputs_of(static_cast<const float*>(in[2]), n, h);
      const float* lse = static_cast<const float*>(in[3]) + (n * heads_ + h) * length_;
      const Matrix dq = queries(static_cast<float*>(out[0]), n, h);
      const Matrix dk = shifted(dq, dim_), dv = shifted(dq, 2 * dim_);
      // The last block first: it sees every key, and so writes all that the others add to.
      for (int64_t first = (length_ - 1) / kBlock * kBlock; first >= 0; first -= kBlock) {
        const Block b = block(first);
        const float kept = first + b.rows == length_ ? 0.0f : 1.0f;
        float *taken = own, *p = own + kBlock, *dp = p + b.rows * b.width;
        product('N', 'T', b.rows, b.width, size_, scale_, q.from(first), k, 0.0f, {p, b.width});
        product('N', 'T', b.rows, b.width, size_, 1.0f, dy.from(first), v, 0.0f, {dp, b.width});
        row_products(y.from(first), dy.from(first), b.rows, size_, taken);
        probability_gradients(b, p, dp, lse + first, taken, scale_);
        product('T', 'N', b.width, size_, b.rows, 1.0f, {p, b.width}, dy.from(first), kept, dv);
        product('T', 'N', b.width, size_, b.rows, 1.0f, {dp, b.width}, q.from(first), kept, dk);
        product('N', 'N', b.rows, size_, b.width, 1.0f, {dp, b.width}, k, 0.0f, dq.from(first));
      }
    });
  }
};

const Registration kForward("cpu", "attention", std::make_unique<OwnOp<AttentionKernel>>());
const Registration kBackward("cpu", "attention.backward", std::make_unique<OwnOp<AttentionBackwardKernel>>());

}  // namespace
}  // namespace dtrain::ops::cpu
