// The format "csv": files as they come, and what becomes of their columns.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>

#include "config/parse.h"
#include "data/csv_file.h"
#include "data/table_pipeline.h"
#include "tests/data/open_toml.h"
#include "tests/temporary_directory.h"

namespace dtrain::data {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class CsvTest : public ::testing::Test {
 protected:
  std::string put(const std::string& name, const std::string& content) {
    const std::string path = directory_.path() + "/" + name;
    std::ofstream(path, std::ios::binary) << content;
    return path;
  }
  // All records of a file, fields joined by '|'.
  std::vector<std::string> records(const std::string& content, CsvOptions options = {}) {
    auto file = CsvFile::open(files_, put("x.csv", content), options);
    if (!file) return {file.error().message};
    std::vector<std::string> all;
    while (true) {
      const auto any = file->next();
      if (!any) {
        EXPECT_EQ(any.error().code, ExitCode::kData);
        all.push_back(any.error().message);
        return all;
      }
      if (!*any) return all;
      std::string text;
      for (size_t i = 0; i < static_cast<size_t>(file->fields()); ++i)
        text += (i ? "|" : "") + std::string(file->field(i));
      all.push_back(text);
    }
  }
  OpenedData open(const std::string& keys, int64_t width, DatasetContext context = {files(), {}}) {
    auto table = config::parse_toml("format = \"csv\"\nfile = \"x.csv\"\n" + keys, directory_.path() + "/run.toml");
    EXPECT_TRUE(table) << table.error().message;
    config::Diagnostics diagnostics;
    config::TableReader reader(*table, diagnostics, "[data.train]");
    context.network_input = {width};
    OpenedData opened;
    opened.source = open_data(reader, context);
    opened.status = diagnostics.status();
    EXPECT_EQ(opened.source.dataset != nullptr, opened.status.has_value());
    return opened;
  }
  std::string refusal(const std::string& keys, int64_t width, DatasetContext context = {files(), {}}) {
    const OpenedData opened = open(keys, width, context);
    if (opened.status) return "";
    code_ = opened.status.error().code;
    return opened.status.error().message;
  }
  // Another file, prepared as the first was.
  OpenedData open_alike(const Dataset& first, const std::string& content, int64_t width, bool labelled = true) {
    put("x.csv", content);
    DatasetContext context{files(), {}};
    context.preprocessing = first.preprocessing();
    context.training = false;
    context.labelled = labelled;
    return open("", width, context);
  }
  static const FileSystem& files() {
    static const RealFileSystem kFiles;
    return kFiles;
  }

  RealFileSystem files_;
  TemporaryDirectory directory_;
  ExitCode code_ = ExitCode::kDone;
};

TEST_F(CsvTest, RecordsAsRfc4180) {
  EXPECT_THAT(records("a,b\n1,2\n3,4"), ElementsAre("1|2", "3|4"));
  EXPECT_THAT(records("\xef\xbb\xbf"
                      "a,b\r\n1,2\r\n\r\n3,\r\n"),
              ElementsAre("1|2", "3|"));
  EXPECT_THAT(records("a,b\n\"x, \"\"y\"\"\nz\",2\n"), ElementsAre("x, \"y\"\nz|2"));
  EXPECT_THAT(records("a,b\n 1 , \"x\" \n"), ElementsAre(" 1 | \"x\" "));
  EXPECT_THAT(records("a;b\n 1 ; \"x\" \n", {';', std::nullopt, true}), ElementsAre("1|x"));
  EXPECT_THAT(records("1,2\n3,4\n"), ElementsAre("1|2", "3|4")) << "a number in the first record: no header";
  EXPECT_THAT(records("1,2\n3,4\n", {',', true, false}), ElementsAre("3|4"));
  EXPECT_THAT(records("a,b\nc,d\n", {',', false, false}), ElementsAre("a|b", "c|d"));
}

TEST_F(CsvTest, RecordsThatAreRefusedNameFileAndLine) {
  EXPECT_THAT(records("a,b\n1,2\n1\n").back(), HasSubstr("x.csv', line 3: 1 field instead of 2"));
  EXPECT_THAT(records("a,b\n\"1\n2\",2\n1,2,3\n").back(), HasSubstr("line 4: 3 fields instead of 2"));
  EXPECT_THAT(records("a,b\n1,\"2\n3,4\n").back(), HasSubstr("line 2: a field that begins with a quote does not end"));
  EXPECT_THAT(records("a,b\n\"1\"2,2\n").back(), HasSubstr("line 2: text after the quote"));
  EXPECT_THAT(records("\n\n").back(), HasSubstr("holds no records"));
  EXPECT_THAT(records("a\xff,b\n1,2\n").back(), HasSubstr("not UTF-8"));
}

TEST_F(CsvTest, Numbers) {
  EXPECT_EQ(parse_number(" +1.5e3 "), 1500);
  for (const char* text : {"", "nan", "inf", "1e999", "0x10", "1 2", "+-1", "1,5"})
    EXPECT_FALSE(parse_number(text)) << text;
}

TEST_F(CsvTest, Utf8) {
  for (const char* good : {"", "abc", "ä€𝄞"}) EXPECT_TRUE(is_utf8(good)) << good;
  for (const char* bad :
       {"\x80", "\xc3", "\xc0\x80", "\xe0\x80\x80", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xff", "\xe2\x82"})
    EXPECT_FALSE(is_utf8(bad)) << bad;
}

TEST_F(CsvTest, ScalesAndImputesAsSparkDoes) {
  put("x.csv", "a,b,c,d,y\n1,10,5,7,u\n,20,5,,v\n4,,5,3,u\n4,30,5,2,u\n");
  const auto opened = open(R"(label = { column = "y" }
columns = [
  { name = "a", missing = "mean" },
  { name = "b", scale = "minmax", missing = "median" },
  { name = "c" },
  { name = "d", scale = "none", missing = -1 },
])",
                           4);
  ASSERT_TRUE(opened.status) << opened.status.error().message;
  const Dataset& data = *opened.source.dataset;
  EXPECT_EQ(data.size(), 4);
  // a: 1, 3, 4, 4 has mean 3 and the deviation √2, of n − 1; b: 10, 20, 20, 30; c is constant.
  const auto r2 = static_cast<float>(1 / std::sqrt(2.0));
  EXPECT_THAT(read_sample(data, 0).sample, ElementsAre(static_cast<float>(-2 / std::sqrt(2.0)), 0, 0, 7));
  EXPECT_THAT(read_sample(data, 1).sample, ElementsAre(0, 0.5f, 0, -1));
  EXPECT_THAT(read_sample(data, 2).sample, ElementsAre(r2, 0.5f, 0, 3));
  EXPECT_THAT(read_sample(data, 3).sample, ElementsAre(r2, 1, 0, 2));
  EXPECT_THAT(data.label_names(), ElementsAre("u", "v")) << "by frequency";
  EXPECT_THAT(read_sample(data, 1).classes, ElementsAre(1));
  EXPECT_EQ(data.max_label(), 1);
}

TEST_F(CsvTest, CategoriesByFrequencyThenBytes) {
  put("x.csv", "k,m,y\nb,x,1.5\na,?,2\nb,z,-1\nc,x,0\n");
  const std::string keys = R"(label = { column = "y", type = "number" }
columns = [
  { name = "k", type = "category", encode = "index" },
  { name = "m", type = "category", missing = "category", unknown = "other" },
])";
  const auto opened = open(keys, 5);
  ASSERT_TRUE(opened.status) << opened.status.error().message;
  const Dataset& data = *opened.source.dataset;
  EXPECT_EQ(data.labels().kind, LabelKind::kValues);
  EXPECT_THAT(read_sample(data, 0).sample, ElementsAre(0, 1, 0, 0, 0));  // b x
  EXPECT_THAT(read_sample(data, 1).sample, ElementsAre(1, 0, 0, 1, 0));  // a missing
  EXPECT_THAT(read_sample(data, 3).sample, ElementsAre(2, 1, 0, 0, 0));  // c x
  EXPECT_THAT(read_sample(data, 0).values, ElementsAre(1.5f));

  const auto other = open_alike(data, "y,m,k\n7,w,a\n8,NA,b\n", 5);
  ASSERT_TRUE(other.status) << other.status.error().message;
  EXPECT_THAT(read_sample(*other.source.dataset, 0).sample, ElementsAre(1, 0, 0, 0, 1));
  EXPECT_THAT(read_sample(*other.source.dataset, 1).sample, ElementsAre(0, 0, 0, 1, 0));
  EXPECT_EQ(other.source.dataset->preprocessing(), data.preprocessing());

  const auto unknown = open_alike(data, "k,m,y\nb,x,1\nd,x,2\n", 5);
  ASSERT_FALSE(unknown.status);
  EXPECT_EQ(unknown.status.error().code, ExitCode::kData);
  EXPECT_THAT(unknown.status.error().message, HasSubstr("x.csv', line 3: column 'k': 'd' is none of the 3 values"));
}

TEST_F(CsvTest, MostFrequentAndGivenCategories) {
  put("x.csv", "k,m,y\nb,x,no\n,y,yes\nb,y,no\nc,x,yes\n");
  const auto opened = open(R"(label = { column = "y", categories = ["yes", "no"] }
columns = [
  { name = "k", type = "category", missing = "mode", encode = "index", categories = ["c", "b"] },
  { name = "*", type = "category" },
])",
                           3);
  ASSERT_TRUE(opened.status) << opened.status.error().message;
  EXPECT_THAT(read_sample(*opened.source.dataset, 1).sample, ElementsAre(1, 0, 1));
  EXPECT_THAT(read_sample(*opened.source.dataset, 3).sample, ElementsAre(0, 1, 0));
  EXPECT_THAT(read_sample(*opened.source.dataset, 0).classes, ElementsAre(1));
}

TEST_F(CsvTest, ColumnsByNumberAndAllOthers) {
  put("x.csv", "3,1,2\n4,5,6\n");
  const auto opened =
      open("label = { column = 2, type = \"index\" }\ncolumns = [{ name = \"*\", scale = \"none\" }]", 2);
  ASSERT_TRUE(opened.status) << opened.status.error().message;
  EXPECT_THAT(read_sample(*opened.source.dataset, 1).sample, ElementsAre(4, 6));
  EXPECT_THAT(read_sample(*opened.source.dataset, 1).classes, ElementsAre(5));
  const auto shorter = open_alike(*opened.source.dataset, "7,8\n", 2, false);
  ASSERT_TRUE(shorter.status) << shorter.status.error().message;
  EXPECT_THAT(read_sample(*shorter.source.dataset, 0).sample, ElementsAre(7, 8));
}

TEST_F(CsvTest, NormalizesTheNumbersOfASample) {
  put("x.csv", "a,b,k,y\n3,-4,u,0\n0,0,v,0\n");
  for (const auto& [norm, x] : {std::pair("l1", 3.0f / 7), std::pair("l2", 0.6f), std::pair("max", 0.75f)}) {
    const auto opened = open(std::string("normalize = \"") + norm + R"("
label = { column = "y", type = "index" }
columns = [{ name = "a", scale = "none" }, { name = "b", scale = "none" }, { name = "k", type = "category" }])",
                             4);
    ASSERT_TRUE(opened.status) << opened.status.error().message;
    EXPECT_FLOAT_EQ(read_sample(*opened.source.dataset, 0).sample[0], x);
    EXPECT_FLOAT_EQ(read_sample(*opened.source.dataset, 0).sample[2], 1);
    EXPECT_THAT(read_sample(*opened.source.dataset, 1).sample, ElementsAre(0, 0, 0, 1));
  }
}

TEST_F(CsvTest, SeveralFilesAreOneTable) {
  put("y.csv", "b,a\n1,5\n");
  put("x.csv", "a,b\n3,0\n");
  auto table = config::parse_toml(
      "format = \"csv\"\nfile = [\"x.csv\", \"y.csv\"]\nlabel = { column = \"b\", type = "
      "\"index\" }\ncolumns = [{ name = \"a\", scale = \"minmax\" }]",
      directory_.path() + "/run.toml");
  config::Diagnostics diagnostics;
  config::TableReader reader(*table, diagnostics, "[data.train]");
  const DataSource source = open_data(reader, {files_, {1}});
  ASSERT_TRUE(diagnostics.ok()) << diagnostics.status().error().message;
  EXPECT_EQ(source.dataset->size(), 2);
  EXPECT_THAT(read_sample(*source.dataset, 1).sample, ElementsAre(1));
  EXPECT_THAT(read_sample(*source.dataset, 1).classes, ElementsAre(1));
}

TEST_F(CsvTest, IndicesAreTokensWhereTheNetworkLooksThemUp) {
  put("x.csv", "k,y\nu,0\nv,1\n");
  DatasetContext context{files(), {}};
  context.token_classes = 2;
  const std::string keys =
      "label = { column = \"y\", type = \"index\" }\ncolumns = [{ name = \"k\", type = \"category\", encode = "
      "\"index\" }]";
  const auto opened = open(keys, 1, context);
  ASSERT_TRUE(opened.status) << opened.status.error().message;
  EXPECT_EQ(opened.source.dataset->sample_dtype(), DType::kI32);
  EXPECT_THAT(read_sample(*opened.source.dataset, 1).tokens, ElementsAre(1));
  context.token_classes = 1;
  EXPECT_THAT(refusal(keys, 1, context), HasSubstr("column 'k' has 2 categories, but the network looks up 1"));
}

TEST_F(CsvTest, WhatIsWrongIsNamed) {
  const std::string label = "label = { column = \"y\", type = \"index\" }\n";
  put("x.csv", "age,y\n1,0\nx,1\n");
  EXPECT_THAT(refusal(label, 1), HasSubstr("x.csv', line 3: column 'age': 'x' is not a finite number"));
  EXPECT_EQ(code_, ExitCode::kData);
  EXPECT_THAT(refusal(label + "columns = [{ name = \"agee\" }]", 1),
              HasSubstr("has no column 'agee' (did you mean 'age'?)"));
  put("x.csv", "age,y\n1,0\nNA,1\n");
  EXPECT_THAT(refusal(label, 1), HasSubstr("line 3: column 'age': the value is missing"));
  put("x.csv", "age,y\n1,0\n2,\n");
  EXPECT_THAT(refusal(label, 1), HasSubstr("line 3: label, column 'y': the value is missing"));
  put("x.csv", "age,y\n1,0\n2,-1\n");
  EXPECT_THAT(refusal(label, 1), HasSubstr("x.csv', record 2: label, column 'y': -1 is not the number of a class"));
  put("x.csv", "age,y\n1,0\n2,1\n");
  EXPECT_THAT(refusal(label, 7), HasSubstr("samples of 1 numbers, network.input is [7]; of them column 'age' 1"));
  EXPECT_EQ(code_, ExitCode::kUsage);
  EXPECT_THAT(refusal("", 1), HasSubstr("needs 'label'"));
  EXPECT_THAT(refusal(label + "columns = [{ name = \"y\" }]", 1), HasSubstr("column 'y' is there twice"));
  EXPECT_THAT(refusal(label + "columns = [{ name = \"age\", scael = \"none\" }]", 1),
              HasSubstr("did you mean 'scale'?"));
  EXPECT_THAT(refusal(label + "delimiter = \"ab\"", 1), HasSubstr("one character"));
  put("x.csv", "age,y\n");
  EXPECT_THAT(refusal(label, 1), HasSubstr("holds no records but its header"));
  put("x.csv", "age,y\n?,1\n");
  EXPECT_THAT(refusal(label + "columns = [{ name = \"age\", missing = \"mean\" }]", 1),
              HasSubstr("column 'age': all its values are missing"));
  DatasetContext test{files(), {}};
  test.training = false;
  EXPECT_THAT(refusal(label, 1, test), HasSubstr("'label' belongs to [data.train]"));
}

TEST_F(CsvTest, ThePipelineIsItsText) {
  put("x.csv", "a,k,y\n0.1,\"x,\"\"y\",u\n0.7,b,v\n");
  const auto opened = open(R"(label = { column = "y" }
columns = [{ name = "a" }, { name = "k", type = "category", unknown = "other", missing = "mode" }])",
                           4);
  ASSERT_TRUE(opened.status) << opened.status.error().message;
  const std::string text = opened.source.dataset->preprocessing();
  const auto pipeline = TablePipeline::from_text(text);
  ASSERT_TRUE(pipeline) << pipeline.error().message;
  EXPECT_EQ(pipeline->text(), text);
  EXPECT_EQ(pipeline->width(), 4);
  for (size_t cut = 0; cut < text.size(); ++cut) EXPECT_FALSE(TablePipeline::from_text(text.substr(0, cut)));
  for (const auto& [from, to] : {std::pair("dtrain table 1", "dtrain table 9"), std::pair("standard", "stundard"),
                                 std::pair("\"fill\":0", "\"fill\":2"), std::pair("\"number\":1", "\"number\":0"),
                                 std::pair("\"width\"", "\"widht\""), std::pair("\"shift\":", "\"shift\":\"")}) {
    std::string damaged = text;
    if (const size_t at = damaged.find(from); at != std::string::npos) {
      damaged.replace(at, std::string(from).size(), to);
      EXPECT_FALSE(TablePipeline::from_text(damaged)) << to;
    }
  }
}

// What parts fields is not trimmed, nor passed over on the way to a quote.
TEST_F(CsvTest, BlanksThatPartFieldsAreNoneToTrim) {
  EXPECT_THAT(records("\t\"x\"\t y\n", {.delimiter = '\t', .header = false, .trim = true}), ElementsAre("|x|y"));
  EXPECT_THAT(records("\"a\"  \"b\" c\n", {.delimiter = ' ', .header = false, .trim = true}), ElementsAre("a||b|c"));
}

TEST_F(CsvTest, ThousandsOfColumns) {
  constexpr int kColumns = 20000;
  std::string header, row;
  for (int i = 0; i < kColumns; ++i) {
    header += fmt::format("c{},", i);
    row += fmt::format("{},", i);
  }
  put("x.csv", header + "y\n" + row + "p\n" + row + "q\n");
  const auto opened = open("label = { column = 'y' }\ncolumns = [{ name = '*', scale = 'none' }]\n", kColumns);
  ASSERT_TRUE(opened.status) << opened.status.error().message;
  EXPECT_EQ(read_sample(*opened.source.dataset, 1).sample.back(), kColumns - 1);
}

TEST_F(CsvTest, ANumberTooLargeForAFloatNamesFileAndRecord) {
  put("x.csv", "a,y\n1,p\n2,q\n");
  put("y.csv", "a,y\n1,p\n\n1e39,q\n");
  auto table = config::parse_toml(
      "format = 'csv'\nfile = ['x.csv', 'y.csv']\nlabel = { column = 'y' }\n"
      "columns = [{ name = 'a', scale = 'none' }]\n",
      directory_.path() + "/run.toml");
  ASSERT_TRUE(table);
  config::Diagnostics diagnostics;
  config::TableReader reader(*table, diagnostics, "[data.train]");
  EXPECT_FALSE(open_data(reader, {files(), {1}}).dataset);
  EXPECT_EQ(diagnostics.status().error().code, ExitCode::kData);
  EXPECT_THAT(diagnostics.status().error().message,
              HasSubstr("y.csv', record 2: column 'a': 1e+39 is too large for a float"));
}

TEST_F(CsvTest, TheSameFileTwice) {
  put("x.csv", "a,b,y\n1,u,p\n3,v,q\n");
  const std::string columns = "columns = [{ name = 'a', scale = 'none' }, { name = 'b', type = 'category' }]\n";
  auto table = config::parse_toml("format = 'csv'\nfile = ['x.csv', 'x.csv']\nlabel = { column = 'y' }\n" + columns,
                                  directory_.path() + "/run.toml");
  ASSERT_TRUE(table);
  config::Diagnostics diagnostics;
  config::TableReader reader(*table, diagnostics, "[data.train]");
  const DataSource source = open_data(reader, {files(), {3}});
  ASSERT_TRUE(source.dataset) << diagnostics.status().error().message;
  EXPECT_EQ(source.dataset->size(), 4);
  EXPECT_THAT(read_sample(*source.dataset, 3).sample, ElementsAre(3, 0, 1));
  EXPECT_THAT(read_sample(*source.dataset, 3).classes, ElementsAre(1));
}

}  // namespace
}  // namespace dtrain::data
