// reorder: from any layout to any other.
#include <algorithm>
#include <cstring>

#include "ops/cpu/onednn.h"
#include "ops/cpu/weight_tiles.h"
#include "ops/registry.h"

namespace dtrain::ops::cpu {
namespace {

class CopyKernel final : public Kernel {
 public:
  explicit CopyKernel(const OpRequest& request) : bytes_(request.inputs[0].bytes()) {
    input_layouts = {request.inputs[0].layout};
    outputs = request.outputs;
    in_place = {{0, 0}};
  }
  void run(std::span<const void* const> in, std::span<void* const> out, void*, const RunContext&) override {
    if (in[0] != out[0]) std::memcpy(out[0], in[0], bytes_);
  }
  std::string implementation() const override { return "copy"; }

 private:
  size_t bytes_;
};

// Between layouts that see the value with different dimensions: by way of row-major order, which is common to both.
class TwoStepKernel final : public Kernel {
 public:
  TwoStepKernel(const OpRequest& request, std::unique_ptr<Kernel> first, std::unique_ptr<Kernel> second)
      : first_(std::move(first)), second_(std::move(second)) {
    input_layouts = {request.inputs[0].layout};
    outputs = request.outputs;
    const TensorDesc middle = {request.inputs[0].shape, request.inputs[0].dtype, nullptr};
    middle_bytes_ = (middle.bytes() + 63) / 64 * 64;
    scratch_bytes = middle_bytes_ + std::max(first_->scratch_bytes, second_->scratch_bytes);
  }
  void run(std::span<const void* const> in, std::span<void* const> out, void* scratch,
           const RunContext& context) override {
    void* const to_middle[] = {scratch};
    const void* const from_middle[] = {scratch};
    void* rest = static_cast<std::byte*>(scratch) + middle_bytes_;
    first_->run(in, to_middle, rest, context);
    second_->run(from_middle, out, rest, context);
  }
  std::string implementation() const override { return first_->implementation() + " " + second_->implementation(); }

 private:
  std::unique_ptr<Kernel> first_, second_;
  size_t middle_bytes_;
};

const OnednnLayout* onednn_layout(const TensorDesc& value) {
  return dynamic_cast<const OnednnLayout*>(value.layout.get());
}

bool is_float(DType type) { return type == DType::kF32 || type == DType::kBF16; }

bool nothing_changes(const OpRequest& r) {
  return r.inputs[0].dtype == r.outputs[0].dtype && same_layout(r.inputs[0].layout, r.outputs[0].layout);
}

bool differently_seen(const OpRequest& r) {
  const OnednnLayout *from = onednn_layout(r.inputs[0]), *to = onednn_layout(r.outputs[0]);
  return from && to && from->desc().dims() != to->desc().dims();
}

class Reorder final : public OnednnOp {
 public:
  std::optional<std::string> unsupported(const OpRequest& r) const override {
    const TensorDesc &from = r.inputs[0], &to = r.outputs[0];
    if (from.shape.elements() != to.shape.elements()) return "a reorder that changes the shape";
    if (nothing_changes(r)) return std::nullopt;
    if (!is_float(from.dtype) || !is_float(to.dtype)) return "layouts and changes of other types than F32 and BF16";
    if (differently_seen(r)) {
      auto [first, second] = steps(r);
      auto why = OnednnOp::unsupported(first);
      return why ? why : OnednnOp::unsupported(second);
    }
    return OnednnOp::unsupported(r);
  }
  Result<std::unique_ptr<Kernel>> plan(const OpRequest& r) const override {
    if (nothing_changes(r)) return std::make_unique<CopyKernel>(r);
    if (auto tiles = make_tile_reorder(r)) return tiles;
    if (!differently_seen(r)) return OnednnOp::plan(r);
    auto [first, second] = steps(r);
    DTRAIN_TRY_ASSIGN(auto to_middle, OnednnOp::plan(first));
    DTRAIN_TRY_ASSIGN(auto from_middle, OnednnOp::plan(second));
    return std::make_unique<TwoStepKernel>(r, std::move(to_middle), std::move(from_middle));
  }

 private:
  static std::pair<OpRequest, OpRequest> steps(const OpRequest& r) {
    const TensorDesc middle = {r.inputs[0].shape, r.inputs[0].dtype, nullptr};
    return {{r.op, {}, r.inputs, {middle}}, {r.op, {}, {middle}, r.outputs}};
  }
  tl::expected<Plan, std::string> describe(const OpRequest& r) const override {
    const OnednnLayout *from = onednn_layout(r.inputs[0]), *to = onednn_layout(r.outputs[0]);
    if ((r.inputs[0].layout && !from) || (r.outputs[0].layout && !to))
      return tl::unexpected<std::string>("a layout of another backend, or of a workspace");
    // The plain side takes the other's dimensions: row-major order is the same in both.
    const dnnl::memory::dims dims = from ? from->desc().dims()
                                    : to ? to->desc().dims()
                                         : dnnl::memory::dims{r.inputs[0].shape.elements()};
    const dnnl::memory::desc a = from ? from->desc() : cpu::plain(dims, r.inputs[0].dtype);
    const dnnl::memory::desc b = to ? to->desc() : cpu::plain(dims, r.outputs[0].dtype);
    dnnl::reorder::primitive_desc p(engine(), a, engine(), b, attributes());
    return Plan{.primitive = p, .arguments = {{DNNL_ARG_FROM, a, From::kInput, 0}, {DNNL_ARG_TO, b, From::kOutput, 0}}};
  }
};

const Registration reorder("cpu", "reorder", std::make_unique<Reorder>());

}  // namespace
}  // namespace dtrain::ops::cpu
