#include <gtest/gtest.h>

#include "tests/graph_layers/gradient_check.h"
#include "tests/graph_layers/layer_check.h"

namespace dtrain::graph {
namespace {

TEST(SoftmaxCrossEntropy, Gradient) {
  check_gradients("[5]", R"({ type = "linear", units = 4 }, { type = "softmax_cross_entropy" },)", {.wrap = false});
}

TEST(SoftmaxCrossEntropy, LabelSmoothing) {
  check_gradients("[5]",
                  R"({ type = "linear", units = 4 }, { type = "softmax_cross_entropy", label_smoothing = 0.2 },)",
                  {.wrap = false});
}

TEST(SoftmaxCrossEntropy, OnePerPosition) {
  check_gradients("[2, 3, 3]",
                  R"({ type = "conv2d", filters = 4, kernel = 1 }, { type = "softmax_cross_entropy", axis = 1 },)",
                  {.wrap = false});
  check_gradients("[3, 5]", R"({ type = "linear", units = 4 }, { type = "softmax_cross_entropy" },)", {.wrap = false});
}

TEST(SoftmaxCrossEntropy, Labels) {
  const auto labels = [](const std::string& input, const std::string& layers) {
    return read_network(input, layers).network->labels();
  };
  EXPECT_EQ(labels("[5]", R"({ type = "linear", units = 4 }, { type = "softmax_cross_entropy" },)"),
            (LabelSpec{LabelSpec::Kind::kClasses, {}, 4}));
  EXPECT_EQ(labels("[2, 3, 7]",
                   R"({ type = "conv2d", filters = 4, kernel = 1 }, { type = "softmax_cross_entropy", axis = 1 },)"),
            (LabelSpec{LabelSpec::Kind::kClasses, {3, 7}, 4}));
}

TEST(SoftmaxCrossEntropy, TopK) {
  check_gradients("[5]", R"({ type = "linear", units = 4 }, { type = "softmax_cross_entropy", top_k = 2 },)",
                  {.wrap = false});
  check_gradients(
      "[2, 3, 3]",
      R"({ type = "conv2d", filters = 4, kernel = 1 }, { type = "softmax_cross_entropy", axis = 1, top_k = 2 },)",
      {.wrap = false});
  EXPECT_EQ(read_network("[5]", R"({ type = "linear", units = 4 }, { type = "softmax_cross_entropy", top_k = 3 },)")
                .network->labels(),
            (LabelSpec{LabelSpec::Kind::kClasses, {}, 4, 3}));
  EXPECT_NE(read_network("[5]", R"({ type = "linear", units = 4 }, { type = "softmax_cross_entropy", top_k = 5 },)")
                .error.find("'top_k' = 5 is more than the 4 classes"),
            std::string::npos);
}

TEST(SoftmaxCrossEntropy, Errors) {
  EXPECT_NE(read_network("[5]", R"({ type = "linear", units = 4 }, { type = "softmax_cross_entropy", axis = 2 },)")
                .error.find("'axis' must be"),
            std::string::npos);
}

}  // namespace
}  // namespace dtrain::graph
