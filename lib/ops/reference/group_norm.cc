#include "ops/group_norm.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "ops/reference/plain_op.h"
#include "ops/registry.h"

namespace dtrain::ops::reference {
namespace {

// x[N,C,…] row-major: group g of all N·groups is `size` elements that follow each other, `inner` of each channel.
struct Extents {
  int64_t groups, size, inner, channels;
  int64_t channel(int64_t at) const { return at / inner % channels; }
};

Extents extents_of(const Call& call) {
  const Shape& x = call.in_shape(0);
  const int64_t groups = call.request.attributes_as<GroupNorm>().groups;
  DTRAIN_CHECK(groups > 0 && x[1] % groups == 0);
  return {x[0] * groups, x.elements() / (x[0] * groups), x.elements() / (x[0] * x[1]), x[1]};
}

void forward(const Call& call) {
  const double epsilon = call.request.attributes_as<GroupNorm>().epsilon;
  const Extents e = extents_of(call);
  const auto n = static_cast<double>(e.size);
  const bool affine = call.in_count() > 1;
  for (int64_t g = 0; g < e.groups; ++g) {
    double mean = 0, variance = 0;
    for (int64_t i = g * e.size; i < (g + 1) * e.size; ++i) mean += call.in(0)[i] / n;
    for (int64_t i = g * e.size; i < (g + 1) * e.size; ++i)
      variance += (call.in(0)[i] - mean) * (call.in(0)[i] - mean) / n;
    const double rstd = 1.0 / std::sqrt(variance + epsilon);
    for (int64_t i = g * e.size; i < (g + 1) * e.size; ++i) {
      const double normalised = (call.in(0)[i] - mean) * rstd;
      const int64_t c = e.channel(i);
      call.out(0)[i] = static_cast<float>(affine ? normalised * call.in(1)[c] + call.in(2)[c] : normalised);
    }
    if (call.out_count() == 1) continue;
    call.out(1)[g] = static_cast<float>(mean);
    call.out(2)[g] = static_cast<float>(rstd);
  }
}

// As that of a row of layer_norm, where each channel has its gamma.
void backward(const Call& call) {
  const Extents e = extents_of(call);
  const auto n = static_cast<double>(e.size);
  const bool affine = call.in_count() > 4;
  std::vector<double> dgamma(static_cast<size_t>(e.channels)), dbeta(dgamma);
  for (int64_t g = 0; g < e.groups; ++g) {
    const double mean = call.in(2)[g], rstd = call.in(3)[g];
    const auto normalised = [&](int64_t i) { return (call.in(0)[i] - mean) * rstd; };
    const auto gradient = [&](int64_t i) -> double {
      return static_cast<double>(call.in(1)[i]) * (affine ? call.in(4)[e.channel(i)] : 1.0f);
    };
    double sum = 0, dot = 0;
    for (int64_t i = g * e.size; i < (g + 1) * e.size; ++i) {
      sum += gradient(i) / n;
      dot += gradient(i) * normalised(i) / n;
      dgamma[static_cast<size_t>(e.channel(i))] += call.in(1)[i] * normalised(i);
      dbeta[static_cast<size_t>(e.channel(i))] += call.in(1)[i];
    }
    for (int64_t i = g * e.size; i < (g + 1) * e.size; ++i)
      call.out(0)[i] = static_cast<float>(rstd * (gradient(i) - sum - normalised(i) * dot));
  }
  if (call.out_count() == 1) return;
  std::copy(dgamma.begin(), dgamma.end(), call.out(1));
  std::copy(dbeta.begin(), dbeta.end(), call.out(2));
}

const Registration kForward("reference", "group_norm", std::make_unique<PlainOp>(forward));
const Registration kBackward("reference", "group_norm.backward", std::make_unique<PlainOp>(backward));

}  // namespace
}  // namespace dtrain::ops::reference
