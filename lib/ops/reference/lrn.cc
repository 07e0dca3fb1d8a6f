#include "ops/lrn.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "ops/reference/plain_op.h"
#include "ops/registry.h"

namespace dtrain::ops::reference {
namespace {

// x[N,C,…] as lines of C channels that lie `inner` apart.
struct Lines {
  int64_t count, channels, inner;
  int64_t at(int64_t line, int64_t c) const { return (line / inner * channels + c) * inner + line % inner; }
};

Lines lines_of(const Shape& x) { return {x.elements() / x[1], x[1], x.elements() / (x[0] * x[1])}; }

// Σ f(j) over the channels from `before` below c to `after` above it.
template <typename F>
double window_sum(const Lines& lines, int64_t c, int64_t before, int64_t after, F f) {
  before = std::min(before, c);
  after = std::min(after, lines.channels - 1 - c);
  double sum = 0;
  for (int64_t j = c - before; j <= c + after; ++j) sum += f(j);
  return sum;
}

double scale_at(const Call& call, const Lines& lines, int64_t line, int64_t c) {
  const auto& a = call.request.attributes_as<Lrn>();
  const auto square = [&](int64_t j) {
    const double x = call.in(0)[lines.at(line, j)];
    return x * x;
  };
  const double sum = window_sum(lines, c, a.size / 2, (a.size - 1) / 2, square);
  return a.k + a.alpha / static_cast<double>(a.size) * sum;
}

void forward(const Call& call) {
  const double beta = call.request.attributes_as<Lrn>().beta;
  const Lines lines = lines_of(call.in_shape(0));
  for (int64_t line = 0; line < lines.count; ++line)
    for (int64_t c = 0; c < lines.channels; ++c) {
      const int64_t at = lines.at(line, c);
      call.out(0)[at] = static_cast<float>(call.in(0)[at] * std::pow(scale_at(call, lines, line, c), -beta));
    }
}

void backward(const Call& call) {
  const auto& a = call.request.attributes_as<Lrn>();
  const double beta = a.beta, slope = 2.0 * a.alpha * beta / static_cast<double>(a.size);
  const Lines lines = lines_of(call.in_shape(0));
  std::vector<double> scale(static_cast<size_t>(lines.channels));
  for (int64_t line = 0; line < lines.count; ++line) {
    for (int64_t c = 0; c < lines.channels; ++c) scale[static_cast<size_t>(c)] = scale_at(call, lines, line, c);
    for (int64_t c = 0; c < lines.channels; ++c) {
      const double sum = window_sum(lines, c, (a.size - 1) / 2, a.size / 2, [&](int64_t j) {
        const int64_t at = lines.at(line, j);
        return static_cast<double>(call.in(1)[at]) * call.in(0)[at] *
               std::pow(scale[static_cast<size_t>(j)], -beta - 1);
      });
      const int64_t at = lines.at(line, c);
      call.out(0)[at] = static_cast<float>(call.in(1)[at] * std::pow(scale[static_cast<size_t>(c)], -beta) -
                                           slope * call.in(0)[at] * sum);
    }
  }
}

const Registration kForward("reference", "lrn", std::make_unique<PlainOp>(forward));
const Registration kBackward("reference", "lrn.backward", std::make_unique<PlainOp>(backward));

}  // namespace
}  // namespace dtrain::ops::reference
