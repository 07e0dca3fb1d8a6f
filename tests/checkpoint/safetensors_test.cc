#include "checkpoint/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/checkpoint/faulty_file_system.h"
#include "tests/temporary_directory.h"

namespace dtrain::checkpoint {
namespace {

using ::testing::HasSubstr;

template <typename T>
ByteSpan bytes(const std::vector<T>& values) {
  return std::as_bytes(std::span(values));
}

class SafetensorsTest : public ::testing::Test {
 protected:
  void write_sample() {
    auto writer =
        SafetensorsWriter::create(
            files_, path_,
            {{"b", DType::kI64, Shape{}}, {"a \"ä", DType::kF32, Shape{2, 3}}, {"none", DType::kF64, Shape{0, 4}}},
            {{"step", "7"}})
            .value();
    ASSERT_TRUE(writer.write("a \"ä", bytes(a_).first(8)));
    ASSERT_TRUE(writer.write("a \"ä", bytes(a_).subspan(8)));
    ASSERT_TRUE(writer.write("b", bytes(b_)));
    ASSERT_TRUE(writer.finish());
  }
  std::string content() { return files_.read_file(path_, 1 << 20).value(); }
  void put(const std::string& content) { ASSERT_TRUE(files_.replace_file(path_, content)); }
  void put_header(const std::string& json, size_t data_bytes) {
    std::string prefix(8, '\0');
    store_le<uint64_t>(prefix.data(), json.size());
    put(prefix + json + std::string(data_bytes, 'x'));
  }
  std::string refusal() {
    auto reader = SafetensorsReader::open(files_, path_);
    if (reader) return "";
    EXPECT_EQ(reader.error().code, ExitCode::kCheckpoint);
    EXPECT_THAT(reader.error().message, HasSubstr(path_));
    return reader.error().message;
  }

  RealFileSystem disk_;
  FaultyFileSystem files_{disk_};
  TemporaryDirectory directory_;
  std::string path_ = directory_.path() + "/t.safetensors";
  const std::vector<float> a_ = {1, 2, 3, 4, 5, 6};
  const std::vector<int64_t> b_ = {-9};
};

TEST_F(SafetensorsTest, ReadsWhatItWrote) {
  write_sample();
  auto reader = SafetensorsReader::open(files_, path_).value();
  ASSERT_EQ(reader.tensors().size(), 3u);
  EXPECT_EQ(reader.metadata().at("step"), "7");
  const TensorInfo* a = reader.find("a \"ä");
  ASSERT_NE(a, nullptr);
  EXPECT_EQ(a->shape, (Shape{2, 3}));
  std::vector<float> some(2);
  ASSERT_TRUE(reader.read(*a, 12, std::as_writable_bytes(std::span(some))));
  EXPECT_EQ(some, (std::vector<float>{4, 5}));
  int64_t b = 0;
  ASSERT_TRUE(reader.read(*reader.find("b"), 0, std::as_writable_bytes(std::span(&b, 1))));
  EXPECT_EQ(b, -9);
  EXPECT_EQ(reader.find("none")->bytes, 0u);
  EXPECT_EQ(reader.find("c"), nullptr);
}

TEST_F(SafetensorsTest, HeaderIsPaddedToEightBytes) {
  write_sample();
  const std::string file = content();
  EXPECT_EQ(load_le<uint64_t>(file.data()) % 8, 0u);
  EXPECT_FALSE(files_.exists(path_ + ".tmp").value());
}

TEST_F(SafetensorsTest, DigestIsTheFiles) {
  const std::vector<float> v = {1, 2};
  auto writer = SafetensorsWriter::create(files_, path_, {{"v", DType::kF32, Shape{2}}}, {}).value();
  ASSERT_TRUE(writer.write("v", bytes(v)));
  const FileDigest digest = writer.finish().value();
  EXPECT_EQ(digest.sha256, sha256(content()));
  EXPECT_EQ(digest.bytes, content().size());
}

TEST_F(SafetensorsTest, UnfinishedWriterLeavesNothing) {
  { auto writer = SafetensorsWriter::create(files_, path_, {{"v", DType::kF32, Shape{2}}}, {}).value(); }
  EXPECT_TRUE(files_.list(directory_.path())->empty());
}

TEST_F(SafetensorsTest, WriterRefusesNamesThatCannotBe) {
  EXPECT_FALSE(
      SafetensorsWriter::create(files_, path_, {{"v", DType::kF32, Shape{2}}, {"v", DType::kF32, Shape{2}}}, {}));
  EXPECT_FALSE(SafetensorsWriter::create(files_, path_, {{"__metadata__", DType::kF32, Shape{2}}}, {}));
  EXPECT_FALSE(SafetensorsWriter::create(files_, path_, {{"\xff", DType::kF32, Shape{2}}}, {}));
}

TEST_F(SafetensorsTest, EveryCutIsRefused) {
  write_sample();
  const std::string whole = content();
  for (size_t n = 0; n < whole.size(); ++n) {
    put(whole.substr(0, n));
    EXPECT_NE(refusal(), "") << n;
  }
  put(whole + "x");
  EXPECT_THAT(refusal(), HasSubstr("belong to no tensor"));
}

// A flip in a header either is refused or gives a header whose tensors can all be read.
TEST_F(SafetensorsTest, EveryFlippedHeaderIsRefusedOrReadable) {
  write_sample();
  const std::string whole = content();
  const uint64_t header = 8 + load_le<uint64_t>(whole.data());
  std::string_view json = std::string_view(whole).substr(8, header - 8);
  int refused = 0;
  for (size_t at = 0; at < json.size(); ++at) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string flipped(json);
      flipped[at] = static_cast<char>(flipped[at] ^ (1 << bit));
      auto parsed = parse_safetensors_header(flipped, whole.size() - header);
      if (!parsed) {
        EXPECT_FALSE(parsed.error().message.empty());
        ++refused;
        continue;
      }
      for (const TensorInfo& t : parsed->tensors) EXPECT_LE(t.begin + t.bytes, whole.size() - header);
    }
  }
  EXPECT_GT(refused, static_cast<int>(json.size()) * 4);
  for (size_t at = 0; at < 8; ++at) {
    std::string flipped = whole;
    flipped[at] = static_cast<char>(flipped[at] ^ 0x55);
    put(flipped);
    EXPECT_NE(refusal(), "") << at;
  }
}

struct Crafted {
  const char* json;
  size_t data_bytes;
  const char* reason;
};

class CraftedHeaderTest : public SafetensorsTest, public ::testing::WithParamInterface<Crafted> {};

TEST_P(CraftedHeaderTest, IsRefusedWithTheReason) {
  put_header(GetParam().json, GetParam().data_bytes);
  EXPECT_THAT(refusal(), HasSubstr(GetParam().reason));
}

INSTANTIATE_TEST_SUITE_P(
    All, CraftedHeaderTest,
    ::testing::Values(
        Crafted{"[]", 0, "does not begin with '{'"}, Crafted{"{", 0, "not JSON at byte"},
        Crafted{
            R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"b":{"dtype":"F32","shape":[1],"data_offsets":[5,9]}})",
            9, "a hole of 1 bytes before tensor 'b'"},
        Crafted{
            R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"b":{"dtype":"F32","shape":[1],"data_offsets":[2,6]}})",
            6, "overlaps"},
        Crafted{
            R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})",
            8, "'a' is there twice"},
        Crafted{R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", 3, "the file is cut"},
        Crafted{R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})", 4, "has 4 bytes"},
        Crafted{R"({"a":{"dtype":"F32","shape":[4294967296,4294967296,4],"data_offsets":[0,0]}})", 0, "has 0 bytes"},
        Crafted{R"({"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}})", 4, "cannot be -1"},
        Crafted{R"({"a":{"dtype":"F32","shape":[99999999999999999999],"data_offsets":[0,4]}})", 4,
                "cannot be a fraction"},
        Crafted{R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,18446744073709551615]}})", 4, "too large"},
        Crafted{R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,0]}})", 4, "must be [begin, end]"},
        Crafted{R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4,4]}})", 4, "too many numbers"},
        Crafted{R"({"a":{"dtype":"F8_E4M3","shape":[1],"data_offsets":[0,2]}})", 2, "type 'F8_E4M3'"},
        Crafted{R"({"a":{"dtype":"F32","shape":[1]}})", 0, "has no data_offsets"},
        Crafted{R"({"a":{"dtype":"F32","shape":[1],"offsets":[0,4]}})", 4, "unknown key 'offsets'"},
        Crafted{R"({"a":{"dtype":"F32","shape":{},"data_offsets":[0,4]}})", 4, "cannot be an object"},
        Crafted{R"({"a":{"dtype":"F32","shape":[[1]],"data_offsets":[0,4]}})", 4, "cannot be a list"},
        Crafted{R"({"a":5})", 0, "cannot be 5"}, Crafted{R"({"__metadata__":{"a":1}})", 0, "'a' cannot be 1"},
        Crafted{R"({"__metadata__":{"a":"1","a":"2"}})", 0, "metadata 'a' is there twice"}));

TEST_F(SafetensorsTest, DeepNestingCostsNothing) {
  put_header("{\"a\":" + std::string(1 << 20, '['), 0);
  EXPECT_THAT(refusal(), HasSubstr("cannot be a list"));
}

TEST_F(SafetensorsTest, HugeHeaderLengthIsRefusedBeforeItIsAllocated) {
  std::string prefix(8, '\0');
  store_le<uint64_t>(prefix.data(), ~uint64_t{0});
  put(prefix + "{}");
  EXPECT_THAT(refusal(), HasSubstr("more than the 100000000 allowed"));
  store_le<uint64_t>(prefix.data(), 99'999'999);
  put(prefix + "{}");
  EXPECT_THAT(refusal(), HasSubstr("it is cut"));
}

}  // namespace
}  // namespace dtrain::checkpoint
