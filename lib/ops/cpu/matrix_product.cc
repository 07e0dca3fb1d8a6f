#include "ops/cpu/matrix_product.h"

namespace dtrain::ops::cpu {

using dnnl::memory;

memory::desc matrix(int64_t rows, int64_t columns, int64_t stride) {
  return {{rows, columns}, memory::data_type::f32, memory::dims{stride, 1}};
}

memory::desc transposed(const memory::desc& matrix) { return matrix.permute_axes({1, 0}); }

MatrixProduct::MatrixProduct(const memory::desc& a, const memory::desc& b, const memory::desc& c, Adds adds) {
  dnnl::primitive_attr attr = attributes();
  if (adds == Adds::kResult) {
    dnnl::post_ops post;
    post.append_sum(1.0f);
    attr.set_post_ops(post);
  }
  const memory::desc bias = plain({1, c.dims()[1]});
  using Desc = dnnl::matmul::desc;
  const dnnl::matmul::primitive_desc p(adds == Adds::kBias ? Desc(a, b, bias, c) : Desc(a, b, c), attr, engine());
  b_ = p.weights_desc();
  Plan plan{.primitive = p,
            .arguments = {{DNNL_ARG_SRC, a, From::kInput, 0, /*view=*/true},
                          {DNNL_ARG_WEIGHTS, b_, From::kInput, 1, /*view=*/true},
                          {DNNL_ARG_DST, c, From::kOutput, 0, /*view=*/true}}};
  if (adds == Adds::kBias) plan.arguments.push_back({DNNL_ARG_BIAS, bias, From::kInput, 2, /*view=*/true});
  OpRequest request{.op = "matrix product", .attributes = {}, .inputs = {}, .outputs = {}};
  request.inputs.resize(3);
  request.outputs.resize(1);
  kernel_ = std::make_unique<PrimitiveKernel>(plan, request);
}

void MatrixProduct::run(const float* a, const void* b, float* c, void* scratch, const float* bias) {
  const void* const in[] = {a, b, bias};
  void* const out[] = {c};
  kernel_->run(in, out, scratch, {});
}

}  // namespace dtrain::ops::cpu
