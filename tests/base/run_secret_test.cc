#include "base/run_secret.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <type_traits>

namespace dtrain {
namespace {

using ::testing::HasSubstr;

ByteSpan bytes_of(const std::string& text) { return std::as_bytes(std::span(text)); }

Result<std::shared_ptr<const RunSecret>> make(const std::string& text) {
  const ByteSpan bytes = bytes_of(text);
  return RunSecret::make({bytes.begin(), bytes.end()}, "the file s");
}

std::string signature(const std::string& secret, const std::string& message) {
  return to_hex((*make(secret))->sign(bytes_of(message)));
}

// RFC 4231, test cases 1, 4 and 6.
TEST(RunSecret, SignsAsTheRfcSays) {
  EXPECT_EQ(signature(std::string(20, '\x0b'), "Hi There"),
            "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
  EXPECT_EQ(signature(std::string("\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b\x0c\x0d\x0e\x0f\x10\x11\x12\x13\x14\x15"
                                  "\x16\x17\x18\x19"),
                      std::string(50, '\xcd')),
            "82558a389a443c0ea4cc819899f2083a85f0faa3e578f8077a2e3ff46729665b");
  EXPECT_EQ(signature(std::string(131, '\xaa'), "Test Using Larger Than Block-Size Key - Hash Key First"),
            "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
}

TEST(RunSecret, ALineBreakAtTheEndIsNoPartOfIt) {
  const std::string secret = "0123456789abcdef";
  const std::string want = signature(secret, "m");
  EXPECT_EQ(signature(secret + "\n", "m"), want);
  EXPECT_EQ(signature(secret + "\r\n", "m"), want);
  for (const char* more : {"\n\n", "\r", " ", " \n"}) EXPECT_NE(signature(secret + more, "m"), want);
}

TEST(RunSecret, IsNeitherShortNorLong) {
  EXPECT_TRUE(make(std::string(16, 'x')));
  EXPECT_TRUE(make(std::string(4096, 'x') + "\n"));
  for (const std::string& wrong :
       {std::string(), std::string("\n"), std::string(15, 'x') + "\n", std::string(4097, 'x')}) {
    const auto made = make(wrong);
    ASSERT_FALSE(made);
    EXPECT_EQ(made.error().code, ExitCode::kUsage);
    EXPECT_THAT(made.error().message, HasSubstr("the file s holds "));
    EXPECT_THAT(made.error().message, HasSubstr("16 to 4096"));
    EXPECT_EQ(made.error().message.find("xx"), std::string::npos) << "it shows the secret";
  }
}

TEST(RunSecret, KnowsItsSignature) {
  const auto secret = *make(std::string(32, 'a')), other = *make(std::string(32, 'b'));
  const Digest right = secret->sign(bytes_of("m"));
  EXPECT_TRUE(secret->signed_by_this(bytes_of("m"), right));
  EXPECT_FALSE(secret->signed_by_this(bytes_of("n"), right));
  EXPECT_FALSE(other->signed_by_this(bytes_of("m"), right));
  for (size_t i = 0; i < right.size(); ++i) {
    Digest wrong = right;
    wrong[i] ^= 1;
    EXPECT_FALSE(secret->signed_by_this(bytes_of("m"), wrong));
  }
}

TEST(RunSecret, IsNotCopied) {
  EXPECT_FALSE(std::is_copy_constructible_v<RunSecret>);
  EXPECT_FALSE(std::is_copy_assignable_v<RunSecret>);
}

TEST(RunSecret, WipedMemoryIsZero) {
  std::vector<std::byte> bytes(100, std::byte{7});
  wipe(std::span(bytes).first(99));
  EXPECT_EQ(bytes, [] {
    std::vector<std::byte> want(100);
    want[99] = std::byte{7};
    return want;
  }());
}

}  // namespace
}  // namespace dtrain
