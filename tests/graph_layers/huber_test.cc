#include <gtest/gtest.h>

#include "tests/graph_layers/gradient_check.h"
#include "tests/graph_layers/layer_check.h"

namespace dtrain::graph {
namespace {

TEST(Huber, Gradient) {
  check_gradients("[5]", R"({ type = "linear", units = 4 }, { type = "huber" },)", {.wrap = false});
}

TEST(Huber, OfImages) {
  check_gradients("[2, 3, 3]", R"({ type = "conv2d", filters = 4, kernel = 3, pad = 1 }, { type = "huber" },)",
                  {.wrap = false});
}

TEST(Huber, Delta) {
  check_gradients("[5]", R"({ type = "linear", units = 4 }, { type = "huber", delta = 0.3 },)", {.wrap = false});
  for (const char* delta : {"0", "-1", "1e-60", "1e60"})
    EXPECT_NE(read_network("[5]",
                           fmt::format(R"({{ type = "linear", units = 4 }}, {{ type = "huber", delta = {} }},)", delta))
                  .error.find("'delta' must be above 0"),
              std::string::npos);
}

TEST(Huber, Labels) {
  EXPECT_EQ(read_network("[2, 3]", R"({ type = "linear", units = 4 }, { type = "huber" },)").network->labels(),
            (LabelSpec{LabelSpec::Kind::kTargets, {2, 4}, 0}));
}

}  // namespace
}  // namespace dtrain::graph
