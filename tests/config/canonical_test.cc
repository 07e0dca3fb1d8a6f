#include "config/canonical.h"

#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

#include "tests/config/support.h"

namespace dtrain::config {
namespace {

TEST(Canonical, LayoutOrderAndCommentsDoNotMatter) {
  const Value a = parsed("x = 1\n[t]\nb = [1, 2]\na = 'q'\n");
  const Value b = parsed("# hello\nt = { a = \"q\", b = [ 1,\n 2, ] }   # there\nx = 0x1\n", "other.toml");
  EXPECT_EQ(canonical_text(a), "{\"t\"={\"a\"=\"q\",\"b\"=[1,2]},\"x\"=1}");
  EXPECT_EQ(canonical_text(a), canonical_text(b));
}

TEST(Canonical, ValuesDoMatter) {
  EXPECT_NE(canonical_text(parsed("x = [1, 2]")), canonical_text(parsed("x = [2, 1]")));
  EXPECT_NE(canonical_text(parsed("x = \"1\"")), canonical_text(parsed("x = 1")));
  EXPECT_NE(canonical_text(parsed("x = 0.1")), canonical_text(parsed("x = 0.10000000000000002")));
  EXPECT_EQ(canonical_text(parsed("x = 0.1")), canonical_text(parsed("x = 1e-1")));
  EXPECT_EQ(canonical_text(parsed("x = 2.0")), canonical_text(parsed("x = 2")));
  EXPECT_NE(canonical_text(parsed("x = -0.0")), canonical_text(parsed("x = 0")));
  EXPECT_NE(canonical_text(parsed("x = 9007199254740993")), canonical_text(parsed("x = 9007199254740992.0")));
  // A quote cannot make two keys of one.
  EXPECT_NE(canonical_text(parsed("a = \"x\\\",\\\"b\\\"=\\\"y\"")), canonical_text(parsed("a = \"x\"\nb = \"y\"")));
}

TEST(Canonical, KeysCanBeLeftOut) {
  const std::vector<std::string> without = {"name", "train.steps"};
  const Value a = parsed("name = \"a\"\nsteps = 1\n[train]\nsteps = 5\nbatch = 2\n");
  const Value b = parsed("name = \"b\"\nsteps = 1\n[train]\nbatch = 2\n");
  EXPECT_EQ(canonical_text(a, without), "{\"steps\"=1,\"train\"={\"batch\"=2}}");
  EXPECT_EQ(canonical_text(a, without), canonical_text(b, without));
}

TEST(EffectiveToml, IsReadable) {
  const Value root = parsed(
      "name = 'a'\n[network]\ninput = [1, 28]\n[[network.layers]]\ntype = 'conv2d'\npad = [1, 0]\n[[network.layers]]\n"
      "type = 'relu'\n[network.block.b]\nargs = { w = 8 }\nlayers = [{ type = 'x' }]\n[data.train]\nscale = 2.0\n");
  EXPECT_EQ(effective_toml(root),
            "name = \"a\"\n"
            "\n[network]\n"
            "input = [1, 28]\n"
            "layers = [\n  { type = \"conv2d\", pad = [1, 0] },\n  { type = \"relu\" },\n]\n"
            "\n[network.block.b]\n"
            "layers = [\n  { type = \"x\" },\n]\n"
            "\n[network.block.b.args]\nw = 8\n"
            "\n[data.train]\nscale = 2.0\n");
}

TEST(EffectiveToml, ReadsBackToTheSameValues) {
  const Value root = parsed(
      "a = \"q\\\"\\\\ \\u0007 \\u007f ü \\n\"\nb = [1e300, -0.0, inf, -inf, nan, 5e-324, 0.1, 1e22, 3.0]\n"
      "\"strange key.x\" = { \"\" = { }, \"ü\" = [] }\nbig = [9223372036854775807, -9223372036854775808]\n"
      "mixed = [{ a = { b = [{ c = 1 }] } }, 2, [3, [4]]]\n[t.u.v]\n[t.w]\nx = true\n");
  const std::string text = effective_toml(root);
  EXPECT_EQ(canonical_text(parsed(text)), canonical_text(root)) << text;
  EXPECT_EQ(effective_toml(parsed(text)), text);
}

}  // namespace
}  // namespace dtrain::config
