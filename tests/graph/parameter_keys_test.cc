#include "graph/parameter_keys.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>

#include "graph/executable.h"
#include "tests/graph/network_text.h"
#include "tests/graph/training_data.h"

namespace dtrain::graph {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr char kEnd[] = R"({ name = "out", type = "linear", units = 5 }, { type = "softmax_cross_entropy" },)";

// A linear layer "a" from 12 to 8 with these further keys.
NetworkText with(const std::string& keys, const std::string& more = "") {
  return read_network("[12]",
                      fmt::format("{{ name = \"a\", type = \"linear\", units = 8, {} }},\n{}{}", keys, more, kEnd));
}

std::vector<float> initial(const Network& network, ParameterIndex p) {
  std::vector<float> out(static_cast<size_t>(network.parameters()[static_cast<size_t>(p)].shape.elements()));
  network.initialize(p, 1, 0, out);
  return out;
}

double largest(const std::vector<float>& values) {
  double most = 0;
  for (float x : values) most = std::max(most, std::abs(static_cast<double>(x)));
  return most;
}

double deviation(const std::vector<float>& values) {
  double squares = 0;
  for (float x : values) squares += static_cast<double>(x) * x;
  return std::sqrt(squares / static_cast<double>(values.size()));
}

std::vector<float> weight_of(const std::string& input, const std::string& layer, const std::string& init) {
  const NetworkText read = read_network(
      input, fmt::format("{{ name = \"a\", {}, params.weight.init = {} }}, {{ type = \"mse\" }},", layer, init));
  EXPECT_TRUE(read.network) << read.error;
  return initial(*read.network, 0);
}

TEST(ParameterKeys, InitializersByName) {
  const NetworkText read =
      with(R"(params.weight.init = "ones", params.bias = { init = { type = "constant", value = -2.5 } })");
  ASSERT_TRUE(read.network) << read.error;
  EXPECT_THAT(initial(*read.network, 0), testing::Each(1.0f));
  EXPECT_THAT(initial(*read.network, 1), testing::Each(-2.5f));
  constexpr char kLinear[] = R"(type = "linear", units = 100)";
  EXPECT_THAT(weight_of("[12]", kLinear, R"("zeros")"), testing::Each(0.0f));
  const auto uniform = weight_of("[300]", kLinear, R"({ type = "uniform", low = 1, high = 3 })");
  EXPECT_THAT(uniform, testing::Each(testing::AllOf(testing::Ge(1.0f), testing::Le(3.0f))));
  EXPECT_NEAR(deviation(weight_of("[300]", kLinear, R"({ type = "normal", std = 0.02 })")), 0.02, 0.0005);
  EXPECT_LE(largest(weight_of("[300]", kLinear, R"({ type = "truncated_normal", std = 0.02 })")), 0.04);
}

TEST(ParameterKeys, ScaledInitializersGoByTheFans) {
  // [100, 300]: fan_in 300, fan_out 100. Uniform's bound is √3 deviations.
  constexpr char kLinear[] = R"(type = "linear", units = 100)";
  const auto linear = [&](const char* init) { return weight_of("[300]", kLinear, init); };
  const double root3 = std::sqrt(3.0);
  for (const char* name : {R"("xavier")", R"("xavier_uniform")"})
    EXPECT_NEAR(largest(linear(name)), root3 * std::sqrt(2.0 / 400), 1e-4) << name;
  EXPECT_NEAR(deviation(linear(R"("xavier_normal")")), std::sqrt(2.0 / 400), 1e-3);
  for (const char* name : {R"("he")", R"("he_normal")"})
    EXPECT_NEAR(deviation(linear(name)), std::sqrt(2.0 / 300), 1e-3) << name;
  EXPECT_NEAR(largest(linear(R"("he_uniform")")), root3 * std::sqrt(2.0 / 300), 1e-4);
  EXPECT_NEAR(deviation(linear(R"({ type = "he", mode = "fan_out" })")), std::sqrt(2.0 / 100), 2e-3);
  EXPECT_NEAR(largest(linear(R"({ type = "he_uniform", gain = 1.0 })")), root3 * std::sqrt(1.0 / 300), 1e-4);
  EXPECT_NEAR(largest(linear(R"({ type = "xavier", gain = 3 })")), 3 * root3 * std::sqrt(2.0 / 400), 1e-3);
  // [32, 8, 3, 5]: the kernel's area counts in both.
  const auto conv = weight_of("[16, 9, 9]", R"(type = "conv2d", filters = 32, kernel = [3, 5], groups = 2)",
                              R"({ type = "he_uniform", mode = "fan_out", gain = 1 })");
  EXPECT_EQ(conv.size(), 32u * 8 * 15);
  EXPECT_NEAR(largest(conv), root3 * std::sqrt(1.0 / (32 * 15)), 1e-4);
}

TEST(ParameterKeys, OrthogonalIsOfThePlainMatrix) {
  const auto m =
      weight_of("[2, 5, 5]", R"(type = "conv2d", filters = 6, kernel = 3)", R"({ type = "orthogonal", gain = 2 })");
  for (size_t a = 0; a < 6; ++a) {
    for (size_t b = 0; b < 6; ++b) {
      double product = 0;
      for (size_t i = 0; i < 18; ++i) product += static_cast<double>(m[a * 18 + i]) * m[b * 18 + i];
      EXPECT_NEAR(product, a == b ? 4 : 0, 1e-5);
    }
  }
}

TEST(ParameterKeys, MultipliersAndKind) {
  const NetworkText read = with("params = { weight = { lr_mult = 2, decay_mult = 0 }, bias = { frozen = true } }");
  ASSERT_TRUE(read.network) << read.error;
  const auto& parameters = read.network->parameters();
  EXPECT_EQ(parameters[0], (ParameterInfo{"a.weight", {8, 12}, ParameterKind::kTrainable, 2, 0}));
  EXPECT_EQ(parameters[1], (ParameterInfo{"a.bias", {8}, ParameterKind::kFrozen, 1, 1}));
  EXPECT_EQ(parameters[2], (ParameterInfo{"out.weight", {5, 8}, ParameterKind::kTrainable, 1, 1}));
  EXPECT_EQ(read.network->trainable_elements(), 96 + 45);
  EXPECT_EQ(read.network->layers()[0].parameter_elements, 96);
}

TEST(ParameterKeys, FrozenLayersBelowTakeNoGradient) {
  const NetworkText read = with("params = { weight.frozen = true, bias.frozen = true }");
  ASSERT_TRUE(read.network) << read.error;
  EXPECT_FALSE(read.network->layers()[0].needs_gradient);
  EXPECT_TRUE(read.network->layers()[1].needs_gradient);
}

TEST(ParameterKeys, ASharedParameterIsThereOnce) {
  const NetworkText read = with("bias = true", R"({ name = "b", type = "linear", units = 12, bias = false },
{ name = "c", type = "linear", units = 8, params = { weight.share = "a.weight", bias.share = "a.bias" } },
)");
  ASSERT_TRUE(read.network) << read.error;
  std::vector<std::string> names;
  for (const ParameterInfo& p : read.network->parameters()) names.push_back(p.name);
  EXPECT_THAT(names, ElementsAre("a.weight", "a.bias", "b.weight", "out.weight", "out.bias"));
  EXPECT_THAT(read.network->layers()[2].parameters, ElementsAre(0, 1));
  EXPECT_EQ(read.network->layers()[2].parameter_elements, 0);
  EXPECT_TRUE(read.network->layers()[2].needs_gradient);
  EXPECT_EQ(read.network->trainable_elements(), 96 + 8 + 96 + 45);
}

TEST(ParameterKeys, NamesInABlockAreItsOwn) {
  const NetworkText read = read_network(R"(
input = [8]
layers = [ { name = "twin", type = "pair", repeat = 2, from = "first.weight" }, { name = "l", type = "mse" } ]
[network.block.pair]
args = { from = "" }
layers = [
  { name = "first", type = "linear", units = 8 },
  { name = "second", type = "linear", units = 8, params.weight.share = "$from" },
]
)");
  ASSERT_TRUE(read.network) << read.error;
  EXPECT_THAT(read.network->layers()[1].parameters, ElementsAre(0, 2));
  EXPECT_THAT(read.network->layers()[3].parameters, ElementsAre(3, 5));
}

// The gradient of a shared parameter is the sum of those that its layers' own ones would have, to the bit.
TEST(ParameterKeys, GradientOfASharedParameter) {
  for (const char* backend : {"reference", "cpu"}) {
    const auto layers = [](const char* share) {
      return fmt::format(R"({{ name = "a", type = "linear", units = 12, activation = "tanh" }},
                            {{ name = "b", type = "linear", units = 12, {} }}, {})",
                         share, kEnd);
    };
    const NetworkText tied = read_network("[12]", layers(R"(params.weight.share = "a.weight")"));
    const NetworkText apart = read_network("[12]", layers("params = {}"));
    ASSERT_TRUE(tied.network) << tied.error;
    ASSERT_TRUE(apart.network) << apart.error;
    TrainingData one(*tied.network, 6), two(*apart.network, 6);
    std::copy_n(one.parameter(0).begin(), 144, two.parameter(2).begin());  // b.weight
    std::vector<ParameterIndex> order;
    struct Order : Observer {
      explicit Order(std::vector<ParameterIndex>& o) : out(o) {}
      void ready(const ParameterOutput& o) override { out.push_back(o.parameter); }
      std::vector<ParameterIndex>& out;
    } observer(order);
    auto first = Executable::compile(*tied.network, Mode::kTrain, 6, backend);
    auto second = Executable::compile(*apart.network, Mode::kTrain, 6, backend);
    ASSERT_TRUE(first) << first.error().message;
    ASSERT_TRUE(second) << second.error().message;
    Observer nobody;
    ASSERT_TRUE((*first)->run(one.feed(), one.binding(), one.context(), observer));
    ASSERT_TRUE((*second)->run(two.feed(), two.binding(), two.context(), nobody));
    for (size_t i = 0; i < 144; ++i)
      ASSERT_EQ(one.output(0)[i], two.output(2)[i] + two.output(0)[i]) << backend << ", element " << i;
    // It is ready once, and last, when its first layer's part is known.
    EXPECT_EQ(std::count(order.begin(), order.end(), 0), 1);
    EXPECT_EQ(order.size(), tied.network->parameters().size());
    EXPECT_EQ(order.back(), 0);
  }
}

TEST(ParameterKeys, NothingIsWrittenForAFrozenOne) {
  const NetworkText read = with("params.weight.frozen = true");
  ASSERT_TRUE(read.network) << read.error;
  TrainingData data(*read.network, 4);
  auto executable = Executable::compile(*read.network, Mode::kTrain, 4, "cpu");
  ASSERT_TRUE(executable) << executable.error().message;
  struct Seen : Observer {
    void ready(const ParameterOutput& out) override { parameters.push_back(out.parameter); }
    std::vector<ParameterIndex> parameters;
  } seen;
  ASSERT_TRUE((*executable)->run(data.feed(), data.binding(), data.context(), seen));
  EXPECT_THAT(seen.parameters, testing::UnorderedElementsAre(1, 2, 3));
  EXPECT_THAT(std::vector<float>(data.output(0).begin(), data.output(0).end()), testing::Each(1e30f));
  EXPECT_LT(largest({data.output(1).begin(), data.output(1).end()}), 1e3);
}

TEST(ParameterKeys, Mistakes) {
  struct Case {
    const char *keys, *message;
  };
  for (const Case& c : std::initializer_list<Case>{
           {"params.wieght.init = \"he\"",
            "unknown key 'wieght' in 'params' of layer 'a' (linear) (did you mean 'weight'?)"},
           {"params.weight.lr_mul = 2",
            "unknown key 'lr_mul' in 'params.weight' of layer 'a' (linear) (did you mean 'lr_mult'?)"},
           {"params.weight.init = \"hee\"", "unknown value 'hee' (did you mean 'he'?)"},
           {"params.weight.init = \"quite_other\"",
            "(known: constant, he, he_normal, he_uniform, normal, ones, orthogonal, "
            "truncated_normal, uniform, xavier, xavier_normal, xavier_uniform, zeros)"},
           {"params.weight.init = { type = \"normal\" }", "'params.weight.init' of layer 'a' (linear) needs 'std'"},
           {"params.weight.init = \"normal\"", "needs 'std'"},
           {"params.weight.init = { type = \"he\", std = 1 }", "unknown key 'std' in 'params.weight.init'"},
           {"params.weight.init = { type = \"he\", mode = \"fan\" }", "unknown value 'fan'"},
           {"params.weight.init = { type = \"uniform\", low = 1, high = 0 }", "'high' = 0 is below 'low' = 1"},
           {"params.weight.init = 3", "expected a name such as \"he\", or a table, got the integer 3"},
           {"params.bias.init = \"he\"", "'he' needs a parameter of two or more axes, but this one's shape is [8]"},
           {"params.bias.init = \"orthogonal\"", "needs a parameter of two or more axes"},
           {"params.weight.lr_mult = -1", "'lr_mult' in 'params.weight' of layer 'a' (linear) must be"},
           {"params.weight = { frozen = true, lr_mult = 2 }", "is frozen: 'lr_mult' would change nothing"},
           {"params.weight = { frozen = true }, params.bias = { frozen = 1 }",
            "expected true or false, got the integer 1"},
           {"params = 5", "'params' in layer 'a' (linear): expected a table"},
           {"params.weight.share = \"out.weight\"", "'out.weight' is of a layer further down"},
           {"params.weight.share = \"a.weight\"", "'a.weight' is of this layer itself"},
           {"params.weight.share = \"nowhere\"", "there is no parameter 'nowhere' above"}}) {
    const std::string error = with(c.keys).error;
    EXPECT_THAT(error, HasSubstr(c.message)) << c.keys;
    EXPECT_THAT(error, testing::StartsWith("net.toml:4:")) << c.keys;
    EXPECT_EQ(std::count(error.begin(), error.end(), '\n'), 0) << error;
  }
}

TEST(ParameterKeys, MistakesBetweenLayers) {
  EXPECT_THAT(with("bias = true", "{ type = \"relu\", params.weight.init = \"he\" },\n").error,
              HasSubstr("layer 'relu1' (relu): has no parameters, and so no 'params'"));
  EXPECT_THAT(
      with("bias = true", "{ name = \"b\", type = \"linear\", units = 9, params.weight.share = \"a.weight\" },\n")
          .error,
      HasSubstr("its weight has the shape [9, 8], but 'a.weight' has [8, 12]"));
  EXPECT_THAT(
      with("bias = true", "{ name = \"b\", type = \"linear\", units = 8, params.bias.share = \"a.bais\" },\n").error,
      HasSubstr("there is no parameter 'a.bais' above (did you mean 'a.bias'?)"));
  EXPECT_THAT(
      with("bias = true",
           "{ name = \"b\", type = \"linear\", units = 8, params.bias = { share = \"a.bias\", lr_mult = 2 } },\n")
          .error,
      HasSubstr("is the parameter of another layer: say 'lr_mult' there"));
  EXPECT_THAT(
      with("bias = true", "{ name = \"n\", type = \"batch_norm\", params.running_mean.frozen = true },\n").error,
      HasSubstr("is a running statistic, which takes 'init' only"));
  EXPECT_THAT(with("bias = true",
                   "{ name = \"n\", type = \"batch_norm\" },\n{ type = \"linear\", units = 8, params.bias.share = "
                   "\"n.running_var\" },\n")
                  .error,
              HasSubstr("'n.running_var' is a running statistic, which cannot be shared"));
  EXPECT_THAT(
      read_network("[12]", R"({ name = "a", type = "linear", units = 1, bias = false, params.weight.frozen = true },
                                      { type = "mse" },)")
          .error,
      HasSubstr("the network has nothing to train: all its parameters are frozen"));
  EXPECT_THAT(
      read_network("[4097]",
                   R"({ type = "linear", units = 4096, params.weight.init = "orthogonal" }, { type = "mse" },)")
          .error,
      HasSubstr("'orthogonal' is for parameters of at most 16777216 elements, but this one's shape is [4096, 4097]"));
}

TEST(ParameterKeys, AMistakeInTheSharedLayerIsToldOnce) {
  const std::string error = read_network("[12]", fmt::format(R"({{ name = "a", type = "linear", unts = 12 }},
{{ name = "b", type = "linear", units = 12, params.weight.share = "a.weight" }}, {})",
                                                             kEnd))
                                .error;
  EXPECT_THAT(error, HasSubstr("'unts'"));
  EXPECT_THAT(error, testing::Not(HasSubstr("share")));
  EXPECT_THAT(error, testing::Not(HasSubstr("above")));
}

}  // namespace
}  // namespace dtrain::graph
