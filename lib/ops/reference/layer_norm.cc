#include "ops/layer_norm.h"

#include <algorithm>
#include <cmath>

#include "ops/reference/plain_op.h"
#include "ops/registry.h"

namespace dtrain::ops::reference {
namespace {

void forward(const Call& call) {
  const double epsilon = call.request.attributes_as<LayerNorm>().epsilon;
  const int64_t n = call.in_shape(0).at(-1), rows = call.in_shape(0).elements() / n;
  const bool affine = call.in_count() > 1;
  for (int64_t r = 0; r < rows; ++r) {
    const float* x = call.in(0) + r * n;
    double mean = 0, variance = 0;
    for (int64_t c = 0; c < n; ++c) mean += x[c] / static_cast<double>(n);
    for (int64_t c = 0; c < n; ++c) variance += (x[c] - mean) * (x[c] - mean) / static_cast<double>(n);
    const double rstd = 1.0 / std::sqrt(variance + epsilon);
    for (int64_t c = 0; c < n; ++c) {
      const double normalised = (x[c] - mean) * rstd;
      call.out(0)[r * n + c] = static_cast<float>(affine ? normalised * call.in(1)[c] + call.in(2)[c] : normalised);
    }
    if (call.out_count() == 1) continue;
    call.out(1)[r] = static_cast<float>(mean);
    call.out(2)[r] = static_cast<float>(rstd);
  }
}

// With x̂ = (x − mean)·rstd and g = dy·gamma: dx = rstd·(g − mean(g) − x̂·mean(g·x̂)).
void backward(const Call& call) {
  const int64_t n = call.in_shape(0).at(-1), rows = call.in_shape(0).elements() / n;
  const bool affine = call.in_count() > 4;
  std::vector<double> dgamma(static_cast<size_t>(n)), dbeta(dgamma);
  for (int64_t r = 0; r < rows; ++r) {
    const double mean = call.in(2)[r], rstd = call.in(3)[r];
    const auto normalised = [&](int64_t c) { return (call.in(0)[r * n + c] - mean) * rstd; };
    const auto g = [&](int64_t c) -> double {
      return static_cast<double>(call.in(1)[r * n + c]) * (affine ? call.in(4)[c] : 1.0f);
    };
    double sum = 0, dot = 0;
    for (int64_t c = 0; c < n; ++c) {
      sum += g(c) / static_cast<double>(n);
      dot += g(c) * normalised(c) / static_cast<double>(n);
      dgamma[static_cast<size_t>(c)] += call.in(1)[r * n + c] * normalised(c);
      dbeta[static_cast<size_t>(c)] += call.in(1)[r * n + c];
    }
    for (int64_t c = 0; c < n; ++c)
      call.out(0)[r * n + c] = static_cast<float>(rstd * (g(c) - sum - normalised(c) * dot));
  }
  if (call.out_count() == 1) return;
  std::copy(dgamma.begin(), dgamma.end(), call.out(1));
  std::copy(dbeta.begin(), dbeta.end(), call.out(2));
}

const Registration kForward("reference", "layer_norm", std::make_unique<PlainOp>(forward));
const Registration kBackward("reference", "layer_norm.backward", std::make_unique<PlainOp>(backward));

}  // namespace
}  // namespace dtrain::ops::reference
