#include "ops/embedding.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "ops/reference/plain_op.h"
#include "ops/registry.h"

namespace dtrain::ops::reference {
namespace {

// The row that token `i` names; −1 where it names none.
int64_t row_of(const Call& call, int64_t i, int64_t vocabulary) {
  if (call.request.inputs[0].dtype == DType::kI32) {
    const int32_t token = call.in<int32_t>(0)[i];
    return token >= 0 && token < vocabulary ? token : -1;
  }
  const double token = call.in(0)[i];
  return token >= 0 && token < static_cast<double>(vocabulary) && std::floor(token) == token
             ? static_cast<int64_t>(token)
             : -1;
}

void forward(const Call& call) {
  const int64_t vocabulary = call.in_shape(1)[0], dim = call.in_shape(1)[1], n = call.in_shape(0).elements();
  DTRAIN_CHECK(call.out_shape(0).elements() == n * dim);
  for (int64_t i = 0; i < n; ++i) {
    const int64_t row = row_of(call, i, vocabulary);
    for (int64_t d = 0; d < dim; ++d)
      call.out(0)[i * dim + d] = row < 0 ? std::numeric_limits<float>::quiet_NaN() : call.in(1)[row * dim + d];
  }
}

void backward(const Call& call) {
  const int64_t vocabulary = call.out_shape(0)[0], dim = call.out_shape(0)[1], n = call.in_shape(0).elements();
  DTRAIN_CHECK(call.in_shape(1).elements() == n * dim);
  std::vector<double> sum(static_cast<size_t>(vocabulary * dim));
  for (int64_t i = 0; i < n; ++i) {
    const int64_t row = row_of(call, i, vocabulary);
    for (int64_t d = 0; row >= 0 && d < dim; ++d) sum[static_cast<size_t>(row * dim + d)] += call.in(1)[i * dim + d];
  }
  std::transform(sum.begin(), sum.end(), call.out(0), [](double s) { return static_cast<float>(s); });
}

void position(const Call& call) {
  const Shape& x = call.in_shape(0);
  const int64_t row = x[1] * x[2];
  DTRAIN_CHECK(call.in_shape(1)[0] >= x[1] && call.in_shape(1)[1] == x[2]);
  for (int64_t i = 0; i < x.elements(); ++i)
    call.out(0)[i] = static_cast<float>(static_cast<double>(call.in(0)[i]) + call.in(1)[i % row]);
}

void position_backward(const Call& call) {
  const Shape& dy = call.in_shape(0);
  const int64_t row = dy[1] * dy[2];
  DTRAIN_CHECK(call.out_shape(0)[0] >= dy[1] && call.out_shape(0)[1] == dy[2]);
  for (int64_t i = 0; i < call.out_shape(0).elements(); ++i) {
    double sum = 0;
    for (int64_t n = 0; i < row && n < dy[0]; ++n) sum += call.in(0)[n * row + i];
    call.out(0)[i] = static_cast<float>(sum);
  }
}

const Registration kForward("reference", "embedding", std::make_unique<PlainOp>(forward));
const Registration kBackward("reference", "embedding.backward", std::make_unique<PlainOp>(backward));
const Registration kPosition("reference", "position_embedding", std::make_unique<PlainOp>(position));
const Registration kPositionBackward("reference", "position_embedding.backward",
                                     std::make_unique<PlainOp>(position_backward));

}  // namespace
}  // namespace dtrain::ops::reference
