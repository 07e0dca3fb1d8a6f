#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/data/open_toml.h"
#include "tests/data/pictures.h"
#include "tests/temporary_directory.h"

namespace dtrain::data {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class ImagesTest : public ::testing::Test {
 protected:
  ImagesTest() {
    put("train/cat/b.PNG", grey(2, 2, 51));
    put("train/cat/a.jpeg", jpeg(std::vector<uint8_t>(64, 102), 8, 8, TJPF_GRAY, TJSAMP_GRAY));
    put("train/cat/.hidden.png", "");
    put("train/cat/notes.txt", "");
    put("train/ant/z.jpg", png(std::string("\xff\x00\x33", 3), 1, 1));  // by its content a PNG
    put("train/README", "");
  }

  static std::string grey(int width, int height, char value) {
    return png(std::string(static_cast<size_t>(width * height), value), width, height, {PNG_COLOR_TYPE_GRAY, 8, 0, {}});
  }
  void put(const std::string& name, const std::string& content) {
    const std::string path = directory_.path() + "/" + name;
    ASSERT_TRUE(files_.make_directories(parent_path(path)));
    auto file = files_.create(path).value();
    ASSERT_TRUE(file->write(std::as_bytes(std::span(content.data(), content.size()))));
  }
  OpenedData open(const std::string& keys, const Shape& input, int64_t label_classes = 0) {
    return open_toml("format = \"images\"\n" + keys, files_, input, directory_.path() + "/run.toml", 0, label_classes);
  }
  std::string error(const std::string& keys, const Shape& input, ExitCode code, int64_t label_classes = 0) {
    auto opened = open(keys, input, label_classes);
    if (opened.status) return "";
    EXPECT_EQ(opened.status.error().code, code);
    return opened.status.error().message;
  }

  RealFileSystem files_;
  TemporaryDirectory directory_;
};

TEST_F(ImagesTest, FoldersAreClassesInTheOrderOfTheirNames) {
  auto opened = open("folder = \"train\"", Shape{3, 1, 1});
  ASSERT_TRUE(opened.status) << opened.status.error().message;
  const Dataset& d = *opened.source.dataset;
  EXPECT_EQ(d.size(), 3);
  EXPECT_EQ(d.max_label(), 1);
  EXPECT_THAT(d.label_names(), ElementsAre("ant", "cat"));
  const ReadSample ant = read_sample(d, 0);
  EXPECT_THAT(ant.classes, ElementsAre(0));
  EXPECT_THAT(ant.sample, ElementsAre(1, 0, 51 * (1.0f / 255.0f)));
  EXPECT_THAT(read_error(d, {1}), AllOf(HasSubstr("train/cat/a.jpeg' has shape [3, 8, 8]"), HasSubstr("[3, 1, 1]"),
                                        HasSubstr("resize or crop")));
  EXPECT_THAT(read_error(d, {2}), HasSubstr("train/cat/b.PNG' has shape [3, 2, 2]"));
}

TEST_F(ImagesTest, ChannelsFollowTheNetwork) {
  auto colour = open("folder = \"train\"\nlimit = 3", Shape{3, 2, 2});
  EXPECT_THAT(read_sample(*colour.source.dataset, 2).sample, ::testing::Each(51 * (1.0f / 255.0f)));
  auto grey = open("folder = \"train\"", Shape{1, 1, 1});
  // (19595 · 255 + 7471 · 51 + 32768) / 65536 = 82.56
  EXPECT_THAT(read_sample(*grey.source.dataset, 0).sample, ElementsAre(82 * (1.0f / 255.0f)));
}

TEST_F(ImagesTest, ALimitKeepsAllClasses) {
  for (char c = 'a'; c < 'h'; ++c) put(std::string("many/x/") + c + ".png", grey(1, 1, c));
  put("many/y/a.png", grey(1, 1, 1));
  auto opened = open("folder = \"many\"\nlimit = 4", Shape{1, 1, 1});
  ASSERT_EQ(opened.source.dataset->size(), 4);
  EXPECT_EQ(read_sample(*opened.source.dataset, 1).sample[0], 'c' * (1.0f / 255.0f));
}

TEST_F(ImagesTest, ListsNameTheirPictures) {
  put("names.csv",
      "path,label\ntrain/cat/b.PNG,cat\r\n" + directory_.path() + "/train/ant/z.jpg,ant\n\ntrain/cat/b.PNG,bee");
  auto names = open("list = \"names.csv\"", Shape{3, 1, 1});
  ASSERT_TRUE(names.status) << names.status.error().message;
  EXPECT_EQ(names.source.dataset->size(), 3);
  EXPECT_THAT(names.source.dataset->label_names(), ElementsAre("ant", "bee", "cat"));
  EXPECT_THAT(read_sample(*names.source.dataset, 1).classes, ElementsAre(0));
  put("marked.csv", "\xef\xbb\xbftrain/cat/b.PNG,cat\n");  // as spreadsheets write UTF-8
  EXPECT_TRUE(open("list = \"marked.csv\"", Shape{3, 1, 1}).status);
  put("numbers.tsv", "train/ant/z.jpg\t7\n");
  auto numbers = open("list = \"numbers.tsv\"", Shape{3, 1, 1}, 8);
  ASSERT_TRUE(numbers.status) << numbers.status.error().message;
  EXPECT_EQ(numbers.source.dataset->max_label(), 7);
  EXPECT_TRUE(numbers.source.dataset->label_names().empty());
  EXPECT_THAT(
      error("list = \"numbers.tsv\"", Shape{3, 1, 1}, ExitCode::kData, 7),
      AllOf(HasSubstr("run.toml:2:8"), HasSubstr("numbers.tsv', line 1: 7 is not a class of the network's (0 … 6)")));
  for (const char* bad : {"train/ant/z.jpg", "train/ant/z.jpg,", ",7", "a,1\n\n\nb"}) {
    put("bad.csv", bad);
    EXPECT_THAT(error("list = \"bad.csv\"", Shape{3, 1, 1}, ExitCode::kData), HasSubstr("a path, a comma or tab"));
  }
  put("bad.csv", "a,0\nb,-1");
  EXPECT_THAT(error("list = \"bad.csv\"", Shape{3, 1, 1}, ExitCode::kData), HasSubstr("line 2: -1 is not a class"));
  put("bad.csv", "path,label\n");
  EXPECT_THAT(error("list = \"bad.csv\"", Shape{3, 1, 1}, ExitCode::kData), HasSubstr("lists no pictures"));
  put("bad.csv", "nowhere.png,1\n");
  EXPECT_THAT(error("list = \"bad.csv\"", Shape{3, 1, 1}, ExitCode::kData), HasSubstr("nowhere.png': No such file"));
}

TEST_F(ImagesTest, WithoutLabelsAPathOrAFolderOfPicturesWillDo) {
  const auto unlabelled = [&](const std::string& keys) {
    return open_toml("format = \"images\"\n" + keys, files_, Shape{3, 2, 2}, directory_.path() + "/run.toml", 0, 1,
                     false);
  };
  for (const char* keys : {"folder = \"train/cat\"", "folder = \"train\""}) {
    auto opened = unlabelled(keys);
    ASSERT_TRUE(opened.status) << opened.status.error().message;
    const int64_t last = opened.source.dataset->size() - 1;
    EXPECT_THAT(read_sample(*opened.source.dataset, last).sample, ::testing::Each(51 * (1.0f / 255.0f)));
    EXPECT_THAT(read_sample(*opened.source.dataset, last).classes, ElementsAre(0));
    EXPECT_TRUE(opened.source.dataset->label_names().empty());
  }
  put("l", "train/cat/b.PNG\ntrain/cat/b.PNG,9\n");
  auto opened = unlabelled("list = \"l\"");
  ASSERT_TRUE(opened.status) << opened.status.error().message;
  EXPECT_EQ(opened.source.dataset->size(), 2);
  EXPECT_THAT(read_sample(*opened.source.dataset, 1).classes, ElementsAre(0));
}

TEST_F(ImagesTest, PicturesThatDoNotDecodeNameTheirFile) {
  put("bad/x/a.png", grey(2, 2, 1).substr(0, 50));
  put("bad/x/b.png", "GIF89a");
  put("bad/x/c.png", grey(20, 20, 1));
  auto opened = open("folder = \"bad\"\nmax_pixels = 399", Shape{1, 2, 2});
  ASSERT_TRUE(opened.status) << opened.status.error().message;
  EXPECT_THAT(read_error(*opened.source.dataset, {0}),
              HasSubstr("cannot decode '" + directory_.path() + "/bad/x/a.png': "));
  EXPECT_THAT(read_error(*opened.source.dataset, {1}), HasSubstr("bad/x/b.png': it begins like neither"));
  EXPECT_THAT(read_error(*opened.source.dataset, {2}),
              HasSubstr("bad/x/c.png': it claims 20 x 20 pixels, more than 399"));
}

TEST_F(ImagesTest, MistakesStandAtTheirKeys) {
  const Shape input{3, 1, 1};
  EXPECT_THAT(error("", input, ExitCode::kUsage), HasSubstr("needs folder or list"));
  EXPECT_THAT(error("folder = \"train\"\nlist = \"x\"", input, ExitCode::kUsage), HasSubstr("one of them"));
  EXPECT_THAT(error("folder = \"nowhere\"", input, ExitCode::kData),
              AllOf(HasSubstr("run.toml:2:10"), HasSubstr("nowhere")));
  EXPECT_THAT(error("folder = \"train/cat\"", input, ExitCode::kData), HasSubstr("holds no folders"));
  EXPECT_THAT(error("folder = \"train\"", Shape{4, 1, 1}, ExitCode::kUsage),
              HasSubstr("the network's input is [4, 1, 1]"));
  EXPECT_THAT(error("folder = \"train\"", Shape{784}, ExitCode::kUsage), HasSubstr("the network's input is [784]"));
  put("train/bee/notes.txt", "");
  EXPECT_THAT(error("folder = \"train\"", input, ExitCode::kData), HasSubstr("train/bee' is the folder of a class"));
}

TEST_F(ImagesTest, DigestFollowsNamesAndContent) {
  const auto digest = [&](const std::string& keys = "") {
    return open("folder = \"train\"\n" + keys, Shape{3, 1, 1}).source.dataset->digest();
  };
  const Digest one = digest();
  EXPECT_EQ(one, digest());
  EXPECT_NE(one, digest("limit = 2"));
  put("train/cat/b.PNG", grey(2, 2, 52));
  const Digest two = digest();
  EXPECT_NE(one, two);
  put("train/cat/c.png", grey(2, 2, 52));
  EXPECT_NE(two, digest());
}

}  // namespace
}  // namespace dtrain::data
