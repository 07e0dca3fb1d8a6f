#include "ops/loss.h"

#include <cmath>
#include <limits>

#include "ops/reference/plain_op.h"
#include "ops/registry.h"

namespace dtrain::ops::reference {
namespace {

void softmax_cross_entropy(const Call& call) {
  const auto& a = call.request.attributes_as<SoftmaxCrossEntropy>();
  const Shape& z = call.in_shape(0);
  const int axis = a.axis < 0 ? a.axis + z.rank() : a.axis;
  DTRAIN_CHECK(axis > 0 && axis < z.rank());
  int64_t inner = 1;
  for (int i = axis + 1; i < z.rank(); ++i) inner *= z[i];
  const int64_t classes = z[axis], samples = z[0], positions = z.elements() / (samples * classes);
  const double other = a.label_smoothing / static_cast<double>(classes);  // q where the label is not
  Metrics metrics{.samples = static_cast<double>(call.context.valid)};

  for (int64_t n = 0; n < samples; ++n) {
    double loss = 0;
    int64_t hits = 0, near = 0;
    for (int64_t p = 0; p < positions; ++p) {
      const int64_t start = (n * positions + p / inner * inner) * classes + p % inner;
      const float* logits = call.in(0) + start;
      const int64_t label = call.in<int32_t>(1)[n * positions + p];
      const bool known = label >= 0 && label < classes;
      int64_t best = 0;
      for (int64_t c = 1; c < classes; ++c)
        if (logits[c * inner] > logits[best * inner]) best = c;
      const double top = logits[best * inner];
      double sum = 0;
      for (int64_t c = 0; c < classes; ++c) sum += std::exp(logits[c * inner] - top);
      auto wanted = [&](int64_t c) {
        if (!known) return std::numeric_limits<double>::quiet_NaN();
        return other + (c == label ? 1.0 - a.label_smoothing : 0.0);
      };
      double own = 0;
      for (int64_t c = 0; c < classes; ++c)
        if (wanted(c) != 0) own -= wanted(c) * (logits[c * inner] - top - std::log(sum));
      if (best == label && !std::isnan(own)) ++hits;
      if (known && !std::isnan(own)) {
        int64_t before = 0;
        for (int64_t c = 0; c < classes; ++c) {
          const float other_logit = logits[c * inner], label_logit = logits[label * inner];
          if (other_logit > label_logit || (other_logit == label_logit && c < label)) ++before;
        }
        if (before < a.top_k) ++near;
      }
      loss += own;
      if (call.out_count() < 2) continue;
      const double scale = 1.0 / static_cast<double>(samples * positions);
      for (int64_t c = 0; c < classes; ++c)
        call.out(1)[start + c * inner] =
            static_cast<float>((std::exp(logits[c * inner] - top) / sum - wanted(c)) * scale);
    }
    if (n >= call.context.valid) continue;
    metrics.loss += loss / static_cast<double>(positions);
    metrics.correct += static_cast<double>(hits) / static_cast<double>(positions);
    metrics.among_top += static_cast<double>(near) / static_cast<double>(positions);
  }
  *call.out<Metrics>(0) = metrics;
}

struct LossAndSlope {
  double loss, slope;
};

// The mean over a sample's elements of what f(z, t) gives.
template <typename F>
void elementwise(const Call& call, F f) {
  const int64_t samples = call.in_shape(0)[0], n = call.in_shape(0).elements() / samples;
  DTRAIN_CHECK(call.in_shape(1).elements() == samples * n);
  Metrics metrics{.samples = static_cast<double>(call.context.valid)};
  for (int64_t s = 0; s < samples; ++s) {
    double loss = 0;
    for (int64_t i = s * n; i < (s + 1) * n; ++i) {
      const LossAndSlope at = f(static_cast<double>(call.in(0)[i]), static_cast<double>(call.in(1)[i]));
      loss += at.loss;
      if (call.out_count() > 1) call.out(1)[i] = static_cast<float>(at.slope / static_cast<double>(samples * n));
    }
    if (s < call.context.valid) metrics.loss += loss / static_cast<double>(n);
  }
  *call.out<Metrics>(0) = metrics;
}

void mse(const Call& call) {
  elementwise(call, [](double z, double t) { return LossAndSlope{(z - t) * (z - t), 2 * (z - t)}; });
}

void sigmoid_cross_entropy(const Call& call) {
  elementwise(call, [](double z, double t) {
    const double away = z > 0 ? z - z * t : -(z * t);
    return LossAndSlope{away + std::log1p(std::exp(-std::fabs(z))), 1 / (1 + std::exp(-z)) - t};
  });
}

void huber(const Call& call) {
  const double delta = call.request.attributes_as<Huber>().delta;
  elementwise(call, [delta](double z, double t) {
    const double d = z - t;
    if (std::fabs(d) <= delta) return LossAndSlope{0.5 * d * d, d};
    return LossAndSlope{delta * (std::fabs(d) - 0.5 * delta), std::isnan(d) ? d : std::copysign(delta, d)};
  });
}

void cosine(const Call& call) {
  const Shape& shape = call.in_shape(0);
  const int64_t samples = shape[0], width = shape.at(-1), positions = shape.elements() / (samples * width);
  Metrics metrics{.samples = static_cast<double>(call.context.valid)};
  for (int64_t s = 0; s < samples; ++s) {
    double loss = 0;
    for (int64_t p = s * positions; p < (s + 1) * positions; ++p) {
      const float *z = call.in(0) + p * width, *t = call.in(1) + p * width;
      double zz = 0, zt = 0, tt = 0;
      for (int64_t i = 0; i < width; ++i) {
        zz += static_cast<double>(z[i]) * z[i];
        zt += static_cast<double>(z[i]) * t[i];
        tt += static_cast<double>(t[i]) * t[i];
      }
      const bool short_z = std::sqrt(zz) < kCosineEpsilon, short_t = std::sqrt(tt) < kCosineEpsilon;
      const double length = (short_z ? kCosineEpsilon : std::sqrt(zz)) * (short_t ? kCosineEpsilon : std::sqrt(tt));
      loss += 1 - zt / length;
      if (call.out_count() < 2) continue;
      const double scale = 1.0 / static_cast<double>(samples * positions);
      for (int64_t i = 0; i < width; ++i) {
        const double along = short_z ? 0 : zt / zz * z[i];
        call.out(1)[p * width + i] = static_cast<float>((along - t[i]) / length * scale);
      }
    }
    if (s < call.context.valid) metrics.loss += loss / static_cast<double>(positions);
  }
  *call.out<Metrics>(0) = metrics;
}

const Registration kSoftmax("reference", "softmax_cross_entropy", std::make_unique<PlainOp>(softmax_cross_entropy));
const Registration kSigmoid("reference", "sigmoid_cross_entropy", std::make_unique<PlainOp>(sigmoid_cross_entropy));
const Registration kMse("reference", "mse", std::make_unique<PlainOp>(mse));
const Registration kHuber("reference", "huber", std::make_unique<PlainOp>(huber));
const Registration kCosine("reference", "cosine", std::make_unique<PlainOp>(cosine));

}  // namespace
}  // namespace dtrain::ops::reference
