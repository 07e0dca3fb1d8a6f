#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "config/parse.h"
#include "tests/data/open_toml.h"
#include "tests/temporary_directory.h"

namespace dtrain::data {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class LibsvmTest : public ::testing::Test {
 protected:
  OpenedData open(const std::string& content, const std::string& keys = "", const std::string& learnt = "") {
    std::ofstream(directory_.path() + "/x.txt", std::ios::binary) << content;
    auto table = config::parse_toml("format = \"libsvm\"\nfile = \"x.txt\"\n" + keys, directory_.path() + "/run.toml");
    config::Diagnostics diagnostics;
    config::TableReader reader(*table, diagnostics, "[data.train]");
    DatasetContext context{files_, {4}};
    context.preprocessing = learnt;
    OpenedData opened;
    opened.source = open_data(reader, context);
    opened.status = diagnostics.status();
    return opened;
  }
  std::string refusal(const std::string& content, const std::string& keys = "", const std::string& learnt = "") {
    const OpenedData opened = open(content, keys, learnt);
    return opened.status ? "" : opened.status.error().message;
  }

  RealFileSystem files_;
  TemporaryDirectory directory_;
};

TEST_F(LibsvmTest, SparseSamplesWithClasses) {
  const auto opened = open("+1 2:0.5 4:-3 # a comment 1:9\r\n\n-1\n1 1:7\n");
  ASSERT_TRUE(opened.status) << opened.status.error().message;
  const Dataset& data = *opened.source.dataset;
  EXPECT_EQ(data.size(), 3);
  EXPECT_THAT(read_sample(data, 0).sample, ElementsAre(0, 0.5f, 0, -3));
  EXPECT_THAT(read_sample(data, 1).sample, ElementsAre(0, 0, 0, 0));
  EXPECT_THAT(read_sample(data, 0).classes, ElementsAre(1)) << "-1 is class 0, 1 is class 1";
  EXPECT_THAT(read_sample(data, 1).classes, ElementsAre(0));
  EXPECT_THAT(data.label_names(), ElementsAre("-1", "1"));
  const auto other = open("1 3:1\n", "", data.preprocessing());
  ASSERT_TRUE(other.status) << other.status.error().message;
  EXPECT_THAT(read_sample(*other.source.dataset, 0).classes, ElementsAre(1)) << "the classes of the training data";
  EXPECT_THAT(refusal("2 3:1\n", "", data.preprocessing()), HasSubstr("line 1: the label 2 is none of the 2"));
  EXPECT_THAT(refusal("1 3:1\n", "", "{}"), HasSubstr("prepared otherwise"));
}

TEST_F(LibsvmTest, Values) {
  const auto opened = open("0.25 1:1\n-7e2\n", "label_type = \"number\"\nfeatures = 4\nlimit = 2");
  ASSERT_TRUE(opened.status) << opened.status.error().message;
  EXPECT_EQ(opened.source.dataset->labels().kind, LabelKind::kValues);
  EXPECT_THAT(read_sample(*opened.source.dataset, 1).values, ElementsAre(-700));
}

TEST_F(LibsvmTest, WhatIsWrongIsNamed) {
  EXPECT_THAT(refusal("1 1:2\nx 1:2\n"), HasSubstr("x.txt', line 2: the label 'x' is not a finite number"));
  EXPECT_THAT(refusal("1 5:2\n"), HasSubstr("line 1: index 5 is not from 1 to features = 4"));
  EXPECT_THAT(refusal("1 0:2\n"), HasSubstr("index 0 is not"));
  EXPECT_THAT(refusal("1 2:2 2:3\n"), HasSubstr("index 2 does not rise"));
  EXPECT_THAT(refusal("1 2:nan\n"), HasSubstr("not a finite number"));
  EXPECT_THAT(refusal("1 2\n"), HasSubstr("'2' is not index:value"));
  EXPECT_THAT(refusal("1 1099511627776:2\n"), HasSubstr("index 1099511627776 is not"));
  EXPECT_THAT(refusal("1 99999999999999999999:2\n"), HasSubstr("is not index:value"));
  EXPECT_THAT(refusal("1\n-1e39 1:2\n", "label_type = \"number\""),
              HasSubstr("line 2: the label -1e+39 is too large for a float"));
  EXPECT_EQ(refusal("-1e39 1:2\n"), "") << "a class may be called so";
  EXPECT_THAT(refusal("1 qid:3 2:1\n"), HasSubstr("'qid:3' is not index:value"));
  EXPECT_THAT(refusal("# nothing\n"), HasSubstr("holds no samples"));
  EXPECT_THAT(refusal("1 1:1\n", "features = 5"), HasSubstr("5 features, network.input is [4]"));
}

}  // namespace
}  // namespace dtrain::data
