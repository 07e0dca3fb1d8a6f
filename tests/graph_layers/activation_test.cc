#include "ops/activation.h"

#include <gtest/gtest.h>

#include "tests/graph_layers/gradient_check.h"
#include "tests/graph_layers/layer_check.h"

namespace dtrain::graph {
namespace {

class EveryActivation : public testing::TestWithParam<std::string> {};

TEST_P(EveryActivation, OnItsOwn) {
  // Two readers of front: the activation cannot become part of it.
  check_gradients(
      "[5]", fmt::format(R"({{ name = "a", type = "{}" }}, {{ type = "add", inputs = ["a", "front"] }},)", GetParam()));
}

TEST_P(EveryActivation, AfterALayerThatOnlyItReads) {
  check_gradients("[5]", fmt::format(R"({{ type = "{}" }},)", GetParam()));
}

TEST_P(EveryActivation, AsAKey) {
  check_gradients("[5]", fmt::format(R"({{ type = "linear", units = 6, activation = "{}" }},)", GetParam()));
}

TEST_P(EveryActivation, AfterAPool) {
  check_gradients("[2, 4, 4]", fmt::format(R"({{ type = "max_pool2d", kernel = 2, activation = "{}" }},)", GetParam()));
}

INSTANTIATE_TEST_SUITE_P(All, EveryActivation, testing::ValuesIn(ops::activation_names()),
                         [](const auto& info) { return info.param; });

TEST(Activation, TakesItsParameter) {
  check_gradients(
      "[5]",
      R"({ type = "elu", alpha = 0.3 }, { type = "linear", units = 4, activation = "leaky_relu", slope = 0.2 },)");
  EXPECT_NE(layer_error("[5]", R"({ type = "relu", alpha = 0.3 })").find("unknown key 'alpha'"), std::string::npos);
  EXPECT_NE(layer_error("[5]", R"({ type = "linear", units = 4, activation = "rellu" })").find("did you mean 'relu'?"),
            std::string::npos);
}

}  // namespace
}  // namespace dtrain::graph
