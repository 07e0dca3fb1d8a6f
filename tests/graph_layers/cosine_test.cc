#include <gtest/gtest.h>

#include "tests/graph_layers/gradient_check.h"
#include "tests/graph_layers/layer_check.h"

namespace dtrain::graph {
namespace {

TEST(Cosine, Gradient) {
  check_gradients("[5]", R"({ type = "linear", units = 4 }, { type = "cosine" },)", {.wrap = false});
}

TEST(Cosine, OfImages) {
  check_gradients("[2, 3, 3]", R"({ type = "conv2d", filters = 4, kernel = 3, pad = 1 }, { type = "cosine" },)",
                  {.wrap = false});
}

TEST(Cosine, Labels) {
  EXPECT_EQ(read_network("[2, 3]", R"({ type = "linear", units = 4 }, { type = "cosine" },)").network->labels(),
            (LabelSpec{LabelSpec::Kind::kTargets, {2, 4}, 0}));
}

}  // namespace
}  // namespace dtrain::graph
