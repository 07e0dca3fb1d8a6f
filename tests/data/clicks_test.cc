#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "config/parse.h"
#include "data/dataset.h"

namespace dtrain::data {
namespace {

using testing::HasSubstr;

DataSource open(const std::string& text, Shape input, int64_t tokens, int64_t classes, std::string* error = nullptr) {
  const auto table = config::parse_toml("format = \"clicks\"\n" + text, "run.toml");
  EXPECT_TRUE(table.has_value());
  config::Diagnostics diagnostics;
  config::TableReader reader(*table, diagnostics, "[data.train]");
  const RealFileSystem files;
  DataSource source = open_data(
      reader, {.files = files, .network_input = std::move(input), .token_classes = tokens, .label_classes = classes});
  EXPECT_EQ(source.dataset == nullptr, !diagnostics.ok());
  if (error && !diagnostics.ok()) *error = diagnostics.status().error().message;
  return source;
}

struct Read {
  std::vector<float> values;
  std::vector<int32_t> tokens;
  float clicked = -1;
};

Read read(const Dataset& data, int64_t index) {
  Read out;
  out.values.resize(data.sample_dtype() == DType::kF32 ? static_cast<size_t>(data.sample_shape().elements()) : 0);
  out.tokens.resize(data.sample_dtype() == DType::kI32 ? static_cast<size_t>(data.sample_shape().elements()) : 0);
  int32_t label = -1;
  LabelOut to;
  if (data.labels().kind == LabelKind::kClass)
    to.classes = {&label, 1};
  else
    to.values = {&out.clicked, 1};
  EXPECT_TRUE(data.read({index, 0, 0}, {out.values, out.tokens}, to));
  if (data.labels().kind == LabelKind::kClass) out.clicked = static_cast<float>(label);
  return out;
}

TEST(Clicks, AreNumbersCategoriesAndAClass) {
  const auto source = open("samples = 2000\nnumbers = 2\ncategories = [7, 100000]", {4}, 0, 2);
  ASSERT_TRUE(source.dataset);
  EXPECT_EQ(source.dataset->size(), 2000);
  std::set<float> first, second;
  double clicked = 0;
  for (int64_t i = 0; i < 2000; ++i) {
    const Read r = read(*source.dataset, i);
    first.insert(r.values[2]);
    second.insert(r.values[3]);
    clicked += r.clicked;
  }
  EXPECT_EQ(first.size(), 7u);
  EXPECT_EQ(*first.rbegin(), 6.0f);
  EXPECT_GT(second.size(), 1000u) << "rare ones";
  EXPECT_LT(second.size(), 1990u) << "and frequent ones";
  EXPECT_LT(*second.rbegin(), 100000.0f);
  EXPECT_GT(clicked, 300);
  EXPECT_LT(clicked, 1700);
}

TEST(Clicks, AreAFunctionOfSeedAndIndex) {
  const std::string text = "samples = 50\nnumbers = 1\ncategories = [1000]\n";
  const auto a = open(text, {2}, 0, 0), b = open(text + "first = 20", {2}, 0, 0),
             c = open(text + "seed = 1", {2}, 0, 0);
  EXPECT_EQ(read(*a.dataset, 25).values, read(*b.dataset, 5).values);
  EXPECT_EQ(read(*a.dataset, 25).clicked, read(*b.dataset, 5).clicked);
  EXPECT_NE(read(*a.dataset, 25).values, read(*c.dataset, 25).values);
  EXPECT_NE(a.dataset->digest(), b.dataset->digest());
  EXPECT_EQ(a.dataset->labels().kind, LabelKind::kValues);
}

TEST(Clicks, AreTokensForWhoLooksAllOfThemUp) {
  const auto source = open("samples = 5\ncategories = [2000000000, 3]", {2}, 2000000000, 0);
  ASSERT_TRUE(source.dataset);
  EXPECT_EQ(source.dataset->sample_dtype(), DType::kI32);
  EXPECT_LT(read(*source.dataset, 3).tokens[1], 3);
}

TEST(Clicks, SayWhatDoesNotFit) {
  const auto wrong = [](const std::string& text, Shape input, int64_t tokens) {
    std::string error;
    open(text, std::move(input), tokens, 2, &error);
    return error;
  };
  EXPECT_THAT(wrong("samples = 5\ncategories = [20000000]", {1}, 0), HasSubstr("at most 16777216"));
  EXPECT_THAT(wrong("samples = 5\ncategories = [20]", {1}, 10), HasSubstr("at most 10"));
  EXPECT_THAT(wrong("samples = 5\ncategories = [20]", {2}, 0), HasSubstr("network.input is [2]"));
  EXPECT_THAT(wrong("samples = 5\nnumbers = 1\ncategories = [20]", {2}, 20), HasSubstr("'numbers' must be 0"));
  EXPECT_THAT(wrong("categories = [20]", {1}, 0), HasSubstr("samples"));
}

}  // namespace
}  // namespace dtrain::data
