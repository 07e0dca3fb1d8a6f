#include "graph/lowering.h"

#include <gmock/gmock.h>

#include "tests/graph/network_text.h"

namespace dtrain::graph {
namespace {

using testing::ElementsAre;

Program lowered(const std::string& input, const std::string& layers, Mode mode = Mode::kTrain,
                const std::string& backend = "reference") {
  const NetworkText read = read_network(input, layers);
  EXPECT_TRUE(read.network) << read.error;
  return lower(*read.network, mode, 4, backend);
}

std::vector<std::string> ops_of(const Program& program) {
  std::vector<std::string> names;
  for (const Node& n : program.nodes) names.push_back(n.op);
  return names;
}

TEST(Lowering, NoGradientForTheSample) {
  const Program p = lowered("[2, 6, 6]", R"({ type = "max_pool2d", kernel = 2 },
    { type = "conv2d", filters = 3, kernel = 1 }, { type = "flatten" }, { type = "linear", units = 2 }, { type = "mse" },)");
  EXPECT_THAT(ops_of(p), ElementsAre("pool2d", "conv2d", "linear", "mse", "linear.backward_data",
                                     "linear.backward_weights", "conv2d.backward_weights"));
}

TEST(Lowering, EvaluationIsForwardWithoutDropout) {
  const std::string layers = R"({ type = "linear", units = 3 }, { type = "batch_norm" }, { type = "dropout" },
                                { type = "linear", units = 2 }, { type = "mse" },)";
  EXPECT_THAT(ops_of(lowered("[5]", layers, Mode::kEval)),
              ElementsAre("linear", "batch_norm.inference", "linear", "mse"));
  EXPECT_EQ(lowered("[5]", layers, Mode::kEval).nodes.back().outputs.size(), 1u);
  EXPECT_THAT(
      ops_of(lowered("[5]", layers)),
      ElementsAre("linear", "batch_norm", "dropout", "linear", "mse", "linear.backward_data", "linear.backward_weights",
                  "dropout.backward", "batch_norm.backward", "linear.backward_weights"));
}

TEST(Lowering, SumsGradientsLastReaderFirst) {
  const Program p =
      lowered("[5]", R"({ name = "a", type = "linear", units = 3 }, { name = "b", type = "linear", units = 3 },
    { name = "c", type = "linear", units = 3, inputs = ["a"] }, { type = "add", inputs = ["b", "a", "c"] },
    { type = "linear", units = 2 }, { type = "mse" },)");
  const auto sum = std::find_if(p.nodes.begin() + 6, p.nodes.end(), [](const Node& n) { return n.op == "add"; });
  ASSERT_NE(sum, p.nodes.end());
  // The readers of a, last first: the add layer, c, b.
  std::vector<std::string> makers;
  for (ValueId in : sum->inputs)
    for (const Node& n : p.nodes)
      for (ValueId out : n.outputs)
        if (out == in) makers.push_back(fmt::format("{} of layer {}", n.op, n.layer));
  EXPECT_THAT(makers, ElementsAre("linear.backward_data of layer 4", "linear.backward_data of layer 2",
                                  "linear.backward_data of layer 1"));
}

TEST(Lowering, AnActivationJoinsTheLayerThatItAloneReads) {
  const auto joined = ops_of(lowered(
      "[5]",
      R"({ type = "linear", units = 3, activation = "relu" }, { type = "linear", units = 2 }, { type = "mse" },)"));
  EXPECT_EQ(
      ops_of(lowered(
          "[5]",
          R"({ type = "linear", units = 3 }, { type = "relu" }, { type = "linear", units = 2 }, { type = "mse" },)")),
      joined);
  // Another reader needs the value before it.
  const auto apart = ops_of(lowered("[5]", R"({ name = "a", type = "linear", units = 3 }, { name = "r", type = "relu" },
    { type = "add", inputs = ["a", "r"] }, { type = "linear", units = 2 }, { type = "mse" },)"));
  EXPECT_THAT(apart, testing::Contains("activation"));
  // One with an activation of its own behind it: both are computed.
  const auto both = ops_of(lowered(
      "[5]",
      R"({ type = "linear", units = 3 }, { type = "relu", activation = "tanh" }, { type = "linear", units = 2 }, { type = "mse" },)"));
  EXPECT_EQ(std::count(both.begin(), both.end(), "activation"), 2);
  EXPECT_EQ(std::count(both.begin(), both.end(), "activation.backward"), 2);
  // Two in a row: the first joins, the second stays.
  const auto two = ops_of(lowered(
      "[5]",
      R"({ type = "linear", units = 3 }, { type = "relu" }, { type = "tanh" }, { type = "linear", units = 2 }, { type = "mse" },)"));
  EXPECT_EQ(two.size(), joined.size() + 2);
}

TEST(Lowering, FusesOnlyWhereTheDerivativeNeedsTheOutputAlone) {
  const std::string layers =
      R"({ type = "linear", units = 3, activation = "gelu" }, { type = "linear", units = 2 }, { type = "mse" },)";
  EXPECT_THAT(ops_of(lowered("[5]", layers)), testing::Contains("activation"));
  const std::string relu =
      R"({ type = "linear", units = 3, activation = "relu" }, { type = "linear", units = 2 }, { type = "mse" },)";
  for (const char* backend : {"reference", "cpu"}) {
    const auto ops = ops_of(lowered("[5]", relu, Mode::kTrain, backend));
    EXPECT_EQ(std::count(ops.begin(), ops.end(), "activation.backward"), 1) << backend;
  }
}

TEST(Lowering, FrozenLayersHaveNoBackwardPass) {
  constexpr char kFrozen[] = "params = { weight = { frozen = true }, bias = { frozen = true } }";
  // Where all below is frozen too nothing goes there; where something is trained below only the gradient passes.
  const auto backbone =
      lowered("[5]", fmt::format(R"({{ type = "linear", units = 3, {0} }}, {{ type = "linear", units = 4, {0} }},
                                    {{ type = "linear", units = 2 }}, {{ type = "mse" }},)",
                                 kFrozen));
  EXPECT_THAT(ops_of(backbone), ElementsAre("linear", "linear", "linear", "mse", "linear.backward_weights"));
  const auto between =
      lowered("[5]", fmt::format(R"({{ type = "linear", units = 3 }}, {{ type = "linear", units = 4, {0} }},
                                    {{ type = "linear", units = 2 }}, {{ type = "mse" }},)",
                                 kFrozen));
  EXPECT_THAT(ops_of(between),
              ElementsAre("linear", "linear", "linear", "mse", "linear.backward_data", "linear.backward_weights",
                          "linear.backward_data", "linear.backward_weights"));
}

TEST(Lowering, OneOfTwoGradientsOfAnOpMayBeUnwanted) {
  const Program p = lowered("[5]", R"({ type = "linear", units = 2, params.weight.frozen = true }, { type = "mse" },)");
  ASSERT_EQ(p.nodes.back().op, "linear.backward_weights");
  EXPECT_EQ(p.at(p.nodes.back().outputs[0]).kind, ValueKind::kTemporary);
  EXPECT_EQ(p.at(p.nodes.back().outputs[1]).kind, ValueKind::kParameterOut);
  EXPECT_EQ(p.at(p.nodes.back().outputs[1]).parameter, 1);
}

TEST(Lowering, GradientsOfASharedParameterAreSummedAtItsFirstLayer) {
  const Program p = lowered("[5]", R"({ name = "a", type = "linear", units = 5 },
    { name = "b", type = "linear", units = 5, params.weight.share = "a.weight" },
    { name = "c", type = "linear", units = 5, params.weight.share = "b.weight" }, { type = "mse" },)");
  ASSERT_EQ(p.nodes.back().op, "add");
  EXPECT_EQ(p.nodes.back().layer, 0);
  EXPECT_EQ(p.at(p.nodes.back().outputs.front()).kind, ValueKind::kParameterOut);
  EXPECT_EQ(p.at(p.nodes.back().outputs.front()).parameter, 0);
  std::vector<int> layers;
  for (ValueId in : p.nodes.back().inputs)
    for (const Node& n : p.nodes)
      if (!n.outputs.empty() && n.outputs.front() == in) layers.push_back(n.layer);
  EXPECT_THAT(layers, ElementsAre(2, 1, 0));
  int written = 0;
  for (const Node& n : p.nodes)
    for (ValueId out : n.outputs) written += p.at(out).kind == ValueKind::kParameterOut;
  EXPECT_EQ(written, 4);  // one weight, three biases
}

// Of long rows each piece would compute one or two whole ones, over and over.
TEST(Lowering, AGradientOfLongRowsIsNotCut) {
  static constexpr char kLayers[] = R"({{ type = "linear", units = {} }}, {{ type = "mse" }},)";
  const Program cut = lowered("[32768]", fmt::format(kLayers, 20));
  EXPECT_THAT(ops_of(cut), ElementsAre("linear", "mse", "linear.backward_rows", "linear.backward_rows",
                                       "linear.backward_rows", "linear.backward_bias"));
  const Program whole = lowered("[600000]", fmt::format(kLayers, 2));
  EXPECT_THAT(ops_of(whole), ElementsAre("linear", "mse", "linear.backward_weights"));
}

TEST(Lowering, FlattenComputesNothing) {
  const Program p = lowered("[2, 3, 3]", R"({ type = "flatten" }, { type = "linear", units = 2 }, { type = "mse" },)");
  EXPECT_EQ(p.nodes.front().op, "linear");
  const ValueId x = p.nodes.front().inputs.front();
  EXPECT_EQ(p.at(x).shape, (Shape{4, 18}));
  EXPECT_EQ(p.at(p.root(x)).kind, ValueKind::kSample);
}

TEST(Lowering, ASumBecomesPartOfTheBatchNormBeforeIt) {
  // b3 and p are norms that only the sum reads: the later one takes it over, with the relu behind it.
  const std::string block = R"({ name = "c", type = "conv2d", filters = 4, kernel = 1 },
    { name = "b3", type = "batch_norm" },
    { type = "conv2d", filters = 4, kernel = 1, inputs = ["c"] }, { name = "p", type = "batch_norm" },
    { type = "add", inputs = ["b3", "p"], activation = "relu" },)";
  const Program p = lowered("[2, 6, 6]", block + R"({ type = "global_avg_pool" }, { type = "mse" },)");
  EXPECT_THAT(ops_of(p), ElementsAre("conv2d", "batch_norm", "conv2d", "batch_norm", "global_avg_pool", "mse",
                                     "global_avg_pool.backward", "batch_norm.backward", "conv2d.backward_weights",
                                     "conv2d.backward_data", "batch_norm.backward", "add", "conv2d.backward_weights"));
  // Whoever else reads a norm keeps the sum apart.
  const Program apart = lowered("[2, 6, 6]", R"({ name = "b", type = "batch_norm" },
    { name = "c", type = "conv2d", filters = 2, kernel = 1 },
    { name = "s", type = "add", inputs = ["b", "c"] }, { type = "add", inputs = ["b", "s"] }, { type = "mse" },)");
  EXPECT_EQ(std::count_if(apart.nodes.begin(), apart.nodes.end(), [](const Node& n) { return n.op == "add"; }), 2);
}

TEST(Lowering, ANormTakesAGradientThatIsASum) {
  const Program p = lowered("[2, 6, 6]", R"({ name = "b", type = "batch_norm", activation = "relu" },
    { name = "c", type = "conv2d", filters = 2, kernel = 1 }, { type = "conv2d", filters = 2, kernel = 1, inputs = ["b"] },
    { name = "d", type = "conv2d", filters = 2, kernel = 1 }, { type = "add", inputs = ["c", "d"] }, { type = "mse" },)");
  const Node& last = p.nodes.back();
  EXPECT_EQ(last.op, "batch_norm.backward");
  EXPECT_EQ(last.inputs.size(), 7u) << "x, mean, var, gamma, y, and two gradients";
}

}  // namespace
}  // namespace dtrain::graph
