#include "graph/layers/recurrent_layer.h"

#include <fmt/format.h>

#include "ops/elementwise.h"
#include "ops/recurrent.h"

namespace dtrain::graph {

std::optional<Shape> RecurrentLayer::setup(LayerSetup& s) {
  constexpr int64_t kMaxLayers = 256;
  units_ = s.keys().require_integer("units", 1, LayerSetup::kMaxExtent);
  layers_ = s.keys().integer("layers", 1, 1, kMaxLayers);
  directions_ = s.keys().boolean("bidirectional", false) ? 2 : 1;
  sequences_ = s.keys().boolean("sequences", true);
  if (!s.expect_one_input() || !s.expect_rank(2, "[time, features]")) return std::nullopt;
  const int64_t time = s.input()[0], rows = gates_ * units_;
  int64_t features = s.input()[1];
  double flops = 0;
  for (int64_t k = 0; k < layers_; ++k) {
    for (int64_t d = 0; d < directions_; ++d) {
      const std::string suffix = fmt::format("_l{}{}", k, d == 1 ? "_reverse" : "");
      const Initializer initializer = Initializer::fan_in(static_cast<double>(units_));
      s.parameter("weight_ih" + suffix, {rows, features}, initializer);
      s.parameter("weight_hh" + suffix, {rows, units_}, initializer);
      s.parameter("bias_ih" + suffix, {rows}, initializer);
      s.parameter("bias_hh" + suffix, {rows}, initializer);
      flops += 2.0 * static_cast<double>(time) * static_cast<double>(rows) * static_cast<double>(features + units_);
    }
    features = directions_ * units_;
  }
  s.flops(flops);
  return sequences_ ? Shape{time, features} : Shape{features};
}

void RecurrentLayer::forward(Emitter& e) const {
  const int64_t time = e.shape(e.input(0))[1];
  ValueId x = e.input(0);
  for (int64_t k = 0; k < layers_; ++k) {
    e.save(x);
    const bool top = k == layers_ - 1;
    const Shape shape = only_last(k) ? Shape{e.batch(), units_} : Shape{e.batch(), time, units_};
    std::vector<ValueId> states;
    for (int64_t d = 0; d < directions_; ++d) {
      states.push_back(top && directions_ == 1 ? e.new_output() : e.value(shape));
      std::vector<ValueId> out{states.back()};
      if (e.training()) {
        out.push_back(e.workspace());
        e.save(out.back());
      }
      e.op(op_, ops::Recurrent{.reverse = d == 1},
           {x, parameter(e, k, d, 0), parameter(e, k, d, 1), parameter(e, k, d, 2), parameter(e, k, d, 3)},
           std::move(out));
    }
    x = states[0];
    if (directions_ == 1) continue;
    x = top ? e.new_output() : e.value({e.batch(), time, 2 * units_});
    e.op("concat", ops::Axis{shape.rank() - 1}, std::move(states), {x});
  }
}

void RecurrentLayer::backward(Emitter& e) const {
  ValueId dy = e.output_gradient();
  for (int64_t k = layers_ - 1; k >= 0; --k) {
    const ValueId x = e.saved(saved_input(k));
    const bool wants_dx = k > 0 || e.wants_gradient(0);
    std::vector<ValueId> dx;
    for (int64_t d = 0; d < directions_; ++d) {
      ValueId of_states = dy;
      if (directions_ == 2) {
        Shape shape = e.shape(dy);
        const int axis = shape.rank() - 1;
        shape[axis] = units_;
        of_states = e.value(std::move(shape));
        e.op("slice", ops::Slice{axis, d * units_}, {dy}, {of_states});
      }
      std::vector<ValueId> out;
      for (int p = 0; p < kParameters; ++p) out.push_back(e.parameter_out(first_parameter(k, d) + p));
      if (wants_dx) {
        dx.push_back(e.value(e.shape(x)));
        out.push_back(dx.back());
      }
      e.op(op_ + ".backward", ops::Recurrent{.reverse = d == 1},
           {x, parameter(e, k, d, 0), parameter(e, k, d, 1), of_states,
            e.saved(saved_input(k) + 1 + static_cast<int>(d))},
           std::move(out));
    }
    if (!wants_dx) return;
    dy = dx[0];
    if (directions_ == 2) {
      dy = e.value(e.shape(x));
      e.op("add", ops::Add{}, std::move(dx), {dy});
    }
  }
  e.give_gradient(0, dy);
}

}  // namespace dtrain::graph
