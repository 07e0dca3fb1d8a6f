#include "config/parse.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "config/canonical.h"
#include "tests/config/support.h"

namespace dtrain::config {
namespace {

TEST(Parse, KindsPositionsAndTheOrderOfTheSource) {
  const Value root = parsed("zeta = 1\nalpha = [1.5, true]\n\n[sub.deep]\ns = \"ü\"  \nt = { y = 1, x = 'b' }\n");
  ASSERT_EQ(root.as_table().size(), 3u);
  EXPECT_EQ(root.as_table()[0].key, "zeta");
  EXPECT_EQ(root.as_table()[1].key, "alpha");
  EXPECT_EQ(to_string(root.as_table()[1].key_position), "run.toml:2:1");
  EXPECT_EQ(to_string(root.find("alpha")->as_array()[1].position()), "run.toml:2:15");
  const Value* deep = root.find("sub")->find("deep");
  ASSERT_NE(deep, nullptr);
  EXPECT_EQ(deep->position().line(), 4);
  EXPECT_EQ(deep->find("s")->as_string(), "ü");
  EXPECT_EQ(to_string(deep->find("s")->position()), "run.toml:5:5");
  EXPECT_EQ(deep->find("t")->as_table()[0].key, "y");
  EXPECT_EQ(root.find("zeta")->as_integer(), 1);
  EXPECT_EQ(root.find("alpha")->as_array()[0].as_float(), 1.5);
  EXPECT_TRUE(root.find("alpha")->as_array()[1].as_boolean());
  EXPECT_EQ(to_string(root.position()), "run.toml:1:1");
}

TEST(Parse, SyntaxErrorsNameTheirPlace) {
  Result<Value> bad = parse_toml("[optimizer]\nlr = 0.002 0.3\n", "bad.toml");
  EXPECT_EQ(bad.error().code, ExitCode::kUsage);
  EXPECT_EQ(bad.error().message.find("bad.toml:2:"), 0u) << bad.error().message;
  EXPECT_NE(bad.error().message.find("not valid TOML"), std::string::npos);
}

TEST(Parse, TheSameKeyTwiceIsAnError) {
  EXPECT_EQ(message_of(parse_toml("a = 1\na = 2\n", "bad.toml")).find("bad.toml:2:"), 0u);
}

TEST(Parse, InvalidUtf8AndNulAreErrors) {
  EXPECT_NE(message_of(parse_toml("a = \"\xff\xfe\"\n", "bad.toml")).find("bad.toml:1:"), std::string::npos);
  EXPECT_NE(message_of(parse_toml(std::string("a = \"x\0y\"", 9), "bad.toml")).find("bad.toml:1:"), std::string::npos);
}

TEST(Parse, DatesAreErrors) {
  EXPECT_EQ(message_of(parse_toml("x = 1\nwhen = 1979-05-27\n", "bad.toml")),
            "bad.toml:2:8: error: a date or time is no value here; put it in quotes");
}

TEST(Parse, DepthIsBounded) {
  const int many = 1'000'000;
  EXPECT_NE(message_of(parse_toml("x = " + std::string(many, '['), "b")).find("b:1:"), std::string::npos);
  std::string dotted = "a";
  for (int i = 0; i < many; ++i) dotted += ".a";
  EXPECT_EQ(message_of(parse_toml("\n" + dotted + " = 1", "b")), "b:2:128: error: a key has more than 64 parts");
  EXPECT_NE(message_of(parse_toml("[" + dotted + "]", "b")).find("64 parts"), std::string::npos);
  EXPECT_NE(message_of(parse_toml("x = { " + dotted + " = 1 }", "b")).find("64 parts"), std::string::npos);
  std::string tables = "x = ";
  for (int i = 0; i < many; ++i) tables += "{a=";
  EXPECT_NE(message_of(parse_toml(tables, "b")).find("b:1:"), std::string::npos);
}

TEST(Parse, WhatIsAllowedToBeDeepCanBeUsed) {
  std::string key = "a", text;
  for (int i = 1; i < kMaxNesting; ++i) key += ".a";
  for (int i = 0; i < kMaxNesting / 2; ++i) text += key + " = { ";
  text += "b = 1" + std::string(kMaxNesting / 2, '}');
  const Value root = parsed("[" + key + "]\n" + text + "\n");
  const Value copy = root;
  const std::string canonical = canonical_text(copy);
  EXPECT_EQ(std::count(canonical.begin(), canonical.end(), 'a'), (kMaxNesting / 2 + 1) * kMaxNesting);
}

TEST(Parse, DotsInStringsAndCommentsAreNoKeys) {
  const std::string dots(300, '.');
  const Value root = parsed("# " + dots + "\na = \"" + dots + "\"\nb = '" + dots + "'\nc = \"\"\"\n" + dots + "\"\\\"" +
                            dots + "\"\"\"\nd = '''" + dots + "'''\ne = 1.5\n");
  EXPECT_EQ(root.find("a")->as_string(), dots);
  EXPECT_EQ(root.find("e")->as_float(), 1.5);
}

// The library answers these with failed assertions.
TEST(Parse, BrokenHeadersAreErrorsLikeAnyOther) {
  for (const char* text :
       {"[[[a]]]", "[[[1]]]", "[[=", "[[", "[", "[]", "[.]", "[a.]", "[a", "x = {", "x = {,}", "x"}) {
    EXPECT_EQ(message_of(parse_toml("\n" + std::string(text), "b")).find("b:2:"), 0u) << text;
  }
}

TEST(Parse, SizeIsBounded) {
  EXPECT_NE(message_of(parse_toml(std::string(kMaxFileBytes + 1, '\n'), "b")).find("16 MiB"), std::string::npos);
}

}  // namespace
}  // namespace dtrain::config
