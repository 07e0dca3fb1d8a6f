#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <map>

#include "config/parse.h"
#include "data/dataset.h"
#include "tests/temporary_directory.h"

namespace dtrain::data {
namespace {

using testing::HasSubstr;

class SkipgramTest : public testing::Test {
 protected:
  DataSource open(const std::string& text, int64_t tokens = 10, const std::string& preprocessing = "",
                  Shape input = {4}) {
    const auto table =
        config::parse_toml("format = \"skipgram\"\nfiles = \"" + folder_.path() + "/text\"\n" + text, "run.toml");
    EXPECT_TRUE(table.has_value());
    config::Diagnostics diagnostics;
    config::TableReader reader(*table, diagnostics, "[data.train]");
    DataSource source = open_data(
        reader,
        {.files = files_, .network_input = std::move(input), .token_classes = tokens, .preprocessing = preprocessing});
    error_ = diagnostics.ok() ? "" : diagnostics.status().error().message;
    return source;
  }
  void write(const std::string& text) { std::ofstream(folder_.path() + "/text") << text; }
  static std::vector<int32_t> read(const Dataset& data, int64_t index, int64_t number = 0) {
    std::vector<int32_t> tokens(static_cast<size_t>(data.sample_shape().elements()));
    std::vector<float> labels(tokens.size() - 1);
    EXPECT_TRUE(data.read({index, number, 3}, {{}, tokens}, {{}, labels}));
    EXPECT_EQ(labels[0], 1.0f);
    for (size_t i = 1; i < labels.size(); ++i) EXPECT_EQ(labels[i], 0.0f);
    return tokens;
  }

  TemporaryDirectory folder_;
  RealFileSystem files_;
  std::string error_;
};

TEST_F(SkipgramTest, NumbersWordsByHowFrequentTheyAre) {
  write("The cat, the dog; the Cat's tail.\nA dog.");
  const auto source = open("window = 1\nnegatives = 2");
  ASSERT_TRUE(source.dataset) << error_;
  EXPECT_EQ(source.dataset->preprocessing(), "the 3\ncat 2\ndog 2\na 1\ns 1\ntail 1\n");
  EXPECT_EQ(source.dataset->size(), 10 * 2);
  // the cat the dog the cat s tail a dog
  EXPECT_EQ(read(*source.dataset, 2)[0], 1);
  EXPECT_EQ(read(*source.dataset, 2)[1], 0);
  EXPECT_EQ(read(*source.dataset, 3)[1], 0);
  EXPECT_EQ(read(*source.dataset, 7)[1], 0) << "dog, and behind it the";
  EXPECT_EQ(read(*source.dataset, 0)[1], 1) << "before the first word there is none";
  EXPECT_EQ(read(*source.dataset, 19)[1], 3) << "nor one behind the last";
}

TEST_F(SkipgramTest, DrawsFrequentWordsMoreOften) {
  std::string text;
  for (int i = 0; i < 81; ++i) text += "x ";
  write(text + "y z");
  const auto source = open("window = 1\nnegatives = 2");
  ASSERT_TRUE(source.dataset) << error_;
  std::map<int32_t, int> drawn;
  for (int64_t n = 0; n < 3000; ++n)
    for (size_t i : {2, 3}) ++drawn[read(*source.dataset, 0, n)[i]];
  // 27 : 1 : 1
  EXPECT_NEAR(drawn[0], 6000.0 * 27 / 29, 120);
  EXPECT_NEAR(drawn[1], 6000.0 / 29, 60);
  EXPECT_EQ(read(*source.dataset, 0, 7), read(*source.dataset, 0, 7));
}

TEST_F(SkipgramTest, LeavesRareWordsOutAndOthersData) {
  write("a a a b b c");
  const auto source = open("window = 1\nnegatives = 2\nvocab = 2");
  ASSERT_TRUE(source.dataset);
  EXPECT_EQ(source.dataset->size(), 5 * 2);
  const std::string words = source.dataset->preprocessing();
  write("c b c a d");
  const auto test = open("window = 1\nnegatives = 2", 10, words);
  ASSERT_TRUE(test.dataset) << error_;
  EXPECT_EQ(test.dataset->size(), 2 * 2);
  EXPECT_EQ(test.dataset->preprocessing(), words);
  EXPECT_EQ(read(*test.dataset, 0)[0], 1);
  EXPECT_NE(test.dataset->digest(), source.dataset->digest());
  open("window = 1\nnegatives = 2", 10, "{\"a\": 1}");
  EXPECT_THAT(error_, HasSubstr("has learnt no words"));
}

TEST_F(SkipgramTest, SaysWhatIsWrong) {
  write("a b");
  open("negatives = 3");
  EXPECT_THAT(error_, HasSubstr("network.input is [4]"));
  open("negatives = 2\nvocab = 11");
  EXPECT_THAT(error_, HasSubstr("the tokens 0 … 9"));
  open("negatives = 2\npart = [0.5, 0.5]");
  EXPECT_THAT(error_, HasSubstr("part"));
  write("17 + 4");
  open("negatives = 2");
  EXPECT_THAT(error_, HasSubstr("none has two words"));
}

}  // namespace
}  // namespace dtrain::data
