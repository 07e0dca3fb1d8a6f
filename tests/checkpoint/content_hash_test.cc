#include "checkpoint/content_hash.h"

#include <gtest/gtest.h>

namespace dtrain::checkpoint {
namespace {

Digest hash_of(std::string_view name, DType dtype, const Shape& shape, std::string_view content) {
  ContentHash hash;
  hash.begin(name, dtype, shape);
  hash.update(std::as_bytes(std::span(content.data(), content.size())));
  return hash.finish();
}

TEST(ContentHashTest, EveryPartCounts) {
  const Digest base = hash_of("w", DType::kF32, Shape{2}, "abcdefgh");
  EXPECT_EQ(base, hash_of("w", DType::kF32, Shape{2}, "abcdefgh"));
  EXPECT_NE(base, hash_of("v", DType::kF32, Shape{2}, "abcdefgh"));
  EXPECT_NE(base, hash_of("w", DType::kI32, Shape{2}, "abcdefgh"));
  EXPECT_NE(base, hash_of("w", DType::kF32, Shape{2, 1}, "abcdefgh"));
  EXPECT_NE(base, hash_of("w", DType::kF32, Shape{2}, "abcdefgx"));
}

TEST(ContentHashTest, StreamIsTheDocumentedOne) {
  // u64 1 "w" · u64 2 "U8" · u64 rank 1 · u64 3 · u64 3 "abc"
  const char stream[] = "\1\0\0\0\0\0\0\0w\2\0\0\0\0\0\0\0U8\1\0\0\0\0\0\0\0\3\0\0\0\0\0\0\0\3\0\0\0\0\0\0\0abc";
  EXPECT_EQ(hash_of("w", DType::kU8, Shape{3}, "abc"), sha256(std::string_view(stream, sizeof stream - 1)));
}

TEST(ContentHashTest, PiecesAreTheWhole) {
  ContentHash hash;
  hash.begin("w", DType::kU8, Shape{3});
  hash.update(std::as_bytes(std::span("a", 1)));
  hash.update(std::as_bytes(std::span("bc", 2)));
  EXPECT_EQ(hash.finish(), hash_of("w", DType::kU8, Shape{3}, "abc"));
}

TEST(ContentHashDeathTest, NamesMustRiseAndBytesBeComplete) {
  ContentHash hash;
  hash.begin("b", DType::kU8, Shape{0});
  EXPECT_EXIT(hash.begin("a", DType::kU8, Shape{0}), ::testing::ExitedWithCode(1), "comes after");
  hash.begin("c", DType::kU8, Shape{1});
  EXPECT_EXIT(hash.finish(), ::testing::ExitedWithCode(1), "lacks 1 bytes");
}

}  // namespace
}  // namespace dtrain::checkpoint
