#include "ops/elementwise.h"

#include <cstring>

#include "base/philox.h"
#include "ops/reference/activation_function.h"
#include "ops/reference/plain_op.h"
#include "ops/registry.h"

namespace dtrain::ops::reference {
namespace {

void add(const Call& call) {
  const auto& a = call.request.attributes_as<Add>();
  for (int64_t i = 0, n = call.out_shape(0).elements(); i < n; ++i) {
    double sum = 0;
    for (size_t k = 0; k < call.in_count(); ++k) sum += call.in(k)[i];
    call.out(0)[i] = static_cast<float>(activate(a.activation, sum));
  }
}

// Extents before and after `axis`.
int64_t outer_of(const Shape& shape, int axis) {
  int64_t n = 1;
  for (int i = 0; i < axis; ++i) n *= shape[i];
  return n;
}
int64_t inner_of(const Shape& shape, int axis) {
  int64_t n = 1;
  for (int i = axis + 1; i < shape.rank(); ++i) n *= shape[i];
  return n;
}

void concat(const Call& call) {
  const int axis = call.request.attributes_as<Axis>().axis;
  const Shape& y = call.out_shape(0);
  const size_t element = size_of(call.request.outputs[0].dtype);
  const int64_t outer = outer_of(y, axis), inner = inner_of(y, axis);
  auto* to = call.out<std::byte>(0);
  for (int64_t o = 0; o < outer; ++o)
    for (size_t k = 0; k < call.in_count(); ++k) {
      const size_t bytes = static_cast<size_t>(call.in_shape(k)[axis] * inner) * element;
      std::memcpy(to, call.in<std::byte>(k) + static_cast<size_t>(o) * bytes, bytes);
      to += bytes;
    }
}

void slice(const Call& call) {
  const auto& a = call.request.attributes_as<Slice>();
  const Shape &x = call.in_shape(0), &y = call.out_shape(0);
  DTRAIN_CHECK(a.begin >= 0 && a.begin + y[a.axis] <= x[a.axis]);
  const size_t element = size_of(call.request.outputs[0].dtype);
  const int64_t outer = outer_of(y, a.axis), inner = inner_of(y, a.axis);
  const size_t bytes = static_cast<size_t>(y[a.axis] * inner) * element;
  for (int64_t o = 0; o < outer; ++o)
    std::memcpy(call.out<std::byte>(0) + static_cast<size_t>(o) * bytes,
                call.in<std::byte>(0) + static_cast<size_t>((o * x[a.axis] + a.begin) * inner) * element, bytes);
}

void slice_backward(const Call& call) {
  const auto& a = call.request.attributes_as<Slice>();
  const Shape &dy = call.in_shape(0), &dx = call.out_shape(0);
  DTRAIN_CHECK(a.begin >= 0 && a.begin + dy[a.axis] <= dx[a.axis]);
  const int64_t inner = inner_of(dx, a.axis);
  for (int64_t i = 0; i < dx.elements(); ++i) {
    const int64_t place = i / inner % dx[a.axis] - a.begin, outer = i / (inner * dx[a.axis]);
    const bool inside = place >= 0 && place < dy[a.axis];
    call.out(0)[i] = inside ? call.in(0)[(outer * dy[a.axis] + place) * inner + i % inner] : 0.0f;
  }
}

void dropout(const Call& call) {
  const auto& a = call.request.attributes_as<Dropout>();
  const Shape& x = call.in_shape(0);
  const int64_t samples = x[0], per_sample = x.elements() / samples;
  for (int64_t s = 0; s < samples; ++s) {
    const Philox random(call.context.seed, a.stream, static_cast<uint32_t>(call.context.step),
                        static_cast<uint32_t>(call.context.first_sample + s));
    for (int64_t e = 0; e < per_sample; ++e) {
      const int64_t i = s * per_sample + e;
      const bool keep = uniform01(random.at(static_cast<uint64_t>(e))) >= a.rate;
      call.out(0)[i] = keep ? static_cast<float>(call.in(0)[i] / (1.0 - a.rate)) : 0.0f;
    }
  }
}

void reorder(const Call& call) {
  std::memcpy(call.out<std::byte>(0), call.in<std::byte>(0), call.request.inputs[0].bytes());
}

std::optional<std::string> check_plain(const OpRequest& request) {
  if (request.inputs[0].layout || request.outputs[0].layout) return "a layout other than row-major";
  return std::nullopt;
}

const Registration kAdd("reference", "add", std::make_unique<PlainOp>(add));
const Registration kConcat("reference", "concat", std::make_unique<PlainOp>(concat));
const Registration kSlice("reference", "slice", std::make_unique<PlainOp>(slice));
const Registration kSliceBackward("reference", "slice.backward", std::make_unique<PlainOp>(slice_backward));
const Registration kDropout("reference", "dropout", std::make_unique<PlainOp>(dropout));
const Registration kDropoutBackward("reference", "dropout.backward", std::make_unique<PlainOp>(dropout));
const Registration kReorder("reference", "reorder", std::make_unique<PlainOp>(reorder, check_plain));

}  // namespace
}  // namespace dtrain::ops::reference
