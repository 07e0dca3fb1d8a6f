// softmax_cross_entropy: rows of classes where the axis is innermost, else blocks of neighbouring positions.
// Exponentials in fp32, their sums in fp64. Each position writes its loss into scratch; they are added in order
// afterwards.
#include <array>
#include <limits>

#include "base/vectorize.h"
#include "ops/cpu/lane_maximum.h"
#include "ops/cpu/own_kernel.h"
#include "ops/cpu/vector_math.h"
#include "ops/loss.h"
#include "ops/registry.h"

namespace dtrain::ops::cpu {
namespace {

constexpr int64_t kLanes = 16;
constexpr int64_t kChunk = 512;     // classes whose exponentials are in flight without dz
constexpr int64_t kPositions = 64;  // neighbouring positions done together

DTRAIN_CLONES
float largest(const float* z, int64_t n) { return lane_maximum(z, n); }

// e[c] = exp(z[c] − top).
DTRAIN_CLONES
void exponentials(const float* z, float top, float* e, int64_t n) {
#pragma omp simd
  for (int64_t c = 0; c < n; ++c) e[c] = exponential(z[c] - top);
}

// sum[l] += x[c] for c ≡ l modulo kLanes.
DTRAIN_CLONES
void accumulate(const float* x, int64_t n, double* sum) {
  int64_t c = 0;
  for (; c + kLanes <= n; c += kLanes)
#pragma omp simd
    for (int64_t l = 0; l < kLanes; ++l) sum[l] += static_cast<double>(x[c + l]);
  for (int64_t l = 0; c + l < n; ++l) sum[l] += static_cast<double>(x[c + l]);
}

// e[c] = e[c]·factor − rest.
DTRAIN_CLONES
void finish(float* e, float factor, float rest, int64_t n) {
#pragma omp simd
  for (int64_t c = 0; c < n; ++c) e[c] = e[c] * factor - rest;
}

// The same steps over `n` neighbouring positions and one class.
DTRAIN_CLONES
void raise(const float* z, float* top, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) top[i] = z[i] > top[i] ? z[i] : top[i];
}
DTRAIN_CLONES
void exponentials_between(const float* z, const float* top, float* e, double* sum, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) e[i] = exponential(z[i] - top[i]);
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) sum[i] += static_cast<double>(e[i]);
}
DTRAIN_CLONES
void finish_between(float* e, const float* factor, float rest, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) e[i] = e[i] * factor[i] - rest;
}

// How many logits of one position come before the label's, whose logit is `own`: larger ones, and equal ones below it.
DTRAIN_CLONES
int64_t logits_before(const float* z, float own, int64_t label, int64_t n) {
  int64_t count = 0;
  for (int64_t c = 0; c < label; ++c) count += z[c] >= own;
  for (int64_t c = label + 1; c < n; ++c) count += z[c] > own;
  return count;
}
// The same for `n` neighbouring positions and one class: adds to their counts.
DTRAIN_CLONES
void count_before(const float* z, const float* own, const int32_t* label, int32_t c, int32_t* count, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i)
    count[i] += static_cast<int32_t>(z[i] > own[i]) | (static_cast<int32_t>(z[i] == own[i]) & (c < label[i]));
}

double total(const double* lanes) {
  double sum = 0;
  for (int64_t l = 0; l < kLanes; ++l) sum += lanes[l];
  return sum;
}

class SoftmaxCrossEntropyKernel final : public OwnKernel {
 public:
  explicit SoftmaxCrossEntropyKernel(const OpRequest& request)
      : OwnKernel(request),
        smoothing_(request.attributes_as<SoftmaxCrossEntropy>().label_smoothing),
        top_k_(request.attributes_as<SoftmaxCrossEntropy>().top_k) {
    const Shape& z = request.inputs[0].shape;
    int axis = request.attributes_as<SoftmaxCrossEntropy>().axis;
    if (axis < 0) axis += z.rank();
    DTRAIN_CHECK(axis > 0 && axis < z.rank());
    samples_ = z[0];
    classes_ = z[axis];
    for (int i = 1; i < axis; ++i) outer_ *= z[i];
    for (int i = axis + 1; i < z.rank(); ++i) inner_ *= z[i];
    positions_ = outer_ * inner_;
    DTRAIN_CHECK(request.inputs[1].shape.elements() == samples_ * positions_ && classes_ > 0);
    scratch_bytes = static_cast<size_t>(samples_ * positions_) * (sizeof(double) + 2);
    if (request.outputs.size() > 1) in_place = {{1, 0}};
  }

  static std::optional<std::string> unsupported(const OpRequest&) { return std::nullopt; }

  void run(std::span<const void* const> in, std::span<void* const> out, void* scratch,
           const RunContext& context) override {
    Row row{static_cast<const float*>(in[0]),
            static_cast<const int32_t*>(in[1]),
            out.size() > 1 ? static_cast<float*>(out[1]) : nullptr,
            static_cast<double*>(scratch),
            nullptr,
            nullptr};
    row.correct = reinterpret_cast<uint8_t*>(row.loss + samples_ * positions_);
    row.among_top = row.correct + samples_ * positions_;
    const int64_t rows = samples_ * outer_;
    if (inner_ == 1) {
      for_pieces(rows, kGrain / classes_, [&](int64_t begin, int64_t end) {
        for (int64_t r = begin; r < end; ++r) innermost(row, r);
      });
    } else {
      const int64_t blocks = (inner_ + kPositions - 1) / kPositions;
      for_pieces(rows * blocks, kGrain / (classes_ * kPositions), [&](int64_t begin, int64_t end) {
        for (int64_t b = begin; b < end; ++b) between(row, b / blocks, b % blocks * kPositions);
      });
    }
    *static_cast<Metrics*>(out[0]) = sum_up(row, context.valid);
  }

 private:
  // The buffers of one run; z and dz may be the same.
  struct Row {
    const float* z;
    const int32_t* labels;
    float* dz;
    double* loss;  // of each position
    uint8_t* correct;
    uint8_t* among_top;  // only where top_k_ asks for it
  };

  bool known(int64_t label) const { return label >= 0 && label < classes_; }

  // −Σ q·log p with log p = z − top − log Σ, from the sum over classes of z − top (used only with smoothing).
  double loss_of(double sum, double below_top, double label_below_top) const {
    const double log_sum = logarithm(sum), s = smoothing_;
    double loss = (1.0 - s) * (log_sum - label_below_top);
    if (s > 0) loss += s * (log_sum - below_top / static_cast<double>(classes_));
    return loss;
  }

  // dz of a whole sample is the gradient of the mean over samples and positions.
  double scale() const { return 1.0 / static_cast<double>(samples_ * positions_); }

  void record(const Row& row, int64_t position, int64_t stride, const float* z, float top, double sum,
              double below_top) const {
    const int64_t label = row.labels[position];
    if (!known(label)) {
      row.loss[position] = std::numeric_limits<double>::quiet_NaN();
      row.correct[position] = 0;
      return;
    }
    const float own = z[label * stride];
    row.loss[position] = loss_of(sum, below_top, static_cast<double>(own) - static_cast<double>(top));
    bool first = own == top && row.loss[position] == row.loss[position];
    for (int64_t c = 0; first && c < label; ++c) first = z[c * stride] != top;
    row.correct[position] = first;
  }

  // What the label's own dz is: (p − q)·scale, from exp(z − top); NaN in all classes where the label is unknown.
  float at_label(float e, double sum) const {
    return static_cast<float>((static_cast<double>(e) / sum - (1.0 - static_cast<double>(smoothing_)) -
                               static_cast<double>(smoothing_) / static_cast<double>(classes_)) *
                              scale());
  }
  float rest() const {
    return static_cast<float>(static_cast<double>(smoothing_) / static_cast<double>(classes_) * scale());
  }
  float factor(double sum, int64_t label) const {
    return known(label) ? static_cast<float>(scale() / sum) : std::numeric_limits<float>::quiet_NaN();
  }

  void innermost(const Row& row, int64_t r) const {
    const float* z = row.z + r * classes_;
    const float top = largest(z, classes_);
    double sums[kLanes] = {}, logits[kLanes] = {};
    if (smoothing_ > 0) accumulate(z, classes_, logits);
    // The loss is recorded before dz may overwrite z, so the exponentials of a first pass are thrown away in place.
    float e[kChunk];
    for (int64_t c = 0; c < classes_; c += kChunk) {
      const int64_t n = std::min(kChunk, classes_ - c);
      exponentials(z + c, top, e, n);
      accumulate(e, n, sums);
    }
    const double sum = total(sums);
    const double below_top = total(logits) - static_cast<double>(classes_) * static_cast<double>(top);
    record(row, r, 1, z, top, sum, below_top);
    const int64_t label = row.labels[r];
    if (top_k_ > 0) {
      const bool valued = row.loss[r] == row.loss[r];
      row.among_top[r] = valued && logits_before(z, z[label], label, classes_) < top_k_;
    }
    if (!row.dz) return;
    float* dz = row.dz + r * classes_;
    const float label_e = known(label) ? exponential(z[label] - top) : 0.0f;
    exponentials(z, top, dz, classes_);
    finish(dz, factor(sum, label), rest(), classes_);
    if (known(label)) dz[label] = at_label(label_e, sum);
  }

  // Positions first … first + n − 1 of row r, whose neighbours lie side by side and whose classes lie inner_ apart.
  void between(const Row& row, int64_t r, int64_t first) const {
    const int64_t n = std::min(kPositions, inner_ - first);
    const float* z = row.z + r * classes_ * inner_ + first;
    float top[kPositions], e[kPositions], factors[kPositions], label_e[kPositions];
    double sum[kPositions] = {}, logits[kPositions] = {};
    std::copy(z, z + n, top);
    for (int64_t c = 1; c < classes_; ++c) raise(z + c * inner_, top, n);
    for (int64_t c = 0; c < classes_; ++c) {
      exponentials_between(z + c * inner_, top, e, sum, n);
      for (int64_t i = 0; i < n && smoothing_ > 0; ++i)
        logits[i] += static_cast<double>(z[c * inner_ + i]) - static_cast<double>(top[i]);
    }
    const int64_t position = r * inner_ + first;
    for (int64_t i = 0; i < n; ++i) {
      const int64_t label = row.labels[position + i];
      record(row, position + i, inner_, z + i, top[i], sum[i], logits[i]);
      factors[i] = factor(sum[i], label);
      label_e[i] = known(label) ? exponential(z[label * inner_ + i] - top[i]) : 0.0f;
    }
    if (top_k_ > 0) count_top(row, position, z, n);
    if (!row.dz) return;
    float* dz = row.dz + r * classes_ * inner_ + first;
    for (int64_t c = 0; c < classes_; ++c) {
      for (int64_t i = 0; i < n; ++i) e[i] = z[c * inner_ + i];
      exponentials_between(e, top, dz + c * inner_, logits, n);
      finish_between(dz + c * inner_, factors, rest(), n);
    }
    for (int64_t i = 0; i < n; ++i) {
      const int64_t label = row.labels[position + i];
      if (known(label)) dz[label * inner_ + i] = at_label(label_e[i], sum[i]);
    }
  }

  // Of positions `first` … first + n − 1, whose losses are recorded.
  void count_top(const Row& row, int64_t first, const float* z, int64_t n) const {
    float own[kPositions];
    int32_t before[kPositions] = {};
    const int32_t* labels = row.labels + first;
    for (int64_t i = 0; i < n; ++i) own[i] = known(labels[i]) ? z[labels[i] * inner_ + i] : 0.0f;
    for (int64_t c = 0; c < classes_; ++c)
      count_before(z + c * inner_, own, labels, static_cast<int32_t>(c), before, n);
    for (int64_t i = 0; i < n; ++i)
      row.among_top[first + i] = row.loss[first + i] == row.loss[first + i] && before[i] < top_k_;
  }

  Metrics sum_up(const Row& row, int64_t valid) const {
    Metrics metrics{.samples = static_cast<double>(valid)};
    for (int64_t s = 0; s < valid; ++s) {
      double loss = 0;
      int64_t hits = 0, near = 0;
      for (int64_t p = s * positions_; p < (s + 1) * positions_; ++p) {
        loss += row.loss[p];
        hits += row.correct[p];
        near += top_k_ > 0 ? row.among_top[p] : 0;
      }
      metrics.loss += loss / static_cast<double>(positions_);
      metrics.correct += static_cast<double>(hits) / static_cast<double>(positions_);
      metrics.among_top += static_cast<double>(near) / static_cast<double>(positions_);
    }
    return metrics;
  }

  float smoothing_;
  int64_t top_k_;
  int64_t samples_, classes_, outer_ = 1, inner_ = 1, positions_;  // z is samples × outer × classes × inner
};

const Registration kOp("cpu", "softmax_cross_entropy", std::make_unique<OwnOp<SoftmaxCrossEntropyKernel>>());

}  // namespace
}  // namespace dtrain::ops::cpu
