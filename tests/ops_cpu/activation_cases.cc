#include "ops/activation.h"
#include "tests/ops_cpu/op_case.h"

namespace dtrain::ops::test {

std::vector<OpCase> activation_cases() {
  std::vector<OpCase> cases;
  for (const std::string& name : activation_names()) {
    Activation a{*activation_by_name(name), 0};
    if (a.kind == ActivationKind::kElu) a.alpha = 1.5f;
    if (a.kind == ActivationKind::kLeakyRelu) a.alpha = 0.1f;
    for (const Shape& shape : {Shape{3, 7}, Shape{2, 5, 3, 3}, Shape{2, 16, 4, 4}, Shape{1}, Shape{5, 3, 2}}) {
      std::string form = name;
      for (int64_t d : shape.dims()) form += fmt::format("_{}", d);
      Value x = uniform(shape, 1, -4.0f, a.kind == ActivationKind::kRelu6 ? 9.0f : 4.0f);
      x.data()[0] = 0.0f;
      cases.push_back({.name = form,
                       .op = "activation",
                       .attributes = a,
                       .inputs = {x},
                       .outputs = {f32(shape)},
                       .forward = {},
                       .tolerance = 2e-5,
                       .nan_at = keeps_nan(a) ? shape.elements() / 2 : -1});
      const Value saved = backward_uses_output(a.kind) ? run_reference("activation", a, {x}, {f32(shape)})[0] : x;
      cases.push_back({.name = form,
                       .op = "activation.backward",
                       .attributes = a,
                       .inputs = {normal(shape, 2), saved},
                       .outputs = {f32(shape)},
                       .forward = {},
                       .tolerance = 2e-5});
    }
    // Far from 0, where exponentials overflow and differences cancel.
    const Value far = floats({1, 8}, {-100, -30, -12, -1e-4f, 1e-4f, 12, 30, 100});
    cases.push_back({.name = name + "_far",
                     .op = "activation",
                     .attributes = a,
                     .inputs = {far},
                     .outputs = {f32({1, 8})},
                     .forward = {},
                     .tolerance = 2e-5});
  }
  return cases;
}

}  // namespace dtrain::ops::test
