#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/graph_layers/gradient_check.h"
#include "tests/graph_layers/layer_check.h"

namespace dtrain::graph {
namespace {

TEST(Gru, Gradient) { check_gradients("[4, 5]", R"({ type = "gru", units = 6 },)"); }

TEST(Gru, LastState) { check_gradients("[4, 5]", R"({ type = "gru", units = 6, sequences = false },)"); }

TEST(Gru, Stacked) { check_gradients("[3, 4]", R"({ type = "gru", units = 5, layers = 3 },)"); }

TEST(Gru, Bidirectional) {
  check_gradients("[4, 3]", R"({ type = "gru", units = 4, layers = 2, bidirectional = true },)");
  check_gradients("[4, 3]", R"({ type = "gru", units = 4, layers = 2, bidirectional = true, sequences = false },)");
}

TEST(Gru, OneStepOfOneSample) {
  check_gradients("[1, 5]", R"({ type = "gru", units = 3, bidirectional = true },)", {.samples = 1});
}

TEST(Gru, RightOnTheSample) {
  check_gradients(
      "[3, 4]",
      R"({ type = "gru", units = 5, sequences = false }, { type = "linear", units = 2 }, { type = "softmax_cross_entropy" },)",
      {.wrap = false});
}

TEST(Gru, WithAnActivation) { check_gradients("[3, 4]", R"({ type = "gru", units = 5, activation = "tanh" },)"); }

TEST(Gru, ParametersAreCalledAsInPyTorch) {
  const LayerFacts facts = layer_facts("[7, 5]", R"({ type = "gru", units = 3, layers = 2, bidirectional = true })");
  const int64_t rows = 3 * 3;
  EXPECT_EQ(facts.parameters, (std::vector<ParameterInfo>{{"x.weight_ih_l0", {rows, 5}},
                                                          {"x.weight_hh_l0", {rows, 3}},
                                                          {"x.bias_ih_l0", {rows}},
                                                          {"x.bias_hh_l0", {rows}},
                                                          {"x.weight_ih_l0_reverse", {rows, 5}},
                                                          {"x.weight_hh_l0_reverse", {rows, 3}},
                                                          {"x.bias_ih_l0_reverse", {rows}},
                                                          {"x.bias_hh_l0_reverse", {rows}},
                                                          {"x.weight_ih_l1", {rows, 6}},
                                                          {"x.weight_hh_l1", {rows, 3}},
                                                          {"x.bias_ih_l1", {rows}},
                                                          {"x.bias_hh_l1", {rows}},
                                                          {"x.weight_ih_l1_reverse", {rows, 6}},
                                                          {"x.weight_hh_l1_reverse", {rows, 3}},
                                                          {"x.bias_ih_l1_reverse", {rows}},
                                                          {"x.bias_hh_l1_reverse", {rows}}}));
  EXPECT_EQ(facts.flops, 2.0 * 7 * 2 * static_cast<double>(rows) * ((5 + 3) + (6 + 3)));
}

TEST(Gru, Shapes) {
  const auto shape = [](const std::string& keys) {
    return layer_facts("[7, 5]", R"({ type = "gru", units = 3, )" + keys + " }").output;
  };
  EXPECT_EQ(shape("layers = 2"), (Shape{7, 3}));
  EXPECT_EQ(shape("bidirectional = true"), (Shape{7, 6}));
  EXPECT_EQ(shape("sequences = false"), (Shape{3}));
  EXPECT_EQ(shape("sequences = false, bidirectional = true"), (Shape{6}));
}

TEST(Gru, Errors) {
  using testing::HasSubstr;
  EXPECT_THAT(layer_error("[4, 5]", R"({ type = "gru" })"), HasSubstr("layer 'x' (gru)"));
  EXPECT_THAT(layer_error("[4, 5]", R"({ type = "gru", units = 0 })"),
              HasSubstr("'units' in layer 'x' (gru) must be from 1"));
  EXPECT_THAT(layer_error("[4, 5]", R"({ type = "gru", units = 2, layers = 0 })"),
              HasSubstr("'layers' in layer 'x' (gru) must be from 1 to 256"));
  EXPECT_THAT(layer_error("[4, 5]", R"({ type = "gru", units = 2, layers = 257 })"),
              HasSubstr("'layers' in layer 'x' (gru) must be from 1 to 256"));
  EXPECT_THAT(layer_error("[4, 5]", R"({ type = "gru", units = 2, bidirectional = 1 })"), HasSubstr("'bidirectional'"));
  EXPECT_THAT(layer_error("[4, 5]", R"({ type = "gru", units = 2, sequences = "no" })"), HasSubstr("'sequences'"));
  EXPECT_THAT(layer_error("[4, 5]", R"({ type = "gru", units = 2, sequence = true })"), HasSubstr("'sequences'"));
  EXPECT_THAT(layer_error("[5]", R"({ type = "gru", units = 2 })"), HasSubstr("needs [time, features]"));
  EXPECT_THAT(layer_error("[4, 5]", R"({ type = "gru", units = 2, inputs = ["input", "input"] })"),
              HasSubstr("takes one input, got 2"));
}

}  // namespace
}  // namespace dtrain::graph
