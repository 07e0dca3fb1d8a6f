#include "node/answer_table.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "tests/node/run_text.h"

namespace dtrain::node {
namespace {

using Format = AnswerTable::Format;

TEST(AnswerTable, ClassesByNameWithProbabilities) {
  RunFolder folder;
  const RunDefinition run = folder.open(kMlp);
  const std::vector<float> logits = {0, 0.6931472f, 0};  // 1 : 2 : 1
  const AnswerTable csv(*run.network, {"a", "b,c", "d"}, {Format::kCsv, true});
  EXPECT_EQ(csv.header(), "sample,label,probability,a,\"b,c\",d\n");
  EXPECT_EQ(csv.row(4, logits), "5,\"b,c\",0.5,0.25,0.5,0.25\n");
  const AnswerTable json(*run.network, {"a", "b\"", "d"}, {Format::kJsonLines, true});
  EXPECT_EQ(json.header(), "");
  EXPECT_EQ(json.row(0, logits),
            "{\"sample\": 1, \"label\": \"b\\\"\", \"probability\": 0.5, "
            "\"probabilities\": {\"a\": 0.25, \"b\\\"\": 0.5, \"d\": 0.25}}\n");
  const AnswerTable plain(*run.network, {}, {});
  EXPECT_EQ(plain.header() + plain.row(0, logits), "sample,label,probability\n1,1,0.5\n");
}

TEST(AnswerTable, Values) {
  RunFolder folder;
  const auto run = folder.read(kMlp, {"network.layers=[{type=\"linear\",units=2},{type=\"mse\"}]"});
  ASSERT_TRUE(run) << run.error().message;
  const std::vector<float> output = {0.1f, -2};
  const AnswerTable csv(*run->network, {}, {});
  EXPECT_EQ(csv.header() + csv.row(0, output), "sample,value1,value2\n1,0.1,-2\n");
  const AnswerTable json(*run->network, {}, {Format::kJsonLines, false});
  EXPECT_EQ(json.row(1, output), "{\"sample\": 2, \"values\": [0.1, -2]}\n");
}

TEST(AnswerTable, AProbabilityForEachLabel) {
  RunFolder folder;
  const auto run = folder.read(kMlp, {"network.layers=[{type=\"linear\",units=1},{type=\"sigmoid_cross_entropy\"}]"});
  ASSERT_TRUE(run) << run.error().message;
  const std::vector<float> output = {0};
  EXPECT_EQ(AnswerTable(*run->network, {}, {}).row(0, output), "1,0.5\n");
  EXPECT_EQ(AnswerTable(*run->network, {}, {Format::kJsonLines, false}).row(0, output),
            "{\"sample\": 1, \"probability\": 0.5}\n");
  const std::vector<float> unlikely = {-20};
  const std::string row = AnswerTable(*run->network, {}, {}).row(0, unlikely);
  EXPECT_NEAR(std::stod(row.substr(2)), std::exp(-20.0), 1e-14) << "small, not 0";
}

TEST(AnswerTable, AClassAtEachPosition) {
  RunFolder folder;
  const auto run = folder.read(kMlp, {"network.layers=[{name=\"fc\",type=\"linear\",units=6},"
                                      "{type=\"reshape\",shape=[2,3]},{type=\"softmax_cross_entropy\",axis=1}]"});
  ASSERT_TRUE(run) << run.error().message;
  const std::vector<float> output = {0, 5, 0, 5, 0, 0};  // [2, 3]: classes along the first axis
  const AnswerTable csv(*run->network, {}, {});
  EXPECT_EQ(csv.row(0, output).substr(0, 8), "1,1 0 0,");
}

}  // namespace
}  // namespace dtrain::node
