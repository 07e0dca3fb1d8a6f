#include "graph/layer_setup.h"

#include <fmt/format.h>

#include <limits>

namespace dtrain::graph {

void LayerSetup::error(std::string_view message, std::string_view key) {
  if (!guessed_) report(message, key);
}

void LayerSetup::report(std::string_view message, std::string_view key) {
  const std::string text = fmt::format("{}: {}", what_, message);
  if (key.empty())
    keys_.diagnostics().error(keys_.position(), text);
  else
    keys_.error(key, text);
}

int64_t LayerSetup::token_classes(int i) const {
  for (const Tokens& t : tokens_)
    if (t.input == i) return t.classes;
  return 0;
}

bool LayerSetup::expect_one_input() {
  if (inputs() == 1) return true;
  error(fmt::format("takes one input, got {}", inputs()));
  return false;
}

bool LayerSetup::expect_several_inputs() {
  if (inputs() >= 2) return true;
  error("takes two or more inputs, got 1: name them, as in inputs = [\"a\", \"b\"]");
  return false;
}

bool LayerSetup::expect_equal_shapes() {
  for (int i = 1; i < inputs(); ++i) {
    if (input(i) == input(0)) continue;
    error(fmt::format("its inputs must have equal shapes: {}, but {}", describe_input(0), describe_input(i)), "inputs");
    return false;
  }
  return true;
}

bool LayerSetup::expect_rank(int rank, std::string_view what, int i) {
  if (input(i).rank() == rank) return true;
  error(fmt::format("needs {}, but its {} has {} {}", what, describe_input(i), input(i).rank(),
                    input(i).rank() == 1 ? "axis" : "axes"));
  return false;
}

void LayerSetup::parameter(std::string suffix, Shape shape, Initializer initializer, ParameterKind kind) {
  parameters_.push_back({std::move(suffix), std::move(shape), kind, initializer});
}

ops::Activation LayerSetup::read_activation(ops::ActivationKind kind) {
  // Below 0 the derivative could not be told from the output.
  constexpr double kLargest = std::numeric_limits<float>::max();
  ops::Activation activation{kind, 0.0f};
  if (kind == ops::ActivationKind::kElu)
    activation.alpha = static_cast<float>(keys_.number("alpha", 1.0, 0.0, kLargest));
  if (kind == ops::ActivationKind::kLeakyRelu)
    activation.alpha = static_cast<float>(keys_.number("slope", 0.01, 0.0, kLargest));
  return activation;
}

}  // namespace dtrain::graph
