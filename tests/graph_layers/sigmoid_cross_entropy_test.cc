#include <gtest/gtest.h>

#include "tests/graph_layers/gradient_check.h"
#include "tests/graph_layers/layer_check.h"

namespace dtrain::graph {
namespace {

TEST(SigmoidCrossEntropy, Gradient) {
  check_gradients("[5]", R"({ type = "linear", units = 4 }, { type = "sigmoid_cross_entropy" },)", {.wrap = false});
}

TEST(SigmoidCrossEntropy, OfImages) {
  check_gradients("[2, 3, 3]",
                  R"({ type = "conv2d", filters = 4, kernel = 3, pad = 1 }, { type = "sigmoid_cross_entropy" },)",
                  {.wrap = false});
}

TEST(SigmoidCrossEntropy, Labels) {
  EXPECT_EQ(read_network("[2, 3]", R"({ type = "linear", units = 4 }, { type = "sigmoid_cross_entropy" },)")
                .network->labels(),
            (LabelSpec{LabelSpec::Kind::kTargets, {2, 4}, 0}));
}

}  // namespace
}  // namespace dtrain::graph
