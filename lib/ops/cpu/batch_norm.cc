// batch_norm, its gradient and inference: oneDNN's batch normalisation on the layout that x has, with the running
// statistics updated by own loops.
#include "ops/batch_norm.h"

#include <cstring>

#include "ops/cpu/onednn.h"
#include "ops/registry.h"

namespace dtrain::ops::cpu {
namespace {

using dnnl::memory;
using Flags = dnnl::normalization_flags;

// x with four dimensions, as it lies; rank 2 has one pixel a channel.
memory::desc image(const TensorDesc& x) {
  if (x.shape.rank() == 4) return present(x);
  return {{x.shape[0], x.shape[1], 1, 1}, memory::data_type::f32, memory::format_tag::nhwc};
}

std::optional<std::string> refused(const OpRequest& r) {
  const ActivationKind kind = r.attributes_as<BatchNorm>().activation.kind;
  const int rank = r.inputs[0].shape.rank();
  if (rank != 2 && rank != 4) return fmt::format("rank {}", rank);
  if (kind != ActivationKind::kNone && kind != ActivationKind::kRelu)
    return fmt::format("{} fused with batch_norm", name_of(kind));
  return std::nullopt;
}

Flags flags_for(const BatchNorm& a, bool affine) {
  Flags flags = affine ? Flags::use_scale | Flags::use_shift : Flags::none;
  if (a.activation.kind == ActivationKind::kRelu) flags = flags | Flags::fuse_norm_relu;
  return flags;
}

// A vector [C] that moves between an input or output and the kernel's scratch.
struct Copy {
  From from;
  size_t at, offset;
};

// Gathers the arguments. oneDNN's blocked kernels take parameters by whole blocks, beyond C: there vectors [C] are
// handed over in padded copies.
class Channels {
 public:
  explicit Channels(const memory::desc& x)
      : channels_(x.dims()[1]), padded_(x.data.padded_dims[1]), copied_(padded_ != channels_) {}

  void add(int arg, From from, size_t at) {
    if (!copied_) {
      plan_arguments.push_back({arg, plain({channels_}), from, at});
      return;
    }
    const size_t offset = bytes;
    bytes += (static_cast<size_t>(padded_) * sizeof(float) + 63) / 64 * 64;
    plan_arguments.push_back({arg, plain({channels_}), From::kScratch, offset});
    copies.push_back({from, at, offset});
  }

  std::vector<Argument> plan_arguments;
  std::vector<Copy> copies;
  size_t bytes = 0;

 private:
  int64_t channels_, padded_;
  bool copied_;
};

class BatchNormKernel final : public PrimitiveKernel {
 public:
  BatchNormKernel(const Plan& plan, const OpRequest& request, const Channels& channels)
      : PrimitiveKernel(plan, request), copies_(channels.copies), channels_(request.inputs[0].shape[1]) {
    if (request.op != "batch_norm") return;
    momentum_ = request.attributes_as<BatchNorm>().momentum;
    const int64_t n = request.inputs[0].shape.elements() / channels_;
    unbiased_ = static_cast<float>(static_cast<double>(n) / static_cast<double>(n - 1));
    running_ = true;
  }

  void run(std::span<const void* const> in, std::span<void* const> out, void* scratch,
           const RunContext& context) override {
    const size_t bytes = static_cast<size_t>(channels_) * sizeof(float);
    auto* own = static_cast<std::byte*>(scratch);
    for (const Copy& c : copies_)
      if (c.from == From::kInput) {
        std::memset(own + c.offset, 0, (bytes + 63) / 64 * 64);
        std::memcpy(own + c.offset, in[c.at], bytes);
      }
    PrimitiveKernel::run(in, out, scratch, context);
    for (const Copy& c : copies_)
      if (c.from == From::kOutput) std::memcpy(out[c.at], own + c.offset, bytes);
    if (running_) update(in, out);
  }

 private:
  void update(std::span<const void* const> in, std::span<void* const> out) const {
    const auto floats = [](const void* p) { return static_cast<const float*>(p); };
    const float *running_mean = floats(in[1]), *running_var = floats(in[2]);
    const float *mean = floats(out[1]), *var = floats(out[2]);
    auto *next_mean = static_cast<float*>(out[3]), *next_var = static_cast<float*>(out[4]);
    const float kept = 1.0f - momentum_;
    for (int64_t c = 0; c < channels_; ++c) {
      next_mean[c] = kept * running_mean[c] + momentum_ * mean[c];
      next_var[c] = kept * running_var[c] + momentum_ * (var[c] * unbiased_);
    }
  }

  std::vector<Copy> copies_;
  int64_t channels_;
  bool running_ = false;
  float momentum_ = 0.0f, unbiased_ = 1.0f;
};

class BatchNormOp : public OnednnOp {
 protected:
  virtual Channels channels(const OpRequest& r) const = 0;
  std::unique_ptr<Kernel> make(const Plan& plan, const OpRequest& r) const override {
    return std::make_unique<BatchNormKernel>(plan, r, channels(r));
  }
  static Plan plan_of(const dnnl::primitive_desc_base& primitive, std::vector<Argument> arguments,
                      const Channels& channels) {
    arguments.insert(arguments.end(), channels.plan_arguments.begin(), channels.plan_arguments.end());
    return {.primitive = primitive, .arguments = std::move(arguments), .own_scratch = channels.bytes};
  }
};

class Forward final : public BatchNormOp {
  static bool affine(const OpRequest& r) { return r.inputs.size() == 5; }
  Channels channels(const OpRequest& r) const override {
    Channels c(image(r.inputs[0]));
    c.add(DNNL_ARG_MEAN, From::kOutput, 1);
    c.add(DNNL_ARG_VARIANCE, From::kOutput, 2);
    if (affine(r)) {
      c.add(DNNL_ARG_SCALE, From::kInput, 3);
      c.add(DNNL_ARG_SHIFT, From::kInput, 4);
    }
    return c;
  }
  tl::expected<Plan, std::string> describe(const OpRequest& r) const override {
    if (auto why = refused(r)) return tl::unexpected(*why);
    if (r.inputs[0].shape.elements() == r.inputs[0].shape[1])
      return tl::unexpected<std::string>("one value a channel, which has no variance");
    const auto& a = r.attributes_as<BatchNorm>();
    const auto x = image(r.inputs[0]);
    dnnl::batch_normalization_forward::primitive_desc p(
        {dnnl::prop_kind::forward_training, x, a.epsilon, flags_for(a, affine(r))}, attributes(), engine());
    Plan plan = plan_of(p, {{DNNL_ARG_SRC, x, From::kInput, 0}, {DNNL_ARG_DST, x, From::kOutput, 0}}, channels(r));
    const TensorDesc workspace = workspace_desc(p.workspace_desc(), x);
    plan.workspaces.push_back({5, workspace});
    if (workspace.bytes() > 0) plan.arguments.push_back({DNNL_ARG_WORKSPACE, p.workspace_desc(), From::kOutput, 5});
    return plan;
  }
};

class Inference final : public BatchNormOp {
  static bool affine(const OpRequest& r) { return r.inputs.size() == 5; }
  Channels channels(const OpRequest& r) const override {
    Channels c(image(r.inputs[0]));
    c.add(DNNL_ARG_MEAN, From::kInput, 1);
    c.add(DNNL_ARG_VARIANCE, From::kInput, 2);
    if (affine(r)) {
      c.add(DNNL_ARG_SCALE, From::kInput, 3);
      c.add(DNNL_ARG_SHIFT, From::kInput, 4);
    }
    return c;
  }
  tl::expected<Plan, std::string> describe(const OpRequest& r) const override {
    if (auto why = refused(r)) return tl::unexpected(*why);
    const auto& a = r.attributes_as<BatchNorm>();
    const auto x = image(r.inputs[0]);
    const Flags flags = flags_for(a, affine(r)) | Flags::use_global_stats;
    dnnl::batch_normalization_forward::primitive_desc p({dnnl::prop_kind::forward_inference, x, a.epsilon, flags},
                                                        attributes(), engine());
    Plan plan = plan_of(p, {{DNNL_ARG_SRC, x, From::kInput, 0}, {DNNL_ARG_DST, x, From::kOutput, 0}}, channels(r));
    plan.in_place = {{0, 0}};
    return plan;
  }
};

class Backward final : public BatchNormOp {
  static bool affine(const OpRequest& r) { return r.inputs.size() == 7; }
  // x and dy are wanted as x lay in the forward op: its workspace is made for that.
  static memory::desc common(const OpRequest& r) {
    const auto* workspace = dynamic_cast<const WorkspaceLayout*>(r.inputs[4].layout.get());
    return workspace ? workspace->input() : image(r.inputs[0]);
  }
  Channels channels(const OpRequest& r) const override {
    Channels c(common(r));
    c.add(DNNL_ARG_MEAN, From::kInput, 2);
    c.add(DNNL_ARG_VARIANCE, From::kInput, 3);
    if (affine(r)) {
      c.add(DNNL_ARG_SCALE, From::kInput, 5);
      c.add(DNNL_ARG_SHIFT, From::kInput, 6);
      c.add(DNNL_ARG_DIFF_SCALE, From::kOutput, 1);
      c.add(DNNL_ARG_DIFF_SHIFT, From::kOutput, 2);
    }
    return c;
  }
  tl::expected<Plan, std::string> describe(const OpRequest& r) const override {
    if (auto why = refused(r)) return tl::unexpected(*why);
    const auto& a = r.attributes_as<BatchNorm>();
    const auto x = common(r);
    const Flags flags = flags_for(a, affine(r));
    dnnl::batch_normalization_forward::primitive_desc hint({dnnl::prop_kind::forward_training, x, a.epsilon, flags},
                                                           attributes(), engine());
    const auto kind = affine(r) ? dnnl::prop_kind::backward : dnnl::prop_kind::backward_data;
    dnnl::batch_normalization_backward::primitive_desc p({kind, x, x, a.epsilon, flags}, attributes(), engine(), hint);
    Plan plan = plan_of(p,
                        {{DNNL_ARG_SRC, x, From::kInput, 0},
                         {DNNL_ARG_DIFF_DST, x, From::kInput, 1},
                         {DNNL_ARG_DIFF_SRC, x, From::kOutput, 0}},
                        channels(r));
    if (!p.workspace_desc().is_zero())
      plan.arguments.push_back({DNNL_ARG_WORKSPACE, p.workspace_desc(), From::kInput, 4});
    return plan;
  }
};

const Registration forward("cpu", "batch_norm", std::make_unique<Forward>());
const Registration backward("cpu", "batch_norm.backward", std::make_unique<Backward>());
const Registration inference("cpu", "batch_norm.inference", std::make_unique<Inference>());

}  // namespace
}  // namespace dtrain::ops::cpu
