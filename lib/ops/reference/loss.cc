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
  double total = 0, correct = 0;

  for (int64_t n = 0; n < samples; ++n) {
    double loss = 0;
    int64_t hits = 0;
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
      loss += own;
      if (call.out_count() < 2) continue;
      const double scale = 1.0 / static_cast<double>(samples * positions);
      for (int64_t c = 0; c < classes; ++c)
        call.out(1)[start + c * inner] =
            static_cast<float>((std::exp(logits[c * inner] - top) / sum - wanted(c)) * scale);
    }
    if (n >= call.context.valid) continue;
    total += loss / static_cast<double>(positions);
    correct += static_cast<double>(hits) / static_cast<double>(positions);
  }
  auto* metrics = call.out<double>(0);
  metrics[0] = total;
  metrics[1] = static_cast<double>(call.context.valid);
  metrics[2] = correct;
}

void mse(const Call& call) {
  const int64_t samples = call.in_shape(0)[0], n = call.in_shape(0).elements() / samples;
  DTRAIN_CHECK(call.in_shape(1).elements() == samples * n);
  double total = 0;
  for (int64_t s = 0; s < samples; ++s) {
    double loss = 0;
    for (int64_t i = s * n; i < (s + 1) * n; ++i) {
      const double difference = static_cast<double>(call.in(0)[i]) - call.in(1)[i];
      loss += difference * difference;
      if (call.out_count() > 1) call.out(1)[i] = static_cast<float>(2 * difference / static_cast<double>(samples * n));
    }
    if (s < call.context.valid) total += loss / static_cast<double>(n);
  }
  auto* metrics = call.out<double>(0);
  metrics[0] = total;
  metrics[1] = static_cast<double>(call.context.valid);
  metrics[2] = 0;
}

const Registration kSoftmax("reference", "softmax_cross_entropy", std::make_unique<PlainOp>(softmax_cross_entropy));
const Registration kMse("reference", "mse", std::make_unique<PlainOp>(mse));

}  // namespace
}  // namespace dtrain::ops::reference
