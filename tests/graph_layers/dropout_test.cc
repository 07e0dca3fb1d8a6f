#include <gtest/gtest.h>

#include "tests/graph_layers/gradient_check.h"
#include "tests/graph_layers/layer_check.h"

namespace dtrain::graph {
namespace {

TEST(Dropout, Gradient) { check_gradients("[9]", R"({ type = "dropout", rate = 0.4 },)"); }

TEST(Dropout, OfAnImage) { check_gradients("[3, 4, 4]", R"({ type = "dropout" },)"); }

TEST(Dropout, RateZeroIsNothing) { check_gradients("[9]", R"({ type = "dropout", rate = 0 }, { type = "tanh" },)"); }

TEST(Dropout, Errors) {
  for (const char* rate : {"1", "1.0", "-0.1", "0.99999999999"})
    EXPECT_NE(layer_error("[9]", fmt::format(R"({{ type = "dropout", rate = {} }})", rate))
                  .find("'rate' must be at least 0 and below 1"),
              std::string::npos)
        << rate;
}

}  // namespace
}  // namespace dtrain::graph
