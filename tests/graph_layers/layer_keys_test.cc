// Every key of every layer type with values that it cannot have: each is an error that names the layer and the key. A
// layer that is new, or has a new key, fails here until it has its row.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <sstream>

#include "config/load.h"
#include "graph/layer_registry.h"
#include "tests/graph/network_text.h"

namespace dtrain::graph {
namespace {

using testing::HasSubstr;
using Values = std::vector<std::string>;  // TOML

struct Key {
  std::string name;
  Values bad;
  std::string good = "";  // of a key that is required
};

struct Row {
  std::string type;
  std::vector<Shape> inputs;
  std::vector<Key> keys;
};

const Values kFlag = {"1", "\"true\"", "[true]"};
const Values kExtent = {"0", "-1", "16777217", "9223372036854775807", "1.5", "\"2\"", "true", "[2]"};
const Values kPair = {"0", "-1", "16777217", "1.5", "\"2\"", "[]", "[1]", "[1, 2, 3]", "[0, 1]", "[1, 0]", "[1, 1.5]"};
const Values kPad = {"-1", "16777217", "1.5", "[]", "[0]", "[0, 0, 0]", "[0, -1]", "\"full\"", "true"};
const Values kNumber = {"nan", "inf", "-inf", "\"1\"", "true", "[1]"};
const Values kAxisOfTwo = {"0", "3", "-3", "9223372036854775807", "-9223372036854775808", "1.5", "\"1\""};

Values and_also(Values values, const Values& more) {
  values.insert(values.end(), more.begin(), more.end());
  return values;
}

const std::vector<Row>& rows() {
  const Shape image{4, 6, 6}, rows{3, 4};
  const Key epsilon{"epsilon", and_also(kNumber, {"0", "-1e-5"})}, affine{"affine", kFlag}, bias{"bias", kFlag};
  const Key groups{"groups", and_also(kExtent, {"3"})};
  const std::vector<Key> recurrent = {{"units", kExtent, "3"},
                                      {"layers", and_also(kExtent, {"1000001"})},
                                      {"bidirectional", kFlag},
                                      {"sequences", kFlag}};
  const std::vector<Key> pool = {{"kernel", and_also(kPair, {"7", "[1, 7]"}), "2"},
                                 {"stride", kPair},
                                 {"pad", and_also(kPad, {"2"})},
                                 {"ceil", kFlag}};
  std::vector<Key> average = pool;
  average.push_back({"count_include_pad", kFlag});
  static const std::vector<Row> all = {
      {"add", {rows, rows}, {}},
      {"attention", {rows}, {{"heads", and_also(kExtent, {"3"}), "2"}, {"causal", kFlag}}},
      {"avg_pool2d", {image}, average},
      {"batch_norm", {image}, {epsilon, affine, {"momentum", and_also(kNumber, {"-0.1", "1.1"})}}},
      {"concat", {rows, rows}, {{"axis", kAxisOfTwo}}},
      {"conv2d",
       {image},
       {{"filters", kExtent, "2"},
        {"kernel", and_also(kPair, {"7", "[7, 1]"}), "3"},
        {"stride", kPair},
        {"dilation", and_also(kPair, {"3"})},
        groups,
        {"pad", kPad},
        bias}},
      {"conv_transpose2d",
       {image},
       {{"filters", kExtent, "2"},
        {"kernel", kPair, "3"},
        {"stride", kPair},
        {"pad", and_also(kPad, {"4", "\"same\""})},
        {"output_pad", and_also(kPad, {"1"})},
        {"dilation", kPair},
        groups,
        bias}},
      {"cosine", {rows}, {}},
      {"dropout", {rows}, {{"rate", and_also(kNumber, {"-0.1", "1", "0.99999999999"})}}},
      {"elu", {rows}, {{"alpha", and_also(kNumber, {"-0.1", "1e39"})}}},
      {"dot", {rows, rows}, {}},
      {"embedding", {Shape{5}}, {{"vocab", kExtent, "7"}, {"dim", kExtent, "2"}, {"sparse", kFlag}}},
      {"flatten", {image}, {}},
      {"gelu", {rows}, {}},
      {"gelu_tanh", {rows}, {}},
      {"global_avg_pool", {image}, {}},
      {"group_norm", {image}, {{"groups", and_also(kExtent, {"3"}), "2"}, epsilon, affine}},
      {"gru", {rows}, recurrent},
      {"huber", {rows}, {{"delta", and_also(kNumber, {"0", "-1", "1e-60", "1e60"})}}},
      {"layer_norm", {rows}, {epsilon, affine}},
      {"leaky_relu", {rows}, {{"slope", and_also(kNumber, {"-0.1", "1e39"})}}},
      {"linear", {rows}, {{"units", kExtent, "2"}, bias}},
      {"log_softmax", {rows}, {{"axis", kAxisOfTwo}}},
      {"lrn",
       {image},
       {{"size", kExtent},
        {"alpha", and_also(kNumber, {"-1", "1e7"})},
        {"beta", and_also(kNumber, {"-1", "1e7"})},
        {"k", and_also(kNumber, {"0", "-1", "1e7"})}}},
      {"lstm", {rows}, recurrent},
      {"max_pool2d", {image}, pool},
      {"mse", {rows}, {}},
      {"mul", {rows, rows}, {}},
      {"position_embedding", {rows}, {{"length", and_also(kExtent, {"2"}), "3"}}},
      {"relu", {rows}, {}},
      {"relu6", {rows}, {}},
      {"reshape",
       {rows},
       {{"shape",
         {"[]", "[0, 12]", "[-2, 6]", "[-1, -1]", "[5, -1]", "[13]", "[1.5]", "12", "\"a\"", "[16777217]",
          "[16777216, 16777216]"},
         "[12]"}}},
      {"sigmoid", {rows}, {}},
      {"sigmoid_cross_entropy", {rows}, {}},
      {"silu", {rows}, {}},
      {"slice",
       {rows},
       {{"axis", kAxisOfTwo},
        {"begin", {"3", "-4", "16777217", "-16777217", "1.5", "\"1\""}},
        {"end", {"0", "4", "-3", "16777217", "-16777217", "1.5", "\"1\""}},
        {"extent", and_also(kExtent, {"4"})}}},
      {"softmax", {rows}, {{"axis", kAxisOfTwo}}},
      {"softmax_cross_entropy",
       {rows},
       {{"axis", kAxisOfTwo},
        {"label_smoothing", and_also(kNumber, {"-0.1", "1.1"})},
        {"top_k", and_also(kExtent, {"5"})}}},
      {"softplus", {rows}, {}},
      {"tanh", {rows}, {}},
      {"transpose",
       {rows},
       {{"order",
         {"[]", "[1]", "[1, 1]", "[0, 1]", "[1, 3]", "[-1, 1]", "[1, 2, 3]", "[1.5, 2]", "21", "\"ba\""},
         "[2, 1]"}}},
      {"upsample", {image}, {{"scale", kPair, "2"}, {"mode", {"\"cubic\"", "1", "true", "\"\""}}}},
  };
  return all;
}

struct Outcome {
  bool good = false;
  std::string error;
};

// What the layer makes of the required keys, but `key` with another value, or, where that is empty, without it.
Outcome set_up(const Row& row, const std::string& key = "", const std::string& value = "") {
  std::string table;
  const auto put = [&](const std::string& k, const std::string& v) {
    if (!v.empty()) table += (table.empty() ? "" : ", ") + k + " = " + v;
  };
  bool its_own = key.empty();
  for (const Key& k : row.keys) {
    put(k.name, k.name == key ? value : k.good);
    its_own = its_own || k.name == key;
  }
  if (!its_own) put(key, value);
  const Result<config::Value> root = config::load_text("x = { " + table + " }\n", "run.toml");
  if (!root) {
    ADD_FAILURE() << table << ": " << root.error().message;
    return {};
  }
  config::Diagnostics diagnostics;
  const std::string what = fmt::format("layer 'x' ({})", row.type);
  config::TableReader keys(*root->find("x"), diagnostics, what);
  std::vector<LayerSetup::Input> inputs;
  for (const Shape& shape : row.inputs) inputs.push_back({shape, "input 'above' of shape " + to_string(shape)});
  LayerSetup setup(what, row.type, "x", keys, std::move(inputs));
  const auto layer = LayerRegistry::instance().make(row.type);
  const bool shaped = layer->setup(setup).has_value();
  keys.finish();
  Outcome outcome{shaped && diagnostics.ok(), ""};
  if (!diagnostics.ok()) outcome.error = diagnostics.status().error().message;
  return outcome;
}

TEST(LayerKeys, EveryTypeIsHere) {
  std::vector<std::string> types;
  for (const Row& row : rows()) types.push_back(row.type);
  EXPECT_THAT(types, testing::UnorderedElementsAreArray(LayerRegistry::instance().types()));
}

class LayerKeysOf : public testing::TestWithParam<Row> {};

TEST_P(LayerKeysOf, EveryKeyIsHere) {
  const Outcome outcome = set_up(GetParam());
  EXPECT_TRUE(outcome.good) << outcome.error;
  // A key that is like no other is answered with all that the layer has asked for.
  const std::string error = set_up(GetParam(), "QQQQQQQQQQQQ", "1").error;
  const std::string said = "unknown key 'QQQQQQQQQQQQ' in layer 'x' (" + GetParam().type + ")";
  ASSERT_THAT(error, HasSubstr(said));
  const std::string rest = error.substr(error.find(said) + said.size());
  std::set<std::string> known, here;
  const std::string before = " (known: ";
  if (rest.starts_with(before)) {
    std::stringstream list(rest.substr(before.size(), rest.find(')') - before.size()));
    for (std::string name; std::getline(list >> std::ws, name, ',');) known.insert(name);
  }
  for (const Key& key : GetParam().keys) here.insert(key.name);
  EXPECT_EQ(known, here) << error;
}

TEST_P(LayerKeysOf, ValuesThatItCannotHaveAreErrors) {
  const Row& row = GetParam();
  for (const Key& key : row.keys)
    for (const std::string& value : and_also(key.bad, {"{ a = 1 }", "[[1]]"})) {
      SCOPED_TRACE(key.name + " = " + value);
      const Outcome outcome = set_up(row, key.name, value);
      EXPECT_FALSE(outcome.good);
      EXPECT_THAT(outcome.error, HasSubstr(fmt::format("layer 'x' ({})", row.type)));
      EXPECT_THAT(outcome.error, HasSubstr(key.name));
      EXPECT_THAT(outcome.error, HasSubstr("run.toml:1:"));
    }
}

TEST_P(LayerKeysOf, RequiredKeysAreMissed) {
  for (const Key& key : GetParam().keys)
    if (!key.good.empty()) {
      EXPECT_THAT(set_up(GetParam(), key.name).error,
                  HasSubstr(fmt::format("layer 'x' ({}) needs '{}'", GetParam().type, key.name)));
    }
}

std::string name_of(const testing::TestParamInfo<Row>& info) { return info.param.type; }
INSTANTIATE_TEST_SUITE_P(Types, LayerKeysOf, testing::ValuesIn(rows()), name_of);

}  // namespace
}  // namespace dtrain::graph
