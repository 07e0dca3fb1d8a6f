// What all ops of the reference backend share: an op whose kernel is one function over plain buffers. The reference
// backend exists to be read and compared with: straight loops, fp64 accumulators, row-major layouts, one thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "ops/op.h"
#include "tensor/bf16.h"

namespace dtrain::ops::reference {

// One execution: buffers i are laid out as request.inputs[i] and request.outputs[i] say, row-major.
struct Call {
  const OpRequest& request;
  std::span<const void* const> inputs;
  std::span<void* const> outputs;
  const RunContext& context;

  template <typename T = float>
  const T* in(size_t i) const {
    return static_cast<const T*>(inputs[i]);
  }
  template <typename T = float>
  T* out(size_t i) const {
    return static_cast<T*>(outputs[i]);
  }
  const Shape& in_shape(size_t i) const { return request.inputs[i].shape; }
  const Shape& out_shape(size_t i) const { return request.outputs[i].shape; }
  // A factor of a product, as OpRequest::compute rounds it.
  double factor(float x) const { return request.compute == DType::kBF16 ? rounded_to_bf16(x) : x; }
  size_t in_count() const { return inputs.size(); }
  size_t out_count() const { return outputs.size(); }
};

class PlainOp final : public Op {
 public:
  using Body = void (*)(const Call& call);
  using Check = std::optional<std::string> (*)(const OpRequest& request);
  // Bytes of the opaque output numbered `index`.
  struct Workspace {
    size_t index;
    size_t (*bytes)(const OpRequest& request);
  };

  explicit PlainOp(Body body, Check check = nullptr, std::optional<Workspace> workspace = std::nullopt)
      : body_(body), check_(check), workspace_(workspace) {}

  std::optional<std::string> unsupported(const OpRequest& request) const override;
  Result<std::unique_ptr<Kernel>> plan(const OpRequest& request) const override;

 private:
  Body body_;
  Check check_;
  std::optional<Workspace> workspace_;
};

}  // namespace dtrain::ops::reference
