#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "data/file_digest.h"
#include "tests/data/open_toml.h"
#include "tests/temporary_directory.h"

namespace dtrain::data {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class TokensTest : public ::testing::Test {
 protected:
  void put(const std::string& name, const std::string& content) {
    auto file = files_.create(directory_.path() + "/" + name).value();
    ASSERT_TRUE(file->write(std::as_bytes(std::span(content.data(), content.size()))));
  }
  template <typename T>
  void put_tokens(const std::string& name, const std::vector<T>& tokens) {
    put(name, std::string(reinterpret_cast<const char*>(tokens.data()), tokens.size() * sizeof(T)));
  }
  OpenedData open(const std::string& keys, int64_t length, int64_t classes = 1 << 16, int64_t label_classes = 1 << 16) {
    return open_toml("format = \"tokens\"\n" + keys, files_, Shape{length}, directory_.path() + "/run.toml", classes,
                     label_classes);
  }
  std::string error(const std::string& keys, int64_t length, ExitCode code, int64_t classes = 1 << 16) {
    auto opened = open(keys, length, classes, classes);
    if (opened.status) return "";
    EXPECT_EQ(opened.status.error().code, code);
    return opened.status.error().message;
  }

  RealFileSystem files_;
  TemporaryDirectory directory_;
};

TEST_F(TokensTest, AWindowPredictsTheTokenAfterEach) {
  put_tokens<uint16_t>("t", {10, 11, 12, 13, 14, 15, 60000});
  auto opened = open("files = \"t\"\ntype = \"uint16\"", 3);
  ASSERT_TRUE(opened.status) << opened.status.error().message;
  const Dataset& d = *opened.source.dataset;
  EXPECT_EQ(d.size(), 2);
  EXPECT_EQ(d.sample_dtype(), DType::kI32);
  EXPECT_EQ(d.labels(), (LabelSpec{LabelKind::kClassPerPosition, Shape{3}}));
  EXPECT_THAT(read_sample(d, 1).tokens, ElementsAre(13, 14, 15));
  EXPECT_THAT(read_sample(d, 1).classes, ElementsAre(14, 15, 60000));
}

TEST_F(TokensTest, TextIsBytesAndWindowsMayOverlap) {
  put("t", "to be or\xff");
  auto opened = open("files = \"t\"\ntype = \"uint8\"\nstride = 2\nlimit = 3", 4, 256, 256);
  ASSERT_TRUE(opened.status) << opened.status.error().message;
  EXPECT_EQ(opened.source.dataset->size(), 3);
  EXPECT_THAT(read_sample(*opened.source.dataset, 1).tokens, ElementsAre(' ', 'b', 'e', ' '));
  EXPECT_THAT(read_sample(*opened.source.dataset, 2).classes, ElementsAre(' ', 'o', 'r', 255));
}

TEST_F(TokensTest, FilesFollowEachOtherAndNoWindowCrosses) {
  put_tokens<uint32_t>("a", {1, 2, 3, 4});
  put_tokens<uint32_t>("b", {5, 6});
  put_tokens<uint32_t>("c", {7, 8, 9});
  auto opened = open("files = [\"a\", \"b\", \"c\"]\ntype = \"uint32\"\nstride = 1", 2);
  ASSERT_TRUE(opened.status) << opened.status.error().message;
  ASSERT_EQ(opened.source.dataset->size(), 3);
  EXPECT_THAT(read_sample(*opened.source.dataset, 1).tokens, ElementsAre(2, 3));
  EXPECT_THAT(read_sample(*opened.source.dataset, 2).tokens, ElementsAre(7, 8));
  EXPECT_THAT(read_sample(*opened.source.dataset, 2).classes, ElementsAre(8, 9));
}

TEST_F(TokensTest, PartsOfOneFileDoNotOverlap) {
  put("t", "0123456789");
  auto train = open("files = \"t\"\ntype = \"uint8\"\npart = [0, 0.6]\nstride = 1", 2);
  auto test = open("files = \"t\"\ntype = \"uint8\"\npart = [0.6, 1]\nstride = 1", 2);
  ASSERT_EQ(train.source.dataset->size(), 4);
  ASSERT_EQ(test.source.dataset->size(), 2);
  EXPECT_THAT(read_sample(*train.source.dataset, 3).classes, ElementsAre('4', '5'));
  EXPECT_THAT(read_sample(*test.source.dataset, 0).tokens, ElementsAre('6', '7'));
  EXPECT_THAT(read_sample(*test.source.dataset, 1).classes, ElementsAre('8', '9'));
  EXPECT_NE(train.source.dataset->digest(), test.source.dataset->digest());
}

TEST_F(TokensTest, WhereTheNetworkComputesWithThemTheyAreNumbers) {
  put("t", "abc");
  auto opened = open("files = \"t\"\ntype = \"uint8\"", 2, 0);
  ASSERT_TRUE(opened.status) << opened.status.error().message;
  EXPECT_THAT(read_sample(*opened.source.dataset, 0).sample, ElementsAre('a', 'b'));
}

TEST_F(TokensTest, TokensBeyondTheNetworkNameFileAndPlace) {
  put_tokens<uint16_t>("t", {1, 2, 3, 4, 5, 300});
  const std::string keys = "files = \"t\"\ntype = \"uint16\"";
  EXPECT_THAT(
      error(keys, 2, ExitCode::kData, 300),
      AllOf(HasSubstr("run.toml:2:9"), HasSubstr("/t': token 5 is 300, but the network knows the tokens 0 … 299")));
  EXPECT_EQ(error(keys, 2, ExitCode::kData, 301), "");
  EXPECT_EQ(error(keys + "\npart = [0, 0.9]", 2, ExitCode::kData, 300), "");
  // One that may be a label but no input, and the other way round.
  auto opened = open(keys, 2, 5, 301);
  ASSERT_FALSE(opened.status);
  EXPECT_THAT(opened.status.error().message, HasSubstr("token 4 is 5"));
}

TEST_F(TokensTest, WhatTheDigestDidNotSeeIsLookedAtWhenItIsRead) {
  const uint64_t size = kDigestWhole + (64u << 20);
  put("t", "");
  std::filesystem::resize_file(directory_.path() + "/t", size);
  auto open_big = [&] { return open("files = \"t\"\ntype = \"uint8\"", 1024, 200, 200); };
  const Digest before = open_big().source.dataset->digest();
  // Between the first two pieces: the digest does not tell.
  const uint64_t place = kDigestPiece + 4096;
  FILE* f = std::fopen((directory_.path() + "/t").c_str(), "r+");
  ASSERT_TRUE(f);
  std::fseek(f, static_cast<long>(place), SEEK_SET);
  std::fputc(200, f);
  std::fclose(f);
  auto opened = open_big();
  ASSERT_TRUE(opened.status) << opened.status.error().message;
  EXPECT_EQ(opened.source.dataset->digest(), before);
  EXPECT_EQ(read_error(*opened.source.dataset, {0}), "");
  EXPECT_THAT(read_error(*opened.source.dataset, {static_cast<int64_t>(place) / 1024}),
              HasSubstr("token " + std::to_string(place) + " is 200"));
  std::filesystem::resize_file(directory_.path() + "/t", size + 1);
  EXPECT_NE(open_big().source.dataset->digest(), before);
}

TEST_F(TokensTest, AFileThatShrinksIsAnErrorOfTheData) {
  put("t", std::string(4096, 'x'));
  auto opened = open("files = \"t\"\ntype = \"uint8\"", 7);
  ASSERT_TRUE(opened.status);
  std::filesystem::resize_file(directory_.path() + "/t", 100);
  EXPECT_EQ(read_error(*opened.source.dataset, {0}), "");
  EXPECT_THAT(read_error(*opened.source.dataset, {14}), HasSubstr("/t': it ends at byte 100"));
}

TEST_F(TokensTest, MistakesStandAtTheirKeys) {
  put("t", "abcdefg");
  const std::string good = "files = \"t\"\ntype = \"uint8\"\n";
  EXPECT_EQ(error(good, 6, ExitCode::kData), "");
  EXPECT_THAT(error(good, 7, ExitCode::kData), HasSubstr("no part of a file has more than 7 tokens"));
  EXPECT_THAT(error(good + "part = [0.5, 0.5]", 2, ExitCode::kUsage), HasSubstr("part is [from, to]"));
  EXPECT_THAT(error(good + "part = [0.5]", 2, ExitCode::kUsage), HasSubstr("part is [from, to]"));
  EXPECT_THAT(error(good + "stride = 0", 2, ExitCode::kUsage), HasSubstr("stride"));
  EXPECT_THAT(error(good + "strid = 1", 2, ExitCode::kUsage), HasSubstr("stride"));
  EXPECT_THAT(error("files = \"t\"\ntype = \"uint16\"", 2, ExitCode::kData), HasSubstr("no whole tokens of 2 bytes"));
  EXPECT_THAT(error("files = \"t\"\ntype = \"int8\"", 2, ExitCode::kUsage), HasSubstr("uint8"));
  EXPECT_THAT(error("files = [\"t\", \"nowhere\"]\ntype = \"uint8\"", 2, ExitCode::kData),
              HasSubstr("nowhere': No such file"));
  EXPECT_THAT(open_toml("format = \"tokens\"\n" + good, files_, Shape{2, 3}, directory_.path() + "/run.toml", 256, 256)
                  .status.error()
                  .message,
              HasSubstr("network.input must be [length]"));
}

}  // namespace
}  // namespace dtrain::data
