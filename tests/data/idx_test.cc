#include "data/idx.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include "tests/data/open_toml.h"
#include "tests/temporary_directory.h"

namespace dtrain::data {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string idx(std::vector<uint32_t> dims, const std::string& elements, char type = 8) {
  std::string out = {0, 0, type, static_cast<char>(dims.size())};
  for (uint32_t d : dims)
    for (int shift = 24; shift >= 0; shift -= 8) out += static_cast<char>(d >> shift);
  return out + elements;
}

std::string gzip(const std::string& text) {
  z_stream z{};
  EXPECT_EQ(deflateInit2(&z, 9, Z_DEFLATED, 15 + 16, 9, Z_DEFAULT_STRATEGY), Z_OK);
  std::string out(deflateBound(&z, text.size()) + 64, '\0');
  z.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  z.avail_in = static_cast<uInt>(text.size());
  z.next_out = reinterpret_cast<Bytef*>(out.data());
  z.avail_out = static_cast<uInt>(out.size());
  EXPECT_EQ(deflate(&z, Z_FINISH), Z_STREAM_END);
  out.resize(out.size() - z.avail_out);
  deflateEnd(&z);
  return out;
}

class IdxTest : public ::testing::Test {
 protected:
  void put(const std::string& name, const std::string& content) {
    auto file = files_.create(directory_.path() + "/" + name).value();
    ASSERT_TRUE(file->write(std::as_bytes(std::span(content.data(), content.size()))));
  }
  std::string refusal(const std::string& content) {
    put("x", content);
    auto array = read_idx(files_, directory_.path() + "/x");
    if (array) return "";
    EXPECT_EQ(array.error().code, ExitCode::kData);
    EXPECT_THAT(array.error().message, HasSubstr(directory_.path() + "/x"));
    return array.error().message;
  }
  OpenedData open(const std::string& more = "", const Shape& input = Shape{1, 2, 2}) {
    return open_toml("format = \"idx\"\nimages = \"x\"\nlabels = \"y\"\n" + more, files_, input,
                     directory_.path() + "/run.toml");
  }

  RealFileSystem files_;
  TemporaryDirectory directory_;
  const std::string images_ = idx({3, 2, 2}, std::string("\x00\x33\x66\xff\x01\x02\x03\x04\x05\x06\x07\x08", 12));
  const std::string labels_ = idx({3}, "\x07\x01\x02");
};

TEST_F(IdxTest, BytesAreScaledToOne) {
  put("x", images_);
  put("y", gzip(labels_));
  auto opened = open();
  ASSERT_TRUE(opened.status) << opened.status.error().message;
  const Dataset& d = *opened.source.dataset;
  EXPECT_TRUE(opened.source.shuffle);
  EXPECT_EQ(d.size(), 3);
  EXPECT_EQ(d.sample_shape(), (Shape{1, 2, 2}));
  EXPECT_EQ(d.labels(), LabelSpec{});
  EXPECT_EQ(d.max_label(), 7);
  const float scale = 1.0f / 255.0f;
  EXPECT_THAT(read_sample(d, 0).sample, ElementsAre(0.0f, 51 * scale, 102 * scale, 255 * scale));
  EXPECT_THAT(read_sample(d, 2).sample, ElementsAre(5 * scale, 6 * scale, 7 * scale, 8 * scale));
  EXPECT_THAT(read_sample(d, 2).classes, ElementsAre(2));
}

TEST_F(IdxTest, MeanAndStdByChannelAndLimit) {
  put("x", idx({2, 2, 1, 2}, std::string("\x01\x02\x03\x04\x05\x06\x07\x08", 8)));
  put("y", idx({2}, std::string("\x00\x09", 2)));
  auto opened = open("scale = 2.0\nmean = [1.0, 4.0]\nstd = [1.0, 0.5]\nlimit = 1\nshuffle = false", Shape{2, 1, 2});
  ASSERT_TRUE(opened.status) << opened.status.error().message;
  EXPECT_FALSE(opened.source.shuffle);
  EXPECT_EQ(opened.source.dataset->size(), 1);
  EXPECT_EQ(opened.source.dataset->max_label(), 0);
  EXPECT_THAT(read_sample(*opened.source.dataset, 0).sample, ElementsAre(1, 3, 4, 8));
}

TEST_F(IdxTest, LabelsThatAreNotAskedForNeedNotBeThere) {
  put("x", images_);
  auto opened = open_toml("format = \"idx\"\nimages = \"x\"", files_, Shape{1, 2, 2}, directory_.path() + "/run.toml",
                          0, 10, false);
  ASSERT_TRUE(opened.status) << opened.status.error().message;
  EXPECT_EQ(opened.source.dataset->size(), 3);
  EXPECT_THAT(read_sample(*opened.source.dataset, 1).classes, ElementsAre(0));
}

TEST_F(IdxTest, DigestFollowsContentAndOptions) {
  put("x", images_);
  put("y", labels_);
  const Digest one = open().source.dataset->digest();
  EXPECT_EQ(one, open().source.dataset->digest());
  EXPECT_NE(one, open("limit = 2").source.dataset->digest());
  EXPECT_NE(one, open("scale = 0.5").source.dataset->digest());
  EXPECT_NE(one, open("mean = [0.5]").source.dataset->digest());
  put("y", idx({3}, "\x07\x01\x03"));
  EXPECT_NE(one, open().source.dataset->digest());
}

TEST_F(IdxTest, MistakesStandAtTheirKeys) {
  auto missing =
      open_toml("format = \"idx\"\nimages = \"/nowhere/x\"\nlabels = \"/nowhere/y\"\n", files_, Shape{1, 2, 2});
  ASSERT_FALSE(missing.status);
  EXPECT_EQ(missing.status.error().code, ExitCode::kData);
  EXPECT_THAT(missing.status.error().message, HasSubstr("run.toml:2:10: "));
  EXPECT_THAT(missing.status.error().message, HasSubstr("images: cannot open '/nowhere/x': No such file or directory"));
  EXPECT_THAT(missing.status.error().message, HasSubstr("labels: cannot open '/nowhere/y'"));

  put("x", images_);
  put("y", idx({2}, "\x07\x01"));
  EXPECT_THAT(open().status.error().message, HasSubstr("there are 3 samples, but 2 labels"));
  EXPECT_EQ(open().status.error().code, ExitCode::kData);
  put("y", labels_);
  EXPECT_THAT(open("", Shape{1, 2, 3}).status.error().message,
              HasSubstr("have shape [1, 2, 2], the network's input is [1, 2, 3]"));
  EXPECT_EQ(open("limt = 1").status.error().code, ExitCode::kUsage);
  EXPECT_THAT(open("limt = 1").status.error().message, HasSubstr("limit"));
  EXPECT_THAT(open("mean = [1.0, 2.0]").status.error().message, HasSubstr("mean has 2 numbers"));
  EXPECT_THAT(open("std = [0.0]").status.error().message, HasSubstr("above 0"));
  EXPECT_FALSE(open("limit = 0").status);
  put("x", labels_);
  EXPECT_THAT(open().status.error().message, HasSubstr("has shape [3], not images"));
  put("x", images_);
  put("y", images_);
  EXPECT_THAT(open().status.error().message, HasSubstr("one label an image"));
}

TEST_F(IdxTest, UnknownFormatsNameTheNearest) {
  auto opened = open_toml("format = \"idxx\"\nimages = \"x\"", files_, Shape{1});
  ASSERT_FALSE(opened.status);
  EXPECT_THAT(opened.status.error().message, HasSubstr("run.toml:1:10"));
  EXPECT_THAT(opened.status.error().message, HasSubstr("'idx'"));
}

TEST_F(IdxTest, EveryCutIsRefusedPlainAndCompressed) {
  for (const std::string& whole : {images_, gzip(images_)}) {
    EXPECT_EQ(refusal(whole), "");
    for (size_t n = 0; n < whole.size(); ++n) EXPECT_NE(refusal(whole.substr(0, n)), "") << n;
  }
  EXPECT_THAT(refusal(images_ + "x"), HasSubstr("goes on after its elements"));
  EXPECT_THAT(refusal(gzip(images_ + "x")), HasSubstr("goes on after its elements"));
}

TEST_F(IdxTest, EveryFlipInTheHeaderIsRefused) {
  for (size_t at = 0; at < 16; ++at)
    for (int bit = 0; bit < 8; ++bit) {
      std::string flipped = images_;
      flipped[at] = static_cast<char>(flipped[at] ^ (1 << bit));
      EXPECT_NE(refusal(flipped), "") << at << ":" << bit;
    }
}

TEST_F(IdxTest, EveryFlipOfACompressedFileIsRefusedOrTheSame) {
  const std::string whole = gzip(images_);
  for (size_t at = 0; at < whole.size(); ++at)
    for (int bit = 0; bit < 8; ++bit) {
      std::string flipped = whole;
      flipped[at] = static_cast<char>(flipped[at] ^ (1 << bit));
      put("x", flipped);
      auto array = read_idx(files_, directory_.path() + "/x");
      if (!array) continue;
      EXPECT_EQ(std::memcmp(array->data(), images_.data() + 16, 12), 0) << at << ":" << bit;
    }
}

TEST_F(IdxTest, BombsAreRefusedBeforeTheyAreInflated) {
  EXPECT_THAT(refusal(idx({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, "")),
              HasSubstr("more than the file can hold"));
  EXPECT_THAT(refusal(gzip(idx({0xffffffff, 0xffff}, "abc"))), HasSubstr("more than the file can hold"));
  EXPECT_THAT(refusal(gzip(idx({10}, std::string(50 << 20, '\0')))), HasSubstr("goes on after its elements"));
}

TEST_F(IdxTest, MembersOfAGzipFileFollowEachOther) {
  EXPECT_EQ(refusal(gzip(images_.substr(0, 20)) + gzip(images_.substr(20))), "");
}

TEST_F(IdxTest, OtherTypesAndAxesAreRefused) {
  EXPECT_THAT(refusal(idx({1}, "abcd", 0x0d)), HasSubstr("type 0d"));
  EXPECT_THAT(refusal(idx({}, "a")), HasSubstr("has 0 axes"));
  EXPECT_THAT(refusal(idx({1, 1, 1, 1, 1}, "a")), HasSubstr("has 5 axes"));
  EXPECT_THAT(refusal("hello, world"), HasSubstr("instead of two zero bytes"));
}

TEST_F(IdxTest, NoSamplesAreRefused) {
  put("x", idx({0, 2, 2}, ""));
  put("y", idx({0}, ""));
  EXPECT_THAT(open().status.error().message, HasSubstr("there are no samples"));
}

TEST(FashionMnistTest, IsReadWhereItIsInstalled) {
  RealFileSystem files;
  const std::string folder = "/usr/share/datasets/fashion-mnist/";
  if (!*files.exists(folder + "t10k-images-idx3-ubyte.gz")) GTEST_SKIP() << "dataset-fashion-mnist is not installed";
  auto opened = open_toml("format = \"idx\"\nimages = \"" + folder + "t10k-images-idx3-ubyte.gz\"\nlabels = \"" +
                              folder + "t10k-labels-idx1-ubyte.gz\"\n",
                          files, Shape{1, 28, 28});
  ASSERT_TRUE(opened.status) << opened.status.error().message;
  EXPECT_EQ(opened.source.dataset->size(), 10000);
  EXPECT_EQ(opened.source.dataset->max_label(), 9);
  std::vector<int> of_class(10);
  for (int64_t i = 0; i < 10000; ++i)
    ++of_class[static_cast<size_t>(read_sample(*opened.source.dataset, i).classes[0])];
  EXPECT_THAT(of_class, ::testing::Each(1000));
}

}  // namespace
}  // namespace dtrain::data
