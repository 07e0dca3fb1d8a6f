#include "ops/conv2d.h"
#include "tests/ops_cpu/op_case.h"

namespace dtrain::ops::test {
namespace {

struct Row {
  std::string name;
  int64_t batch, channels, height, width, filters;
  Conv2d a;
  bool bias;
  bool refusable = false;
  bool tiles = false;  // done in tiles, whose every element a NaN reaches
};

std::vector<Row> rows() {
  using A = std::array<int64_t, 2>;
  const Activation relu{ActivationKind::kRelu, 0}, leaky{ActivationKind::kLeakyRelu, 0.1f};
  const Activation tanh{ActivationKind::kTanh, 0};
  return {
      {"1x1", 2, 3, 5, 4, 7, {}, true},
      {"3x3_pad_1", 2, 16, 7, 7, 32, {.kernel = A{3, 3}, .pad = A{1, 1}}, true},
      {"3x3_no_bias", 3, 5, 9, 6, 6, {.kernel = A{3, 3}}, false},
      {"5x5_one_channel", 4, 1, 12, 12, 20, {.kernel = A{5, 5}}, true},
      {"7x7_stride_2_pad_3_rgb", 1, 3, 31, 29, 24, {.kernel = A{7, 7}, .stride = A{2, 2}, .pad = A{3, 3}}, false},
      {"3x3_stride_2_odd", 2, 17, 8, 9, 33, {.kernel = A{3, 3}, .stride = A{2, 2}, .pad = A{1, 1}}, true},
      {"1x1_stride_2", 2, 8, 7, 7, 16, {.stride = A{2, 2}}, false},
      {"asymmetric", 2, 4, 9, 11, 5, {.kernel = A{1, 5}, .stride = A{1, 2}, .pad = A{0, 2}}, true},
      {"asymmetric_tall", 1, 6, 10, 5, 9, {.kernel = A{4, 2}, .stride = A{3, 1}, .pad = A{2, 0}}, true},
      {"dilation_2", 2, 4, 11, 11, 8, {.kernel = A{3, 3}, .pad = A{2, 2}, .dilation = A{2, 2}}, true},
      {"dilation_asymmetric", 1, 3, 12, 9, 4, {.kernel = A{3, 2}, .dilation = A{3, 1}}, false},
      {"groups_2", 2, 8, 6, 6, 12, {.kernel = A{3, 3}, .pad = A{1, 1}, .groups = 2}, true},
      {"groups_3_odd", 1, 9, 5, 5, 15, {.kernel = A{3, 3}, .groups = 3}, true},
      {"depthwise", 2, 19, 8, 8, 19, {.kernel = A{3, 3}, .pad = A{1, 1}, .groups = 19}, true},
      {"depthwise_multiplied", 2, 6, 6, 6, 12, {.kernel = A{3, 3}, .stride = A{2, 2}, .groups = 6}, false},
      {"one_pixel", 1, 5, 1, 1, 3, {.kernel = A{3, 3}, .pad = A{1, 1}}, true},
      {"kernel_is_image", 2, 11, 4, 3, 10, {.kernel = A{4, 3}}, true},
      {"winograd", 4, 32, 15, 16, 48, {.kernel = A{3, 3}, .pad = A{1, 1}}, true, false, true},
      {"winograd_no_pad_relu", 3, 48, 22, 20, 32, {.kernel = A{3, 3}, .activation = relu}, true, false, true},
      {"relu", 2, 16, 6, 6, 16, {.kernel = A{3, 3}, .pad = A{1, 1}, .activation = relu}, true},
      {"relu_odd_no_bias", 2, 5, 6, 6, 7, {.kernel = A{3, 3}, .activation = relu}, false},
      {"leaky_relu", 2, 3, 6, 6, 7, {.kernel = A{3, 3}, .activation = leaky}, true, true},
      {"tanh", 2, 3, 6, 6, 7, {.kernel = A{3, 3}, .activation = tanh}, true, true},
  };
}

}  // namespace

std::vector<OpCase> convolution_cases() {
  std::vector<OpCase> cases;
  for (const Row& r : rows()) {
    Conv2d a = r.a;
    const auto extent = [&](size_t i, int64_t in) {
      return (in + 2 * a.pad[i] - a.dilation[i] * (a.kernel[i] - 1) - 1) / a.stride[i] + 1;
    };
    const Shape x{r.batch, r.channels, r.height, r.width};
    const Shape w{r.filters, r.channels / a.groups, a.kernel[0], a.kernel[1]};
    const Shape y{r.batch, r.filters, extent(0, r.height), extent(1, r.width)};
    const Shape b{r.filters};

    OpCase forward{.name = r.name,
                   .op = "conv2d",
                   .attributes = a,
                   .inputs = {normal(x, 1), normal(w, 2)},
                   .outputs = {f32(y)},
                   .forward = {},
                   .nan_at = keeps_nan(a.activation) && !r.tiles ? x.elements() / 2 : -1,
                   .refusable = r.refusable,
                   .parameter = 1};
    if (r.bias) forward.inputs.push_back(normal(b, 3));
    cases.push_back(forward);
    if (a.activation.kind != ActivationKind::kNone) continue;

    cases.push_back({.name = r.name,
                     .op = "conv2d.backward_data",
                     .attributes = a,
                     .inputs = {normal(y, 4), normal(w, 2)},
                     .outputs = {f32(x)},
                     .forward = {},
                     .nan_at = r.tiles ? -1 : y.elements() / 2,
                     .parameter = 1});
    OpCase weights{.name = r.name,
                   .op = "conv2d.backward_weights",
                   .attributes = a,
                   .inputs = {normal(x, 1), normal(y, 4)},
                   .outputs = {f32(w)},
                   .forward = {},
                   .nan_at = r.tiles ? -1 : x.elements() / 2};
    if (r.bias) weights.outputs.push_back(f32(b));
    cases.push_back(weights);
  }
  return cases;
}

}  // namespace dtrain::ops::test
