#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/data/open_toml.h"

namespace dtrain::data {
namespace {

using ::testing::HasSubstr;

std::unique_ptr<Dataset> open(const std::string& keys, const Shape& input) {
  RealFileSystem files;
  return open_toml("format = \"synthetic\"\n" + keys, files, input).source.dataset;
}

TEST(SyntheticTest, SamplesAreNormalAndClassesEven) {
  auto d = open("samples = 2000", Shape{3, 5});
  EXPECT_EQ(d->size(), 2000);
  EXPECT_EQ(d->max_label(), 9);
  double sum = 0, squares = 0;
  std::vector<int> of_class(10);
  for (int64_t i = 0; i < d->size(); ++i) {
    const ReadSample r = read_sample(*d, i);
    for (float x : r.sample) sum += x, squares += x * x;
    ++of_class.at(static_cast<size_t>(r.classes.at(0)));
  }
  EXPECT_NEAR(sum / 30000, 0, 0.03);
  EXPECT_NEAR(squares / 30000, 1, 0.04);
  for (int n : of_class) EXPECT_NEAR(n, 200, 60);
}

TEST(SyntheticTest, ASampleIsAFunctionOfSeedAndIndex) {
  auto a = open("seed = 3", Shape{7}), b = open("seed = 3\nsamples = 5", Shape{7}), c = open("seed = 4", Shape{7});
  EXPECT_EQ(a->size(), 1024);
  EXPECT_EQ(read_sample(*a, 4).sample, read_sample(*b, 4).sample);
  EXPECT_NE(read_sample(*a, 4).sample, read_sample(*a, 3).sample);
  EXPECT_NE(read_sample(*a, 4).sample, read_sample(*c, 4).sample);
  EXPECT_NE(a->digest(), b->digest());
  EXPECT_NE(a->digest(), c->digest());
  EXPECT_EQ(a->digest(), open("seed = 3", Shape{7})->digest());
}

TEST(SyntheticTest, TokensHaveATokenToPredictAtEachPlace) {
  auto d = open("vocab = 13", Shape{8});
  EXPECT_EQ(d->labels(), (LabelSpec{LabelKind::kClassPerPosition, Shape{8}}));
  EXPECT_EQ(d->max_label(), 12);
  std::vector<int> seen(13), labels(13);
  for (int64_t i = 0; i < d->size(); ++i) {
    const ReadSample r = read_sample(*d, i);
    for (float x : r.sample) ++seen.at(static_cast<size_t>(x));
    for (int32_t y : r.classes) ++labels.at(static_cast<size_t>(y));
    ASSERT_EQ(r.sample[0], std::floor(r.sample[0]));
  }
  for (int v = 0; v < 13; ++v) EXPECT_TRUE(seen[static_cast<size_t>(v)] > 400 && labels[static_cast<size_t>(v)] > 400);
}

TEST(SyntheticTest, TokensAreIntegersWhereTheNetworkLooksThemUp) {
  RealFileSystem files;
  const std::string keys = "format = \"synthetic\"\nvocab = 13";
  auto numbers = open_toml(keys, files, Shape{8}), tokens = open_toml(keys, files, Shape{8}, "run.toml", 13);
  ASSERT_TRUE(tokens.status) << tokens.status.error().message;
  EXPECT_EQ(tokens.source.dataset->sample_dtype(), DType::kI32);
  const ReadSample a = read_sample(*numbers.source.dataset, 5), b = read_sample(*tokens.source.dataset, 5);
  EXPECT_EQ(a.sample, std::vector<float>(b.tokens.begin(), b.tokens.end()));
  EXPECT_EQ(a.classes, b.classes);
  auto beyond = open_toml(keys, files, Shape{8}, "run.toml", 12);
  EXPECT_THAT(beyond.status.error().message, HasSubstr("the network knows the tokens 0 … 11"));
  auto deviates = open_toml("format = \"synthetic\"", files, Shape{8}, "run.toml", 13);
  EXPECT_THAT(deviates.status.error().message, HasSubstr("the network looks its input up as tokens"));
}

TEST(SyntheticTest, MistakesAreNamed) {
  RealFileSystem files;
  for (const char* keys :
       {"samples = 0", "classes = 0", "vocab = 0", "seed = -1", "clases = 3", "classes = 3\nvocab = 4"}) {
    auto opened = open_toml(std::string("format = \"synthetic\"\n") + keys, files, Shape{1});
    ASSERT_FALSE(opened.status) << keys;
    EXPECT_EQ(opened.status.error().code, ExitCode::kUsage);
    EXPECT_THAT(opened.status.error().message, HasSubstr("run.toml:")) << keys;
  }
}

}  // namespace
}  // namespace dtrain::data
