#include "ops/attention.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "ops/reference/plain_op.h"
#include "ops/registry.h"

namespace dtrain::ops::reference {
namespace {

// One head of one sample.
struct Head {
  Head(const Call& call, int64_t n, int64_t h) {
    const auto& a = call.request.attributes_as<Attention>();
    const Shape& qkv = call.in_shape(0);
    length = qkv[1];
    dim = qkv[2] / 3;
    size = dim / a.heads;
    DTRAIN_CHECK(qkv[2] == 3 * dim && dim % a.heads == 0);
    causal = a.causal;
    first = n * length * 3 * dim + h * size;
    plain = n * length * dim + h * size;
    query = call.in(0) + first;
  }

  double q(int64_t i, int64_t d) const { return query[i * 3 * dim + d]; }
  double k(int64_t j, int64_t d) const { return query[j * 3 * dim + dim + d]; }
  double v(int64_t j, int64_t d) const { return query[j * 3 * dim + 2 * dim + d]; }
  double scale() const { return 1.0 / std::sqrt(static_cast<double>(size)); }
  int64_t keys(int64_t i) const { return causal ? i + 1 : length; }

  struct Softmax {
    double top, share;
  };
  // The probabilities of query i.
  Softmax probabilities(int64_t i, std::vector<double>& p) const {
    p.assign(static_cast<size_t>(keys(i)), 0.0);
    double top = -std::numeric_limits<double>::infinity(), sum = 0;
    for (int64_t j = 0; j < keys(i); ++j) {
      double s = 0;
      for (int64_t d = 0; d < size; ++d) s += q(i, d) * k(j, d);
      p[static_cast<size_t>(j)] = s * scale();
      top = std::max(top, s * scale());
    }
    for (double& e : p) sum += e = std::exp(e - top);
    for (double& e : p) e /= sum;
    return {std::isnan(sum) ? sum : top, 1 / sum};
  }

  int64_t length, dim, size;
  bool causal;
  int64_t first, plain;  // where its first query stands in qkv, its first output in y
  const float* query;
};

void forward(const Call& call) {
  const int64_t samples = call.in_shape(0)[0], heads = call.request.attributes_as<Attention>().heads;
  std::vector<double> p;
  for (int64_t n = 0; n < samples; ++n)
    for (int64_t h = 0; h < heads; ++h) {
      const Head head(call, n, h);
      for (int64_t i = 0; i < head.length; ++i) {
        const auto [top, share] = head.probabilities(i, p);
        if (call.out_count() > 1) {
          float* kept = call.out(1) + (n * heads + h) * 2 * head.length + i;
          kept[0] = static_cast<float>(top);
          kept[head.length] = static_cast<float>(share);
        }
        for (int64_t d = 0; d < head.size; ++d) {
          double sum = 0;
          for (int64_t j = 0; j < head.keys(i); ++j) sum += p[static_cast<size_t>(j)] * head.v(j, d);
          call.out(0)[head.plain + i * head.dim + d] = static_cast<float>(sum);
        }
      }
    }
}

// From qkv and dy alone.
void backward(const Call& call) {
  const int64_t samples = call.in_shape(0)[0], heads = call.request.attributes_as<Attention>().heads;
  std::vector<double> p, dp;
  for (int64_t n = 0; n < samples; ++n)
    for (int64_t h = 0; h < heads; ++h) {
      const Head head(call, n, h);
      const float* dy = call.in(2) + head.plain;
      const int64_t size = head.size, stride = 3 * size;  // of one row of gradients: query, key, value
      std::vector<double> gradient(static_cast<size_t>(head.length * stride));
      for (int64_t i = 0; i < head.length; ++i) {
        head.probabilities(i, p);
        dp.assign(p.size(), 0.0);
        double mean = 0;
        for (int64_t j = 0; j < head.keys(i); ++j) {
          for (int64_t d = 0; d < size; ++d) dp[static_cast<size_t>(j)] += dy[i * head.dim + d] * head.v(j, d);
          mean += p[static_cast<size_t>(j)] * dp[static_cast<size_t>(j)];
        }
        for (int64_t j = 0; j < head.keys(i); ++j) {
          const double pj = p[static_cast<size_t>(j)];
          const double ds = pj * (dp[static_cast<size_t>(j)] - mean) * head.scale();
          double *query = &gradient[static_cast<size_t>(i * stride)], *key = &gradient[static_cast<size_t>(j * stride)];
          for (int64_t d = 0; d < size; ++d) {
            query[d] += ds * head.k(j, d);
            key[size + d] += ds * head.q(i, d);
            key[2 * size + d] += pj * dy[i * head.dim + d];
          }
        }
      }
      for (int64_t i = 0; i < head.length; ++i)
        for (int64_t part = 0; part < 3; ++part)
          for (int64_t d = 0; d < size; ++d)
            call.out(0)[head.first + i * 3 * head.dim + part * head.dim + d] =
                static_cast<float>(gradient[static_cast<size_t>(i * stride + part * size + d)]);
    }
}

const Registration kForward("reference", "attention", std::make_unique<PlainOp>(forward));
const Registration kBackward("reference", "attention.backward", std::make_unique<PlainOp>(backward));

}  // namespace
}  // namespace dtrain::ops::reference
