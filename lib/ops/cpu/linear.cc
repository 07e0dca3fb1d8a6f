// linear and its gradients on row-major values: products by oneDNN's matmul, inner product or sgemm, whichever was
// fastest on one thread of a Sapphire Rapids.
//
// Row-major weights are deliberate. Blocked ones make the forward product up to a quarter faster (784×1024, batch 64,
// one thread: 755 against 921 µs), but training reorders them and their gradient in every step (242 and 250 µs), and
// the gradients gain nothing: 2872 against 2307 µs in all; so at every shape measured from 128×10 to 4096×4096. On
// row-major weights matmul is up to a tenth faster than the inner product, but not for the gradients, nor forward from
// many rows to far more outputs than inputs (1024 rows, 256 to 1024: 3351 against 3141 µs).
#include "ops/linear.h"

#include <oneapi/dnnl/dnnl.h>

#include <algorithm>

#include "ops/cpu/add_rows.h"
#include "ops/cpu/onednn.h"
#include "ops/cpu/own_kernel.h"
#include "ops/registry.h"

namespace dtrain::ops::cpu {
namespace {

using dnnl::memory;

// Leading extents are rows.
memory::dims matrix(const Shape& shape) { return {shape.elements() / shape.at(-1), shape.at(-1)}; }

memory::desc plain_matrix(const TensorDesc& value, DType type = DType::kF32) {
  return plain(matrix(value.shape), type);
}
memory::desc bias_of(const Shape& weights) { return plain({weights[0]}); }

// Of x (or its gradient) with weights of this shape (or theirs).
double flops_of(const Shape& x, const Shape& weights) {
  return 2.0 * static_cast<double>(x.elements()) * static_cast<double>(weights[0]);
}

dnnl::inner_product_forward::primitive_desc forward_desc(const TensorDesc& x, const TensorDesc& w, const TensorDesc& y,
                                                         bool bias, const Activation& activation, DType compute) {
  const auto kind = dnnl::prop_kind::forward_training;
  const auto xd = plain_matrix(x, compute), wd = plain_matrix(w, compute), yd = plain_matrix(y);
  using Desc = dnnl::inner_product_forward::desc;
  return {bias ? Desc(kind, xd, wd, bias_of(w.shape), yd) : Desc(kind, xd, wd, yd), attributes(activation), engine()};
}

// From here on a product has many rows.
constexpr int64_t kManyRows = 512;

class Forward final : public OnednnOp {
  tl::expected<Plan, std::string> describe(const OpRequest& r) const override {
    const bool bias = r.inputs.size() == 3;
    const Activation& activation = r.attributes_as<Linear>().activation;
    if (auto plan = by_matmul(r, bias, activation)) return *plan;
    const auto p = forward_desc(r.inputs[0], r.inputs[1], r.outputs[0], bias, activation, r.compute);
    Plan plan{.primitive = p,
              .arguments = {{DNNL_ARG_SRC, p.src_desc(), From::kInput, 0},
                            {DNNL_ARG_WEIGHTS, p.weights_desc(), From::kInput, 1},
                            {DNNL_ARG_DST, p.dst_desc(), From::kOutput, 0}},
              .flops = flops_of(r.inputs[0].shape, r.inputs[1].shape)};
    if (bias) plan.arguments.push_back({DNNL_ARG_BIAS, p.bias_desc(), From::kInput, 2});
    return plan;
  }

  // x · wᵀ, where oneDNN has more than a general matrix product for it (with AVX-512).
  static std::optional<Plan> by_matmul(const OpRequest& r, bool bias, const Activation& activation) {
    const auto x = plain_matrix(r.inputs[0], r.compute), y = plain_matrix(r.outputs[0]);
    const Shape& w = r.inputs[1].shape;
    if (x.dims()[0] >= kManyRows && w[0] > 2 * w[1]) return std::nullopt;
    const memory::desc wt({w[1], w[0]}, onednn_type(r.compute), memory::dims{1, w[1]}), b = plain({1, w[0]});
    using Desc = dnnl::matmul::desc;
    const dnnl::matmul::primitive_desc p(bias ? Desc(x, wt, b, y) : Desc(x, wt, y), attributes(activation), engine(),
                                         /*allow_empty=*/true);
    if (!p || slowness(p) > 0) return std::nullopt;
    Plan plan{.primitive = p,
              .arguments = {{DNNL_ARG_SRC, x, From::kInput, 0},
                            {DNNL_ARG_WEIGHTS, wt, From::kInput, 1, /*view=*/true},
                            {DNNL_ARG_DST, y, From::kOutput, 0}},
              .flops = flops_of(r.inputs[0].shape, w)};
    if (bias) plan.arguments.push_back({DNNL_ARG_BIAS, b, From::kInput, 2, /*view=*/true});
    return plan;
  }
};

class BackwardData final : public OnednnOp {
  tl::expected<Plan, std::string> describe(const OpRequest& r) const override {
    const TensorDesc &dy = r.inputs[0], &w = r.inputs[1], &dx = r.outputs[0];
    const auto hint = forward_desc(dx, w, dy, false, {}, r.compute);
    dnnl::inner_product_backward_data::primitive_desc p(
        {plain_matrix(dx), plain_matrix(w, r.compute), plain_matrix(dy, r.compute)}, attributes(), engine(), hint);
    return Plan{.primitive = p,
                .arguments = {{DNNL_ARG_DIFF_DST, p.diff_dst_desc(), From::kInput, 0},
                              {DNNL_ARG_WEIGHTS, p.weights_desc(), From::kInput, 1},
                              {DNNL_ARG_DIFF_SRC, p.diff_src_desc(), From::kOutput, 0}},
                .flops = flops_of(dx.shape, w.shape)};
  }
};

// dyᵀ·x over many rows, a block of rows at a time: the bias's gradient is summed while the block is in the cache, and
// blocks are faster to pack than long columns (1024 rows, 256 to 1024: 3478 against 4099 µs with the bias).
class BlockedBackwardWeights final : public OwnKernel {
 public:
  // The sums stay in the second cache while blocks are added to them.
  static bool suits(const OpRequest& r) {
    const Shape& dw = r.outputs[0].shape;
    return r.compute == DType::kF32 && r.inputs[0].shape.elements() / dw[1] >= kManyRows && dw.elements() <= kMostSums;
  }

  explicit BlockedBackwardWeights(const OpRequest& request)
      : OwnKernel(request), out_(request.outputs[0].shape[0]), in_(request.outputs[0].shape[1]) {
    rows_ = request.inputs[0].shape.elements() / in_;
    flops = flops_of(request.inputs[0].shape, request.outputs[0].shape);
  }
  std::string implementation() const override { return "sgemm"; }

  void run(std::span<const void* const> in, std::span<void* const> out, void*, const RunContext&) override {
    const auto *x = static_cast<const float*>(in[0]), *dy = static_cast<const float*>(in[1]);
    auto *dw = static_cast<float*>(out[0]), *db = out.size() == 2 ? static_cast<float*>(out[1]) : nullptr;
    if (db) std::fill_n(db, out_, 0.0f);
    for (int64_t first = 0; first < rows_; first += kBlock) {
      const int64_t rows = std::min(kBlock, rows_ - first);
      const float *block = dy + first * out_, *from = x + first * in_;
      if (db)
        for_pieces(out_, std::max<int64_t>(64, kGrain / rows),
                   [&](int64_t begin, int64_t end) { add_rows(block + begin, rows, out_, db + begin, end - begin); });
      const float added = first == 0 ? 0.0f : 1.0f;
      const dnnl_status_t status = dnnl_sgemm('T', 'N', out_, in_, rows, 1.0f, block, out_, from, in_, added, dw, in_);
      DTRAIN_CHECK(status == dnnl_success, "oneDNN's sgemm failed: {}", static_cast<int>(status));
    }
  }

 private:
  static constexpr int64_t kBlock = 128, kMostSums = int64_t{1} << 18;

  int64_t out_, in_, rows_ = 0;
};

class BackwardWeights final : public OnednnOp {
  tl::expected<Plan, std::string> describe(const OpRequest& r) const override {
    const TensorDesc &x = r.inputs[0], &dy = r.inputs[1], &dw = r.outputs[0];
    const bool bias = r.outputs.size() == 2;
    const auto hint = forward_desc(x, dw, dy, bias, {}, r.compute);
    using Desc = dnnl::inner_product_backward_weights::desc;
    const auto xd = plain_matrix(x, r.compute), wd = plain_matrix(dw), yd = plain_matrix(dy, r.compute);
    dnnl::inner_product_backward_weights::primitive_desc p(
        bias ? Desc(xd, wd, bias_of(dw.shape), yd) : Desc(xd, wd, yd), attributes(), engine(), hint);
    Plan plan{.primitive = p,
              .arguments = {{DNNL_ARG_SRC, p.src_desc(), From::kInput, 0},
                            {DNNL_ARG_DIFF_DST, p.diff_dst_desc(), From::kInput, 1},
                            {DNNL_ARG_DIFF_WEIGHTS, p.diff_weights_desc(), From::kOutput, 0}},
              .flops = flops_of(x.shape, dw.shape)};
    if (bias) plan.arguments.push_back({DNNL_ARG_DIFF_BIAS, p.diff_bias_desc(), From::kOutput, 1});
    return plan;
  }

  std::unique_ptr<Kernel> make(const Plan& plan, const OpRequest& r) const override {
    if (BlockedBackwardWeights::suits(r)) return std::make_unique<BlockedBackwardWeights>(r);
    return OnednnOp::make(plan, r);
  }
};

const Registration forward("cpu", "linear", std::make_unique<Forward>());
const Registration backward_data("cpu", "linear.backward_data", std::make_unique<BackwardData>());
const Registration backward_weights("cpu", "linear.backward_weights", std::make_unique<BackwardWeights>());

}  // namespace
}  // namespace dtrain::ops::cpu
