// Some rows of the gradient of a linear layer's weights, dyᵀ·x over those units, by oneDNN's matmul on a transposed
// view of dy; and the gradient of its bias.
#include <algorithm>

#include "ops/cpu/add_rows.h"
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

class BackwardBias final : public OwnKernel {
 public:
  explicit BackwardBias(const OpRequest& request)
      : OwnKernel(request),
        units_(request.outputs[0].shape[0]),
        rows_(request.inputs[0].shape.elements() / request.outputs[0].shape[0]) {}

  static std::optional<std::string> unsupported(const OpRequest&) { return std::nullopt; }

  void run(std::span<const void* const> in, std::span<void* const> out, void*, const RunContext&) override {
    for_pieces(units_, std::max<int64_t>(64, kGrain / rows_), [&](int64_t begin, int64_t end) {
      const float* dy = static_cast<const float*>(in[0]) + begin;
      float* db = static_cast<float*>(out[0]) + begin;
      std::copy_n(dy, end - begin, db);
      add_rows(dy + units_, rows_ - 1, units_, db, end - begin);
    });
  }

 private:
  int64_t units_, rows_;
};

const Registration rows("cpu", "linear.backward_rows", std::make_unique<BackwardRows>());
const Registration bias("cpu", "linear.backward_bias", std::make_unique<OwnOp<BackwardBias>>());

}  // namespace
}  // namespace dtrain::ops::cpu
