#include "config/table_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/config/support.h"

namespace dtrain::config {
namespace {

using testing::ElementsAre;
const std::vector<std::string> kModes = {"same", "valid"};

TEST(TableReader, ReadsEveryType) {
  const Value table = parsed(
      "i = 3\nn = 2\nf = 0.5\nb = true\ns = \"x\"\nc = \"same\"\nl = [1, 2]\nd = [1, 2.5]\np1 = 3\np2 = [3, 2]\n"
      "path = \"x.npy\"\nw = \"auto\"\nm = 4\nt = { a = 1 }\nz = [\"a\", \"b\"]\n",
      "dir/run.toml");
  Diagnostics d;
  TableReader r(table, d, "[x]");
  EXPECT_EQ(r.integer("i", 0, 1, 3), 3);
  EXPECT_EQ(r.number("n", 0), 2.0);
  EXPECT_EQ(r.require_number("f", 0, 0.5), 0.5);
  EXPECT_EQ(r.positive_number("f", 1), 0.5);
  EXPECT_TRUE(r.boolean("b", false));
  EXPECT_EQ(r.require_string("s"), "x");
  EXPECT_EQ(r.choice("c", "valid", kModes), "same");
  EXPECT_TRUE(r.is_word("c", "same"));
  EXPECT_FALSE(r.is_word("i", "same"));
  EXPECT_THAT(r.integers("l"), ElementsAre(1, 2));
  EXPECT_THAT(r.numbers("d"), ElementsAre(1, 2.5));
  EXPECT_THAT(r.strings("z"), ElementsAre("a", "b"));
  EXPECT_EQ(r.require_pair("p1", 1), (Pair{3, 3}));
  EXPECT_EQ(r.pair("p2", {1, 1}, 1), (Pair{3, 2}));
  EXPECT_EQ(r.require_path("path"), "dir/x.npy");
  EXPECT_EQ(r.integer_or_auto("w", 1), std::nullopt);
  EXPECT_EQ(r.integer_or_auto("m", 1), 4);
  ASSERT_NE(r.table("t"), nullptr);
  EXPECT_TRUE(r.has("t"));
  EXPECT_FALSE(r.has("a"));
  EXPECT_EQ(to_string(r.position_of("f")), "dir/run.toml:3:5");
  r.finish();
  EXPECT_EQ(message_of(d), "");
}

TEST(TableReader, OneFileOrAListOfThem) {
  const Value table =
      parse_toml("a = \"x\"\nb = [\"x\", \"/y\"]\nc = []\nd = [\"x\", 1]\ne = \"\"", "dir/run.toml").value();
  Diagnostics d;
  TableReader r(table, d, "[data.train]");
  EXPECT_THAT(r.require_paths("a"), ElementsAre("dir/x"));
  EXPECT_THAT(r.require_paths("b"), ElementsAre("dir/x", "/y"));
  EXPECT_EQ(message_of(d), "");
  for (const char* key : {"c", "d", "e", "f"}) EXPECT_TRUE(r.require_paths(key).empty());
  EXPECT_EQ(d.errors().size(), 4u) << message_of(d);
}

TEST(TableReader, AbsentKeysGiveTheirDefaults) {
  const Value table = parsed("");
  Diagnostics d;
  TableReader r(table, d, "[x]");
  EXPECT_EQ(r.integer("i", 7), 7);
  EXPECT_EQ(r.number("n", 0.25), 0.25);
  EXPECT_EQ(r.string("s", "y"), "y");
  EXPECT_EQ(r.choice("c", "valid", kModes), "valid");
  EXPECT_THAT(r.integers("l", {4}), ElementsAre(4));
  EXPECT_EQ(r.pair("p", {2, 5}), (Pair{2, 5}));
  EXPECT_EQ(r.path("path"), "");
  EXPECT_EQ(r.integer_or_auto("w"), std::nullopt);
  EXPECT_EQ(r.table("t"), nullptr);
  r.finish();
  EXPECT_TRUE(d.ok());
}

TEST(TableReader, WrongTypesSayWhatTheyGotAndReadingGoesOn) {
  const Value table = parsed(
      "i = \"five\"\nn = true\nb = 1\ns = 2\nl = 3\nm = [1, \"x\"]\np = [1, 2, 3]\nq = 1.5\nt = 1\nw = \"auto2\"\n"
      "d = [1, {}]\n");
  Diagnostics d;
  TableReader r(table, d, "layer 'c' (conv2d)");
  EXPECT_EQ(r.require_integer("i", 2), 2);
  EXPECT_EQ(r.number("n", 0.5), 0.5);
  EXPECT_EQ(r.boolean("b", true), true);
  EXPECT_EQ(r.string("s", "y"), "y");
  EXPECT_THAT(r.integers("l", {4}), ElementsAre(4));
  EXPECT_THAT(r.integers("m", {4}), ElementsAre(4));
  EXPECT_EQ(r.require_pair("p", 1), (Pair{1, 1}));
  EXPECT_EQ(r.pair("q", {9, 9}), (Pair{9, 9}));
  EXPECT_EQ(r.table("t"), nullptr);
  EXPECT_EQ(r.integer_or_auto("w"), std::nullopt);
  EXPECT_THAT(r.numbers("d", {2}), ElementsAre(2));
  r.finish();
  EXPECT_EQ(message_of(d),
            "run.toml:1:5: error: 'i' in layer 'c' (conv2d): expected an integer, got a string \"five\"\n"
            "run.toml:2:5: error: 'n' in layer 'c' (conv2d): expected a number, got true\n"
            "run.toml:3:5: error: 'b' in layer 'c' (conv2d): expected true or false, got the integer 1\n"
            "run.toml:4:5: error: 's' in layer 'c' (conv2d): expected a string, got the integer 2\n"
            "run.toml:5:5: error: 'l' in layer 'c' (conv2d): expected a list of integers, got the integer 3\n"
            "run.toml:6:9: error: 'm' in layer 'c' (conv2d): expected integers in the list, got a string \"x\"\n"
            "run.toml:7:5: error: 'p' in layer 'c' (conv2d): expected an integer or a list of two, got a list of 3\n"
            "run.toml:8:5: error: 'q' in layer 'c' (conv2d): expected an integer or a list of two, got the number 1.5\n"
            "run.toml:9:5: error: 't' in layer 'c' (conv2d): expected a table, got the integer 1\n"
            "run.toml:10:5: error: 'w' in layer 'c' (conv2d): expected an integer or \"auto\", got a string \"auto2\"\n"
            "run.toml:11:9: error: 'd' in layer 'c' (conv2d): expected a number, got a table");
}

TEST(TableReader, RangesAndFiniteness) {
  const Value table = parsed("batch = -3\nrate = 1.4\nlr = nan\nmax = inf\nlow = 7\neps = 0.0\nlist = [1, 0]\n");
  Diagnostics d;
  TableReader r(table, d, "[train]");
  EXPECT_EQ(r.require_integer("batch", 1), 1);
  EXPECT_EQ(r.number("rate", 0.5, 0, 1), 0.5);
  EXPECT_EQ(r.number("lr", 0.1, 0), 0.1);
  EXPECT_EQ(r.number("max", 0.1), 0.1);
  EXPECT_EQ(r.integer("low", 1, kMinInt, 6), 1);
  EXPECT_EQ(r.positive_number("eps", 1e-5), 1e-5);
  r.integers("list", {}, 1);
  EXPECT_EQ(message_of(d),
            "run.toml:1:9: error: 'batch' in [train] must be at least 1, got -3\n"
            "run.toml:2:8: error: 'rate' in [train] must be from 0 to 1, got 1.4\n"
            "run.toml:3:6: error: 'lr' in [train] must be a finite number, got nan\n"
            "run.toml:4:7: error: 'max' in [train] must be a finite number, got inf\n"
            "run.toml:5:7: error: 'low' in [train] must be at most 6, got 7\n"
            "run.toml:6:7: error: 'eps' in [train] must be above 0, got 0\n"
            "run.toml:7:12: error: 'list' in [train] must be at least 1, got 0");
}

TEST(TableReader, RequiredKeysAndUnknownOnes) {
  const Value root = parsed("[train]\nstepps = 40\nzzzzzzzz = 1\nother = 2\n");
  Diagnostics d;
  TableReader r(*root.find("train"), d, "[train]");
  r.integer("steps", 1);
  r.also_known("other");
  r.require_integer("batch", 1);
  r.finish();
  EXPECT_EQ(message_of(d),
            "run.toml:1:1: error: [train] needs 'batch'\n"
            "run.toml:2:1: error: unknown key 'stepps' in [train] (did you mean 'steps'?)\n"
            "run.toml:3:1: error: unknown key 'zzzzzzzz' in [train] (known: batch, other, steps)");
}

TEST(TableReader, ChoicesSuggestTheNearest) {
  const Value table = parsed("type = \"sam\"\nother = \"sgd\"\n");
  Diagnostics d;
  TableReader r(table, d, "[x]");
  EXPECT_EQ(r.require_choice("type", kModes), "same");
  EXPECT_EQ(r.choice("other", "valid", kModes), "valid");
  EXPECT_EQ(message_of(d),
            "run.toml:1:8: error: 'type' in [x]: unknown value 'sam' (did you mean 'same'?)\n"
            "run.toml:2:9: error: 'other' in [x]: unknown value 'sgd' (known: same, valid)");
}

TEST(TableReader, AValueThatIsNoTableIsReadAsAnEmptyOne) {
  const Value root = parsed("train = 3\n");
  Diagnostics d;
  TableReader r(*root.find("train"), d, "[train]");
  EXPECT_EQ(r.require_integer("batch", 4), 4);
  r.finish();
  EXPECT_EQ(message_of(d), "run.toml:1:9: error: [train]: expected a table, got the integer 3");
}

TEST(TableReader, TheCallersOwnRulesHaveAPlaceAndACode) {
  const Value table = parsed("path = \"gone\"\n");
  Diagnostics d;
  TableReader r(table, d, "[x]");
  r.error("path", "no such file", ExitCode::kData);
  EXPECT_EQ(message_of(d), "run.toml:1:8: error: no such file");
  EXPECT_EQ(d.status().error().code, ExitCode::kData);
}

}  // namespace
}  // namespace dtrain::config
