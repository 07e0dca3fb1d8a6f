#include "ops/cpu/onednn.h"

#include <oneapi/dnnl/dnnl_debug.h>
#include <algorithm>
#include <new>
#include <numeric>

namespace dtrain::ops::cpu {
namespace {

constexpr size_t kLine = 64;
size_t rounded(size_t bytes) { return (bytes + kLine - 1) / kLine * kLine; }

// Want of memory is no property of an operation: as where anything else is allocated.
void throw_if_out_of_memory(dnnl_status_t status) {
  if (status == dnnl_out_of_memory) throw std::bad_alloc();
}

// How often one step of `axis` is taken outside the inner blocks.
int64_t outer_extent(const dnnl_memory_desc_t& d, int axis) {
  int64_t extent = d.padded_dims[axis];
  const auto& b = d.format_desc.blocking;
  for (int i = 0; i < b.inner_nblks; ++i)
    if (b.inner_idxs[i] == axis) extent /= b.inner_blks[i];
  return extent;
}

DType type_of(const dnnl::memory::desc& desc) {
  for (DType type : {DType::kF32, DType::kBF16, DType::kI32, DType::kU8})
    if (onednn_type(type) == desc.data_type()) return type;
  check_failed(__FILE__, __LINE__, "a type that oneDNN has", "");
}

bool blocked(const dnnl_memory_desc_t& d) { return d.format_kind == dnnl_blocked && d.extra.flags == 0; }

bool alike(const dnnl_memory_desc_t& a, const dnnl_memory_desc_t& b) {
  if (!blocked(a) || !blocked(b)) return dnnl_memory_desc_equal(&a, &b);
  const auto &x = a.format_desc.blocking, &y = b.format_desc.blocking;
  if (a.ndims != b.ndims || a.data_type != b.data_type || a.offset0 != b.offset0 || x.inner_nblks != y.inner_nblks)
    return false;
  for (int i = 0; i < x.inner_nblks; ++i)
    if (x.inner_blks[i] != y.inner_blks[i] || x.inner_idxs[i] != y.inner_idxs[i]) return false;
  for (int i = 0; i < a.ndims; ++i) {
    if (a.dims[i] != b.dims[i] || a.padded_dims[i] != b.padded_dims[i]) return false;
    if (outer_extent(a, i) > 1 && x.strides[i] != y.strides[i]) return false;
  }
  return true;
}

}  // namespace

const dnnl::engine& engine() {
  static const dnnl::engine instance(dnnl::engine::kind::cpu, 0);
  return instance;
}

dnnl::stream& stream() {
  static dnnl::stream instance(engine());
  return instance;
}

bool OnednnLayout::equals(const Layout& other) const {
  const auto* o = dynamic_cast<const OnednnLayout*>(&other);
  return o && alike(desc_.data, o->desc_.data);
}

std::string OnednnLayout::describe() const {
  const dnnl_memory_desc_t& d = desc_.data;
  if (!blocked(d)) return "opaque";
  const auto& b = d.format_desc.blocking;
  std::vector<int> axes(static_cast<size_t>(d.ndims));
  std::iota(axes.begin(), axes.end(), 0);
  std::stable_sort(axes.begin(), axes.end(), [&](int x, int y) { return b.strides[x] > b.strides[y]; });
  std::string tag;
  for (int axis : axes) {
    const bool inner = std::find(b.inner_idxs, b.inner_idxs + b.inner_nblks, axis) != b.inner_idxs + b.inner_nblks;
    tag += static_cast<char>((inner ? 'A' : 'a') + axis);
  }
  for (int i = 0; i < b.inner_nblks; ++i)
    tag += std::to_string(b.inner_blks[i]) + static_cast<char>('a' + b.inner_idxs[i]);
  return tag;
}

WorkspaceLayout::WorkspaceLayout(const dnnl::memory::desc& workspace, const dnnl::memory::desc& input)
    : bytes_(workspace.is_zero() ? 0 : workspace.get_size()), input_(input) {}

bool WorkspaceLayout::equals(const Layout& other) const {
  const auto* o = dynamic_cast<const WorkspaceLayout*>(&other);
  return o && bytes_ == o->bytes_ && input_.equals(o->input_);
}

TensorDesc workspace_desc(const dnnl::memory::desc& workspace, const dnnl::memory::desc& input) {
  auto layout = std::make_shared<WorkspaceLayout>(workspace, input);
  return {Shape{static_cast<int64_t>(layout->bytes())}, DType::kU8, layout};
}

dnnl::memory::dims dims_of(const Shape& shape) { return shape.dims(); }

dnnl::memory::data_type onednn_type(DType type) {
  switch (type) {
    case DType::kF32:
      return dnnl::memory::data_type::f32;
    case DType::kBF16:
      return dnnl::memory::data_type::bf16;
    case DType::kI32:
      return dnnl::memory::data_type::s32;
    case DType::kU8:
      return dnnl::memory::data_type::u8;
    default:
      check_failed(__FILE__, __LINE__, "a type that oneDNN has", "");
  }
}

dnnl::memory::desc plain(const dnnl::memory::dims& dims, DType type) {
  dnnl::memory::dims strides(dims.size());
  int64_t stride = 1;
  for (size_t i = dims.size(); i-- > 0; stride *= dims[i]) strides[i] = stride;
  return {dims, onednn_type(type), strides};
}

dnnl::memory::desc any(const dnnl::memory::dims& dims, DType type) {
  return {dims, onednn_type(type), dnnl::memory::format_tag::any};
}

dnnl::memory::desc present(const TensorDesc& value, const dnnl::memory::dims& dims) {
  if (const auto* layout = dynamic_cast<const OnednnLayout*>(value.layout.get()))
    if (layout->desc().dims() == dims) return layout->desc();
  return plain(dims);
}

LayoutPtr layout_of(const dnnl::memory::desc& desc) {
  dnnl::memory::desc row_major = plain(desc.dims());
  row_major.data.data_type = desc.data.data_type;
  if (alike(desc.data, row_major.data)) return nullptr;
  return std::make_shared<OnednnLayout>(desc);
}

dnnl::primitive_attr attributes(const Activation& fused) {
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  if (fused.kind != ActivationKind::kNone) {
    dnnl::post_ops post;
    post.append_eltwise(1.0f, algorithm_of(fused.kind, false), alpha_of(fused), beta_of(fused));
    attr.set_post_ops(post);
  }
  return attr;
}

dnnl::algorithm algorithm_of(ActivationKind kind, bool backward) {
  using dnnl::algorithm;
  switch (kind) {
    case ActivationKind::kRelu:
    case ActivationKind::kLeakyRelu:
      return backward ? algorithm::eltwise_relu_use_dst_for_bwd : algorithm::eltwise_relu;
    case ActivationKind::kSigmoid:
      return backward ? algorithm::eltwise_logistic_use_dst_for_bwd : algorithm::eltwise_logistic;
    case ActivationKind::kTanh:
      return backward ? algorithm::eltwise_tanh_use_dst_for_bwd : algorithm::eltwise_tanh;
    case ActivationKind::kElu:
      return backward ? algorithm::eltwise_elu_use_dst_for_bwd : algorithm::eltwise_elu;
    case ActivationKind::kGelu:
      return algorithm::eltwise_gelu_erf;
    case ActivationKind::kGeluTanh:
      return algorithm::eltwise_gelu_tanh;
    case ActivationKind::kSilu:
      return algorithm::eltwise_swish;
    case ActivationKind::kSoftplus:
      return algorithm::eltwise_soft_relu;
    case ActivationKind::kRelu6:
      return backward ? algorithm::eltwise_clip_v2_use_dst_for_bwd : algorithm::eltwise_clip_v2;
    case ActivationKind::kNone:
      break;
  }
  check_failed(__FILE__, __LINE__, "an activation", "");
}

float beta_of(const Activation& activation) { return activation.kind == ActivationKind::kRelu6 ? 6.0f : 0.0f; }

float alpha_of(const Activation& activation) {
  switch (activation.kind) {
    case ActivationKind::kElu:
    case ActivationKind::kLeakyRelu:
      return activation.alpha;
    case ActivationKind::kSilu:
    case ActivationKind::kSoftplus:
      return 1.0f;
    default:
      return 0.0f;
  }
}

PrimitiveKernel::PrimitiveKernel(const Plan& plan, const OpRequest& request)
    : primitive_(plan.primitive.get()), implementation_(plan.primitive.impl_info_str()) {
  input_layouts.resize(request.inputs.size());
  for (const TensorDesc& i : request.inputs) input_types.push_back(i.dtype);
  outputs = request.outputs;
  for (TensorDesc& o : outputs) o.layout = nullptr;
  for (const auto& [at, desc] : plan.workspaces) outputs[at] = desc;
  in_place = plan.in_place;
  flops = plan.flops;

  auto add = [&](const Argument& a) {
    slots_.push_back({dnnl::memory(a.desc, engine(), DNNL_MEMORY_NONE), a.from, a.at, a.offset, nullptr});
    arguments_.push_back({a.arg, slots_.back().memory.get()});
  };
  const auto is_workspace = [](const TensorDesc& d) {
    return dynamic_cast<const WorkspaceLayout*>(d.layout.get()) != nullptr;
  };
  for (const Argument& a : plan.arguments) {
    add(a);
    if (a.from == From::kInput && !is_workspace(request.inputs[a.at])) input_types[a.at] = type_of(a.desc);
    if (a.from == From::kOutput && !is_workspace(outputs[a.at])) outputs[a.at].dtype = type_of(a.desc);
    if (a.view) continue;
    if (a.from == From::kInput)
      input_layouts[a.at] = is_workspace(request.inputs[a.at]) ? request.inputs[a.at].layout : layout_of(a.desc);
    if (a.from == From::kOutput && !is_workspace(outputs[a.at])) outputs[a.at].layout = layout_of(a.desc);
  }
  // An empty workspace is no argument; it passes as it is.
  for (size_t i = 0; i < request.inputs.size(); ++i)
    if (is_workspace(request.inputs[i])) input_layouts[i] = request.inputs[i].layout;

  const dnnl::memory::desc scratchpad = plan.primitive.scratchpad_desc();
  const size_t own = rounded(plan.own_scratch);
  scratch_bytes = own;
  if (!scratchpad.is_zero() && scratchpad.get_size() > 0) {
    add({DNNL_ARG_SCRATCHPAD, scratchpad, From::kScratch, own});
    scratch_bytes += scratchpad.get_size();
  }
}

void PrimitiveKernel::run(std::span<const void* const> in, std::span<void* const> out, void* scratch,
                          const RunContext&) {
  for (Slot& s : slots_) {
    void* data = s.from == From::kInput    ? const_cast<void*>(in[s.at])
                 : s.from == From::kOutput ? out[s.at]
                                           : static_cast<std::byte*>(scratch) + s.at;
    data = static_cast<std::byte*>(data) + s.offset;
    if (data == s.current) continue;
    const dnnl_status_t status = dnnl_memory_set_data_handle(s.memory.get(), data);
    DTRAIN_CHECK(status == dnnl_success, "oneDNN does not take a pointer: {}", dnnl_status2str(status));
    s.current = data;
  }
  const dnnl_status_t status =
      dnnl_primitive_execute(primitive_.get(), stream().get(), static_cast<int>(arguments_.size()), arguments_.data());
  throw_if_out_of_memory(status);
  DTRAIN_CHECK(status == dnnl_success, "{} failed: {}", implementation_, dnnl_status2str(status));
}

tl::expected<Plan, std::string> OnednnOp::guarded(const OpRequest& request) const {
  try {
    return describe(request);
  } catch (const dnnl::error& e) {
    throw_if_out_of_memory(e.status);
    if (e.status == dnnl_unimplemented) return tl::unexpected<std::string>("oneDNN has no primitive for these shapes");
    return tl::unexpected(fmt::format("oneDNN: {} ({})", e.message, dnnl_status2str(e.status)));
  }
}

std::optional<std::string> OnednnOp::unsupported(const OpRequest& request) const {
  auto plan = guarded(request);
  if (plan) return std::nullopt;
  return plan.error();
}

Result<std::unique_ptr<Kernel>> OnednnOp::plan(const OpRequest& request) const {
  auto plan = guarded(request);
  if (!plan) return fail(ExitCode::kUsage, fmt::format("{} is not supported on cpu: {}", request.op, plan.error()));
  try {
    return make(*plan, request);
  } catch (const dnnl::error& e) {
    throw_if_out_of_memory(e.status);
    return fail(ExitCode::kBug, fmt::format("{}: oneDNN: {} ({})", request.op, e.message, dnnl_status2str(e.status)));
  }
}

int slowness(const dnnl::primitive_desc_base& primitive) {
  const std::string name = primitive.impl_info_str();
  if (name.find("ref") != std::string::npos || name.find("simple") != std::string::npos) return 2;
  return name.find("gemm") != std::string::npos && name.find("brg") == std::string::npos ? 1 : 0;
}

}  // namespace dtrain::ops::cpu
