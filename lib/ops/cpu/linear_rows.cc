// Some rows of the gradient of a linear layer's weights, dyᵀ·x over those units, by oneDNN's matmul on a transposed
// view of dy; and the gradient of its bias.
#include "base/vectorize.h"
#include "ops/cpu/onednn.h"
#include "ops/cpu/own_kernel.h"
#include "ops/linear.h"
#include "ops/registry.h"

namespace dtrain::ops::cpu {
namespace {

using dnnl::memory;

class BackwardRows final : public OnednnOp {
  tl::expected<Plan, std::string> describe(const OpRequest& r) const override {
    const int64_t first = r.attributes_as<LinearRows>().first, units = r.inputs[1].shape.at(-1);
    const int64_t n = r.outputs[0].shape[0], in = r.outputs[0].shape[1], rows = r.inputs[0].shape.elements() / in;
    const memory::desc a({n, rows}, onednn_type(r.compute), memory::dims{1, units});
    const auto x = plain({rows, in}, r.compute), dw = plain({n, in});
    const dnnl::matmul::primitive_desc p({a, x, dw}, attributes(), engine());
    return Plan{.primitive = p,
                .arguments = {{DNNL_ARG_SRC, a, From::kInput, 1, /*view=*/true,
                               static_cast<size_t>(first) * size_of(r.compute)},
                              {DNNL_ARG_WEIGHTS, x, From::kInput, 0, /*view=*/true},
                              {DNNL_ARG_DST, dw, From::kOutput, 0}},
                .flops = 2.0 * static_cast<double>(n) * static_cast<double>(in) * static_cast<double>(rows)};
  }
};

// Rows in ascending order, so that the sums do not depend on how the columns are cut.
DTRAIN_CLONES
void sum_rows(const float* dy, int64_t rows, int64_t stride, float* sum, int64_t n) {
#pragma omp simd
  for (int64_t o = 0; o < n; ++o) sum[o] = dy[o];
  for (int64_t r = 1; r < rows; ++r) {
    const float* row = dy + r * stride;
#pragma omp simd
    for (int64_t o = 0; o < n; ++o) sum[o] += row[o];
  }
}

class BackwardBias final : public OwnKernel {
 public:
  explicit BackwardBias(const OpRequest& request)
      : OwnKernel(request),
        units_(request.outputs[0].shape[0]),
        rows_(request.inputs[0].shape.elements() / request.outputs[0].shape[0]) {}

  static std::optional<std::string> unsupported(const OpRequest&) { return std::nullopt; }

  void run(std::span<const void* const> in, std::span<void* const> out, void*, const RunContext&) override {
    for_pieces(units_, std::max<int64_t>(64, kGrain / rows_), [&](int64_t begin, int64_t end) {
      sum_rows(static_cast<const float*>(in[0]) + begin, rows_, units_, static_cast<float*>(out[0]) + begin,
               end - begin);
    });
  }

 private:
  int64_t units_, rows_;
};

const Registration rows("cpu", "linear.backward_rows", std::make_unique<BackwardRows>());
const Registration bias("cpu", "linear.backward_bias", std::make_unique<OwnOp<BackwardBias>>());

}  // namespace
}  // namespace dtrain::ops::cpu
