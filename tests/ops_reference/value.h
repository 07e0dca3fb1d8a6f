// A tensor with its elements, for tests of ops: made by hand or from a seed, row-major.
#pragma once

#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/philox.h"
#include "ops/registry.h"

namespace dtrain::ops::test {

struct Value {
  TensorDesc desc;  // plain
  std::vector<std::byte> bytes;

  template <typename T = float>
  T* data() {
    return reinterpret_cast<T*>(bytes.data());
  }
  template <typename T = float>
  const T* data() const {
    return reinterpret_cast<const T*>(bytes.data());
  }
  int64_t size() const { return desc.shape.elements(); }
  template <typename T = float>
  std::vector<T> list() const {
    return std::vector<T>(data<T>(), data<T>() + size());
  }
};

inline Value empty_value(const Shape& shape, DType dtype = DType::kF32) {
  Value v;
  v.desc = {shape, dtype, nullptr};
  v.bytes.resize(v.desc.bytes());
  return v;
}

template <typename T>
Value value_of(const Shape& shape, const std::vector<T>& elements, DType dtype) {
  Value v = empty_value(shape, dtype);
  DTRAIN_CHECK(elements.size() * sizeof(T) == v.bytes.size());
  std::memcpy(v.bytes.data(), elements.data(), v.bytes.size());
  return v;
}
inline Value floats(const Shape& shape, const std::vector<float>& elements) {
  return value_of(shape, elements, DType::kF32);
}
inline Value ints(const Shape& shape, const std::vector<int32_t>& elements) {
  return value_of(shape, elements, DType::kI32);
}

// Standard normal numbers; the same for the same seed and shape.
inline Value normal(const Shape& shape, uint32_t seed) {
  Value v = empty_value(shape);
  const Philox random(seed, stream_id("test"), 0, 0);
  for (int64_t i = 0; i < v.size(); ++i) v.data()[i] = standard_normal(random.at(static_cast<uint64_t>(i)));
  return v;
}
// Uniform in [low, high).
inline Value uniform(const Shape& shape, uint32_t seed, float low, float high) {
  Value v = empty_value(shape);
  const Philox random(seed, stream_id("test"), 1, 0);
  for (int64_t i = 0; i < v.size(); ++i)
    v.data()[i] = low + (high - low) * uniform01(random.at(static_cast<uint64_t>(i)));
  return v;
}
// Labels in [0, classes).
inline Value labels(const Shape& shape, uint32_t seed, int64_t classes) {
  Value v = empty_value(shape, DType::kI32);
  const Philox random(seed, stream_id("test"), 2, 0);
  for (int64_t i = 0; i < v.size(); ++i)
    v.data<int32_t>()[i] = static_cast<int32_t>(random.at(static_cast<uint64_t>(i)) % static_cast<uint32_t>(classes));
  return v;
}
// No two closer than `gap`, in random order: maxima and kinks stay where they are under a small change.
inline Value spread(const Shape& shape, uint32_t seed, float gap) {
  Value v = empty_value(shape);
  const int64_t n = v.size();
  for (int64_t i = 0; i < n; ++i) v.data()[i] = gap * (static_cast<float>(i - n / 2) + 0.5f);
  const Philox random(seed, stream_id("test"), 3, 0);
  for (int64_t i = n - 1; i > 0; --i)
    std::swap(v.data()[i], v.data()[random.at(static_cast<uint64_t>(i)) % static_cast<uint32_t>(i + 1)]);
  return v;
}

inline OpRequest request_of(std::string op, std::any attributes, const std::vector<Value>& inputs,
                            std::vector<TensorDesc> outputs) {
  OpRequest request{std::move(op), std::move(attributes), {}, std::move(outputs)};
  for (const Value& v : inputs) request.inputs.push_back(v.desc);
  return request;
}

inline TensorDesc f32(const Shape& shape) { return {shape, DType::kF32, nullptr}; }
inline TensorDesc f64(const Shape& shape) { return {shape, DType::kF64, nullptr}; }
inline TensorDesc opaque() { return {Shape{0}, DType::kU8, nullptr}; }

// Runs an op of the reference backend.
inline std::vector<Value> run_reference(const std::string& op, const std::any& attributes,
                                        const std::vector<Value>& inputs, const std::vector<TensorDesc>& outputs,
                                        const RunContext& context = {}) {
  auto kernel = OpRegistry::instance().plan("reference", request_of(op, attributes, inputs, outputs));
  DTRAIN_CHECK(kernel.has_value(), "{}", kernel.error().message);
  std::vector<const void*> in;
  std::vector<void*> out;
  std::vector<Value> results;
  for (const Value& v : inputs) in.push_back(v.bytes.data());
  for (const TensorDesc& d : (*kernel)->outputs) results.push_back(empty_value(d.shape, d.dtype));
  for (Value& v : results) out.push_back(v.bytes.data());
  std::vector<std::byte> scratch((*kernel)->scratch_bytes);
  (*kernel)->run(in, out, scratch.data(), context);
  return results;
}

}  // namespace dtrain::ops::test
