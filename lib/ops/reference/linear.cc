#include "ops/linear.h"

#include "ops/reference/activation_function.h"
#include "ops/reference/plain_op.h"
#include "ops/registry.h"

namespace dtrain::ops::reference {
namespace {

void forward(const Call& call) {
  const auto& a = call.request.attributes_as<Linear>();
  const float *x = call.in(0), *w = call.in(1), *b = call.in_count() > 2 ? call.in(2) : nullptr;
  const int64_t out = call.in_shape(1)[0], in = call.in_shape(1)[1], rows = call.in_shape(0).elements() / in;
  DTRAIN_CHECK(call.in_shape(0).at(-1) == in && call.out_shape(0).at(-1) == out);
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t o = 0; o < out; ++o) {
      double sum = b ? b[o] : 0.0f;
      for (int64_t i = 0; i < in; ++i) sum += call.factor(x[r * in + i]) * call.factor(w[o * in + i]);
      call.out(0)[r * out + o] = static_cast<float>(activate(a.activation, sum));
    }
}

void backward_data(const Call& call) {
  const float *dy = call.in(0), *w = call.in(1);
  const int64_t out = call.in_shape(1)[0], in = call.in_shape(1)[1], rows = call.in_shape(0).elements() / out;
  DTRAIN_CHECK(call.in_shape(0).at(-1) == out && call.out_shape(0).at(-1) == in);
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t i = 0; i < in; ++i) {
      double sum = 0;
      for (int64_t o = 0; o < out; ++o) sum += call.factor(dy[r * out + o]) * call.factor(w[o * in + i]);
      call.out(0)[r * in + i] = static_cast<float>(sum);
    }
}

void backward_weights(const Call& call) {
  const float *x = call.in(0), *dy = call.in(1);
  const int64_t out = call.out_shape(0)[0], in = call.out_shape(0)[1], rows = call.in_shape(0).elements() / in;
  DTRAIN_CHECK(call.in_shape(0).at(-1) == in && call.in_shape(1).at(-1) == out);
  for (int64_t o = 0; o < out; ++o)
    for (int64_t i = 0; i < in; ++i) {
      double sum = 0;
      for (int64_t r = 0; r < rows; ++r) sum += call.factor(x[r * in + i]) * call.factor(dy[r * out + o]);
      call.out(0)[o * in + i] = static_cast<float>(sum);
    }
  if (call.out_count() < 2) return;
  for (int64_t o = 0; o < out; ++o) {
    double sum = 0;
    for (int64_t r = 0; r < rows; ++r) sum += dy[r * out + o];
    call.out(1)[o] = static_cast<float>(sum);
  }
}

void backward_rows(const Call& call) {
  const float *x = call.in(0), *dy = call.in(1);
  const int64_t n = call.out_shape(0)[0], in = call.out_shape(0)[1], rows = call.in_shape(0).elements() / in;
  const int64_t out = call.in_shape(1).at(-1), first = call.request.attributes_as<LinearRows>().first;
  for (int64_t o = 0; o < n; ++o)
    for (int64_t i = 0; i < in; ++i) {
      double sum = 0;
      for (int64_t r = 0; r < rows; ++r) sum += call.factor(x[r * in + i]) * call.factor(dy[r * out + first + o]);
      call.out(0)[o * in + i] = static_cast<float>(sum);
    }
}

void backward_bias(const Call& call) {
  const float* dy = call.in(0);
  const int64_t out = call.out_shape(0)[0], rows = call.in_shape(0).elements() / out;
  for (int64_t o = 0; o < out; ++o) {
    double sum = 0;
    for (int64_t r = 0; r < rows; ++r) sum += dy[r * out + o];
    call.out(0)[o] = static_cast<float>(sum);
  }
}

const Registration kForward("reference", "linear", std::make_unique<PlainOp>(forward));
const Registration kData("reference", "linear.backward_data", std::make_unique<PlainOp>(backward_data));
const Registration kWeights("reference", "linear.backward_weights", std::make_unique<PlainOp>(backward_weights));
const Registration kRows("reference", "linear.backward_rows", std::make_unique<PlainOp>(backward_rows));
const Registration kBias("reference", "linear.backward_bias", std::make_unique<PlainOp>(backward_bias));

}  // namespace
}  // namespace dtrain::ops::reference
