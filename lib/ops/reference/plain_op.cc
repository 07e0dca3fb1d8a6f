#include "ops/reference/plain_op.h"

#include <utility>

namespace dtrain::ops::reference {
namespace {

class PlainKernel final : public Kernel {
 public:
  PlainKernel(OpRequest request, PlainOp::Body body) : request_(std::move(request)), body_(body) {
    input_layouts.assign(request_.inputs.size(), nullptr);
    outputs = request_.outputs;
  }

  void run(std::span<const void* const> in, std::span<void* const> out, void*, const RunContext& context) override {
    DTRAIN_CHECK(in.size() == request_.inputs.size() && out.size() == request_.outputs.size(), "{}", request_.op);
    body_({request_, in, out, context});
  }
  std::string implementation() const override { return "reference"; }

 private:
  OpRequest request_;  // with plain layouts
  PlainOp::Body body_;
};

}  // namespace

std::optional<std::string> PlainOp::unsupported(const OpRequest& request) const {
  return check_ ? check_(request) : std::nullopt;
}

Result<std::unique_ptr<Kernel>> PlainOp::plan(const OpRequest& request) const {
  OpRequest plain = request;
  for (TensorDesc& d : plain.inputs) d.layout = nullptr;
  for (TensorDesc& d : plain.outputs) d.layout = nullptr;
  if (workspace_ && workspace_->index < plain.outputs.size())
    plain.outputs[workspace_->index] = {Shape{static_cast<int64_t>(workspace_->bytes(plain))}, DType::kU8, nullptr};
  return std::unique_ptr<Kernel>(std::make_unique<PlainKernel>(std::move(plain), body_));
}

}  // namespace dtrain::ops::reference
