#include <gtest/gtest.h>

#include "tests/graph_layers/gradient_check.h"
#include "tests/graph_layers/layer_check.h"

namespace dtrain::graph {
namespace {

class EverySoftmax : public testing::TestWithParam<std::string> {
 protected:
  static std::string layer(const std::string& keys = "") {
    return fmt::format(R"({{ type = "{}"{} }})", GetParam(), keys);
  }
};

TEST_P(EverySoftmax, Gradient) {
  check_gradients("[5]", layer() + ",");
  check_gradients("[5]", layer(R"(, activation = "tanh")") + ",");
  check_gradients("[3, 5]", layer() + ",");
}

TEST_P(EverySoftmax, AlongAnotherAxis) {
  check_gradients("[3, 5]", layer(", axis = 1") + ",");
  check_gradients("[3, 4, 5]", layer(", axis = 1") + ",");
  check_gradients("[3, 4, 5]", layer(", axis = -2") + ",");
  check_gradients("[3, 4, 5]", layer() + ",");
}

TEST_P(EverySoftmax, RightOnTheSample) {
  check_gradients("[5]", layer() + R"(, { type = "linear", units = 2 }, { type = "softmax_cross_entropy" },)",
                  {.wrap = false});
}

TEST_P(EverySoftmax, KeepsTheShape) {
  const LayerFacts facts = layer_facts("[3, 5]", layer());
  EXPECT_EQ(facts.output, (Shape{3, 5}));
  EXPECT_TRUE(facts.parameters.empty());
}

TEST_P(EverySoftmax, Errors) {
  const std::string what = fmt::format("error: layer 'x' ({}): ", GetParam());
  for (const char* axis : {", axis = 0", ", axis = 3", ", axis = -3", ", axis = 9223372036854775807"})
    EXPECT_NE(layer_error("[3, 5]", layer(axis)).find(what + "'axis' must be from 1 to 2 (axis 0 is the batch)"),
              std::string::npos)
        << axis;
  EXPECT_NE(layer_error("[3, 5]", layer(", axes = 1")).find("did you mean 'axis'?"), std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(Both, EverySoftmax, testing::Values("softmax", "log_softmax"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace dtrain::graph
