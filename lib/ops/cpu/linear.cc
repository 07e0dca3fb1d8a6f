// linear and its gradients on row-major values: the forward product by oneDNN's matmul, the gradients by its inner
// product.
//
// Row-major weights are deliberate. Blocked ones make the forward product up to a quarter faster (784×1024, batch 64,
// one thread: 755 against 921 µs), but training reorders them and their gradient in every step (242 and 250 µs), and
// the gradients gain nothing: 2872 against 2307 µs in all; so at every shape measured from 128×10 to 4096×4096. On
// row-major weights matmul is about a tenth faster than the inner product, but not for the gradients.
#include "ops/linear.h"

#include "ops/cpu/onednn.h"
#include "ops/registry.h"

namespace dtrain::ops::cpu {
namespace {

using dnnl::memory;

// Leading extents are rows.
memory::dims matrix(const Shape& shape) { return {shape.elements() / shape.at(-1), shape.at(-1)}; }

memory::desc plain_matrix(const TensorDesc& value) { return plain(matrix(value.shape)); }
memory::desc bias_of(const Shape& weights) { return plain({weights[0]}); }

dnnl::inner_product_forward::primitive_desc forward_desc(const TensorDesc& x, const TensorDesc& w, const TensorDesc& y,
                                                         bool bias, const Activation& activation) {
  const auto kind = dnnl::prop_kind::forward_training;
  const auto xd = plain_matrix(x), wd = plain_matrix(w), yd = plain_matrix(y);
  using Desc = dnnl::inner_product_forward::desc;
  return {bias ? Desc(kind, xd, wd, bias_of(w.shape), yd) : Desc(kind, xd, wd, yd), attributes(activation), engine()};
}

class Forward final : public OnednnOp {
  tl::expected<Plan, std::string> describe(const OpRequest& r) const override {
    const bool bias = r.inputs.size() == 3;
    const Activation& activation = r.attributes_as<Linear>().activation;
    if (auto plan = by_matmul(r, bias, activation)) return *plan;
    const auto p = forward_desc(r.inputs[0], r.inputs[1], r.outputs[0], bias, activation);
    Plan plan{.primitive = p,
              .arguments = {{DNNL_ARG_SRC, p.src_desc(), From::kInput, 0},
                            {DNNL_ARG_WEIGHTS, p.weights_desc(), From::kInput, 1},
                            {DNNL_ARG_DST, p.dst_desc(), From::kOutput, 0}}};
    if (bias) plan.arguments.push_back({DNNL_ARG_BIAS, p.bias_desc(), From::kInput, 2});
    return plan;
  }

  // x · wᵀ, where oneDNN has more than a general matrix product for it (with AVX-512).
  static std::optional<Plan> by_matmul(const OpRequest& r, bool bias, const Activation& activation) {
    const auto x = plain_matrix(r.inputs[0]), y = plain_matrix(r.outputs[0]);
    const Shape& w = r.inputs[1].shape;
    const memory::desc wt({w[1], w[0]}, memory::data_type::f32, memory::dims{1, w[1]}), b = plain({1, w[0]});
    using Desc = dnnl::matmul::desc;
    const dnnl::matmul::primitive_desc p(bias ? Desc(x, wt, b, y) : Desc(x, wt, y), attributes(activation), engine(),
                                         /*allow_empty=*/true);
    if (!p || slowness(p) > 0) return std::nullopt;
    Plan plan{.primitive = p,
              .arguments = {{DNNL_ARG_SRC, x, From::kInput, 0},
                            {DNNL_ARG_WEIGHTS, wt, From::kInput, 1, /*view=*/true},
                            {DNNL_ARG_DST, y, From::kOutput, 0}}};
    if (bias) plan.arguments.push_back({DNNL_ARG_BIAS, b, From::kInput, 2, /*view=*/true});
    return plan;
  }
};

class BackwardData final : public OnednnOp {
  tl::expected<Plan, std::string> describe(const OpRequest& r) const override {
    const TensorDesc &dy = r.inputs[0], &w = r.inputs[1], &dx = r.outputs[0];
    const auto hint = forward_desc(dx, w, dy, false, {});
    dnnl::inner_product_backward_data::primitive_desc p({plain_matrix(dx), plain_matrix(w), plain_matrix(dy)},
                                                        attributes(), engine(), hint);
    return Plan{.primitive = p,
                .arguments = {{DNNL_ARG_DIFF_DST, p.diff_dst_desc(), From::kInput, 0},
                              {DNNL_ARG_WEIGHTS, p.weights_desc(), From::kInput, 1},
                              {DNNL_ARG_DIFF_SRC, p.diff_src_desc(), From::kOutput, 0}}};
  }
};

class BackwardWeights final : public OnednnOp {
  tl::expected<Plan, std::string> describe(const OpRequest& r) const override {
    const TensorDesc &x = r.inputs[0], &dy = r.inputs[1], &dw = r.outputs[0];
    const bool bias = r.outputs.size() == 2;
    const auto hint = forward_desc(x, dw, dy, bias, {});
    using Desc = dnnl::inner_product_backward_weights::desc;
    const auto xd = plain_matrix(x), wd = plain_matrix(dw), yd = plain_matrix(dy);
    dnnl::inner_product_backward_weights::primitive_desc p(
        bias ? Desc(xd, wd, bias_of(dw.shape), yd) : Desc(xd, wd, yd), attributes(), engine(), hint);
    Plan plan{.primitive = p,
              .arguments = {{DNNL_ARG_SRC, p.src_desc(), From::kInput, 0},
                            {DNNL_ARG_DIFF_DST, p.diff_dst_desc(), From::kInput, 1},
                            {DNNL_ARG_DIFF_WEIGHTS, p.diff_weights_desc(), From::kOutput, 0}}};
    if (bias) plan.arguments.push_back({DNNL_ARG_DIFF_BIAS, p.diff_bias_desc(), From::kOutput, 1});
    return plan;
  }
};

const Registration forward("cpu", "linear", std::make_unique<Forward>());
const Registration backward_data("cpu", "linear.backward_data", std::make_unique<BackwardData>());
const Registration backward_weights("cpu", "linear.backward_weights", std::make_unique<BackwardWeights>());

}  // namespace
}  // namespace dtrain::ops::cpu
