// pool2d, pool2d.backward on the layout that x has: maxima by an own kernel where channels lie side by side, the rest
// by oneDNN. It knows no ceil: the last windows hang over into additional padding on the right, which is right for
// maxima and for averages that do not count padding; those that do are an own kernel's too.
#include "ops/pool2d.h"

#include <algorithm>

#include "ops/cpu/average_pool.h"
#include "ops/cpu/max_pool.h"
#include "ops/cpu/onednn.h"
#include "ops/registry.h"

namespace dtrain::ops::cpu {
namespace {

using dnnl::memory;

struct Geometry {
  Geometry(const Pool2d& a, const Shape& x, const Shape& y) {
    for (int i = 0; i < 2; ++i) {
      const size_t s = static_cast<size_t>(i);
      stride.push_back(a.stride[s]);
      kernel.push_back(a.kernel[s]);
      left.push_back(a.pad[s]);
      const int64_t reach = (y[2 + i] - 1) * a.stride[s] + a.kernel[s] - x[2 + i] - a.pad[s];
      right.push_back(std::max(a.pad[s], reach));
      overhangs |= reach > a.pad[s];
    }
    const bool padded = a.pad[0] > 0 || a.pad[1] > 0;
    // Without padding PyTorch divides by the elements of x in the window.
    algorithm = a.kind == Pool2d::Kind::kMax    ? dnnl::algorithm::pooling_max
                : a.count_include_pad && padded ? dnnl::algorithm::pooling_avg_include_padding
                                                : dnnl::algorithm::pooling_avg_exclude_padding;
    // oneDNN would count the overhang as well.
    counts_overhang = overhangs && algorithm == dnnl::algorithm::pooling_avg_include_padding;
  }
  memory::dims stride, kernel, left, right;
  dnnl::algorithm algorithm;
  bool overhangs = false, counts_overhang = false;
};

dnnl::pooling_forward::primitive_desc forward_desc(const Geometry& g, const memory::desc& x, const memory::dims& y,
                                                   bool training) {
  const auto kind = training ? dnnl::prop_kind::forward_training : dnnl::prop_kind::forward_inference;
  return {{kind, g.algorithm, x, any(y), g.stride, g.kernel, g.left, g.right}, attributes(), engine()};
}

class Pool : public OnednnOp {
 public:
  std::optional<std::string> unsupported(const OpRequest& r) const override {
    return own_kernel(r) ? std::nullopt : OnednnOp::unsupported(r);
  }
  Result<std::unique_ptr<Kernel>> plan(const OpRequest& r) const override {
    if (auto kernel = own_kernel(r)) return kernel;
    return OnednnOp::plan(r);
  }

 protected:
  // nullptr where oneDNN's is to be taken.
  virtual std::unique_ptr<Kernel> own_kernel(const OpRequest& r) const = 0;
};

class Forward final : public Pool {
  static Geometry geometry(const OpRequest& r) {
    return {r.attributes_as<Pool2d>(), r.inputs[0].shape, r.outputs[0].shape};
  }
  std::unique_ptr<Kernel> own_kernel(const OpRequest& r) const override {
    if (r.attributes_as<Pool2d>().kind == Pool2d::Kind::kMax) return make_max_pool(r, present(r.inputs[0]));
    return geometry(r).counts_overhang ? make_plain_average_pool(r) : nullptr;
  }
  tl::expected<Plan, std::string> describe(const OpRequest& r) const override {
    const bool training = r.outputs.size() == 2;
    const auto x = present(r.inputs[0]);
    const auto p = forward_desc(geometry(r), x, dims_of(r.outputs[0].shape), training);
    Plan plan{.primitive = p,
              .arguments = {{DNNL_ARG_SRC, x, From::kInput, 0}, {DNNL_ARG_DST, p.dst_desc(), From::kOutput, 0}}};
    if (training) {
      const TensorDesc workspace = workspace_desc(p.workspace_desc(), x);
      plan.workspaces.push_back({1, workspace});
      if (workspace.bytes() > 0) plan.arguments.push_back({DNNL_ARG_WORKSPACE, p.workspace_desc(), From::kOutput, 1});
    }
    return plan;
  }
};

class Backward final : public Pool {
  static Geometry geometry(const OpRequest& r) {
    return {r.attributes_as<Pool2d>(), r.outputs[0].shape, r.inputs[0].shape};
  }
  std::unique_ptr<Kernel> own_kernel(const OpRequest& r) const override {
    const auto* workspace = dynamic_cast<const WorkspaceLayout*>(r.inputs[1].layout.get());
    if (r.attributes_as<Pool2d>().kind == Pool2d::Kind::kMax)
      return workspace ? make_max_pool_backward(r, workspace->input()) : nullptr;
    return geometry(r).counts_overhang ? make_plain_average_pool_backward(r) : nullptr;
  }
  tl::expected<Plan, std::string> describe(const OpRequest& r) const override {
    const auto* workspace = dynamic_cast<const WorkspaceLayout*>(r.inputs[1].layout.get());
    if (!workspace) return tl::unexpected<std::string>("a workspace that no pool2d of this backend made");
    const Geometry g = geometry(r);
    const memory::desc& x = workspace->input();
    const auto hint = forward_desc(g, x, dims_of(r.inputs[0].shape), true);
    dnnl::pooling_backward::primitive_desc p({g.algorithm, x, hint.dst_desc(), g.stride, g.kernel, g.left, g.right},
                                             attributes(), engine(), hint);
    Plan plan{.primitive = p,
              .arguments = {{DNNL_ARG_DIFF_DST, p.diff_dst_desc(), From::kInput, 0},
                            {DNNL_ARG_DIFF_SRC, p.diff_src_desc(), From::kOutput, 0}}};
    if (workspace->bytes() > 0) plan.arguments.push_back({DNNL_ARG_WORKSPACE, p.workspace_desc(), From::kInput, 1});
    return plan;
  }
};

const Registration forward("cpu", "pool2d", std::make_unique<Forward>());
const Registration backward("cpu", "pool2d.backward", std::make_unique<Backward>());

}  // namespace
}  // namespace dtrain::ops::cpu
