#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/data/open_toml.h"
#include "tests/temporary_directory.h"

namespace dtrain::data {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A record whose image has one value a channel.
std::string record(const std::string& labels, char red, char green, char blue) {
  return labels + std::string(1024, red) + std::string(1024, green) + std::string(1024, blue);
}

class CifarTest : public ::testing::Test {
 protected:
  void put(const std::string& name, const std::string& content) {
    auto file = files_.create(directory_.path() + "/" + name).value();
    ASSERT_TRUE(file->write(std::as_bytes(std::span(content.data(), content.size()))));
  }
  OpenedData open(const std::string& keys, int64_t label_classes = 0) {
    return open_toml("format = \"cifar\"\n" + keys, files_, Shape{3, 32, 32}, directory_.path() + "/run.toml", 0,
                     label_classes);
  }
  std::string error(const std::string& keys, ExitCode code) {
    auto opened = open(keys);
    if (opened.status) return "";
    EXPECT_EQ(opened.status.error().code, code);
    return opened.status.error().message;
  }

  RealFileSystem files_;
  TemporaryDirectory directory_;
};

TEST_F(CifarTest, TenClassesOfSeveralFiles) {
  put("a", record("\x07", 0, 1, 2) + record("\x03", 4, 5, 6));
  put("b", record("\x09", 7, 8, '\xff'));
  auto opened = open("files = [\"a\", \"b\"]\nclasses = 10\nscale = 1\nmean = [0, 0, 5]");
  ASSERT_TRUE(opened.status) << opened.status.error().message;
  const Dataset& d = *opened.source.dataset;
  EXPECT_EQ(d.size(), 3);
  EXPECT_EQ(d.sample_shape(), (Shape{3, 32, 32}));
  EXPECT_EQ(d.max_label(), 9);
  const ReadSample last = read_sample(d, 2);
  EXPECT_THAT(last.classes, ElementsAre(9));
  EXPECT_THAT(std::vector<float>(last.sample.begin(), last.sample.begin() + 1024), Each(7));
  EXPECT_THAT(std::vector<float>(last.sample.begin() + 2048, last.sample.end()), Each(250));
  EXPECT_THAT(read_sample(d, 1).classes, ElementsAre(3));
  EXPECT_EQ(read_sample(d, 1).sample[1024], 5);
}

TEST_F(CifarTest, AHundredClassesAreFineOrCoarse) {
  put("a", record("\x13\x63", 1, 1, 1));
  auto fine = open("files = \"a\"\nclasses = 100"), coarse = open("files = \"a\"\nclasses = 100\nlabels = \"coarse\"");
  ASSERT_TRUE(fine.status && coarse.status);
  EXPECT_THAT(read_sample(*fine.source.dataset, 0).classes, ElementsAre(99));
  EXPECT_THAT(read_sample(*coarse.source.dataset, 0).classes, ElementsAre(19));
  EXPECT_EQ(read_sample(*fine.source.dataset, 0).sample[0], 1.0f / 255.0f);
  EXPECT_NE(fine.source.dataset->digest(), coarse.source.dataset->digest());
}

TEST_F(CifarTest, FilesThatAreNoneAreRefused) {
  const std::string keys = "files = [\"a\", \"b\"]\nclasses = 10";
  put("a", record("\x07", 0, 1, 2));
  put("b", "");
  EXPECT_THAT(error(keys, ExitCode::kData), AllOf(HasSubstr("run.toml:2:9"), HasSubstr("/b' has 0 bytes")));
  const std::string whole = record("\x07", 0, 1, 2);
  for (size_t n : {size_t{1}, size_t{3072}, whole.size() - 1}) {
    put("b", whole.substr(0, n));
    EXPECT_THAT(error(keys, ExitCode::kData), HasSubstr("no whole records of 3073"));
  }
  put("b", record("\x07", 0, 1, 2) + record("\x0a", 0, 1, 2));
  EXPECT_THAT(error(keys, ExitCode::kData),
              HasSubstr("/b': record 1 has the label 10, which is not one of 10 classes"));
  EXPECT_THAT(error("files = \"nowhere\"\nclasses = 10", ExitCode::kData), HasSubstr("No such file"));
}

TEST_F(CifarTest, MistakesOfTheKeys) {
  put("a", record("\x07", 0, 1, 2));
  EXPECT_THAT(error("files = \"a\"\nclasses = 20", ExitCode::kUsage), HasSubstr("10 or 100"));
  EXPECT_THAT(error("files = \"a\"\nclasses = 10\nlabels = \"fine\"", ExitCode::kUsage), HasSubstr("CIFAR-100"));
  EXPECT_THAT(error("files = \"a\"", ExitCode::kUsage), HasSubstr("classes"));
  EXPECT_THAT(error("files = \"a\"\nclasses = 10\nmean = [1.0, 2.0]", ExitCode::kUsage), HasSubstr("3 channels"));
  const Status few = open("files = \"a\"\nclasses = 10", 7).status;
  ASSERT_FALSE(few);
  EXPECT_THAT(few.error().message, HasSubstr("label 0 is 7"));
}

}  // namespace
}  // namespace dtrain::data
