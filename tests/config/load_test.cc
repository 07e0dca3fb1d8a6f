#include "config/load.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "config/canonical.h"
#include "tests/config/support.h"

namespace dtrain::config {
namespace {

ReadFile files(std::map<std::string, std::string> by_path) {
  return [by_path](const std::string& path) -> Result<std::string> {
    auto found = by_path.find(path);
    if (found == by_path.end()) return fail(ExitCode::kUsage, "No such file or directory");
    return found->second;
  };
}

TEST(Load, TheIncludingFileWins) {
  const ReadFile read =
      files({{"runs/run.toml",
              "include = [\"../nets/net.toml\", \"more.toml\"]\n"
              "[network]\ninput = [2]\n[train]\nbatch = 3\n"},
             {"runs/../nets/net.toml", "[network]\ninput = [1, 1]\nlayers = [1]\n[train]\nbatch = 1\n"},
             {"runs/more.toml", "[network]\nlayers = [2, 3]\n[train]\nbatch = 2\nlog_every = 7\n"}});
  Result<Value> root = load_file("runs/run.toml", {}, read);
  ASSERT_TRUE(root) << root.error().message;
  EXPECT_EQ(canonical_text(*root),
            "{\"network\"={\"input\"=[2],\"layers\"=[2,3]},\"train\"={\"batch\"=3,\"log_every\"=7}}");
  EXPECT_EQ(to_string(root->find("train")->find("log_every")->position()), "runs/more.toml:5:13");
  EXPECT_EQ(root->find("network")->position().file(), "runs/run.toml");
  EXPECT_EQ(root->position().file(), "runs/run.toml");
}

TEST(Load, PathsBelongToTheFileThatNamesThem) {
  const ReadFile read = files({{"a/run.toml", "include = [\"b/data.toml\"]\nown = \"x.npy\"\n"},
                               {"a/b/data.toml", "theirs = \"y.npy\"\nfixed = \"/abs/z.npy\"\n"}});
  const std::vector<std::string> sets = {"given=w.npy"};
  const Value root = load_file("a/run.toml", sets, read).value();
  auto resolved = [&root](const char* key) {
    const Value* v = root.find(key);
    return resolve_path(v->as_string(), v->position());
  };
  EXPECT_EQ(resolved("own"), "a/x.npy");
  EXPECT_EQ(resolved("theirs"), "a/b/y.npy");
  EXPECT_EQ(resolved("fixed"), "/abs/z.npy");
  EXPECT_EQ(resolved("given"), "w.npy");
}

TEST(Load, IncludeMistakes) {
  const ReadFile read = files({{"a.toml", "include = [\"b.toml\"]"},
                               {"b.toml",
                                "x = 1\n"
                                "# y\n"
                                "y = [\n"},
                               {"c.toml", "include = [\"./d.toml\"]"},
                               {"./d.toml", "\ninclude = [\"c.toml\"]"},
                               {"e.toml", "include = \"b.toml\""},
                               {"f.toml", "include = [\"gone.toml\"]"},
                               {"g.toml", "include = [3]"}});
  EXPECT_EQ(message_of(load_file("a.toml", {}, read)).find("b.toml:"), 0u);
  EXPECT_EQ(message_of(load_file("c.toml", {}, read)),
            "./d.toml:2:12: error: files include each other in a circle: c.toml -> ./d.toml -> ./c.toml");
  EXPECT_EQ(message_of(load_file("e.toml", {}, read)),
            "e.toml:1:11: error: 'include' must be a list of file names, such as include = [\"network.toml\"]; got a "
            "string \"b.toml\"");
  EXPECT_EQ(message_of(load_file("f.toml", {}, read)),
            "f.toml:1:12: error: cannot read 'gone.toml': No such file or directory");
  EXPECT_EQ(message_of(load_file("g.toml", {}, read)),
            "g.toml:1:12: error: expected the name of a file to include, got the integer 3");
  EXPECT_EQ(message_of(load_file("none.toml", {}, read)), "cannot read 'none.toml': No such file or directory");
}

TEST(Load, IncludesAreBounded) {
  std::map<std::string, std::string> chain, wide;
  for (int i = 0; i < 40; ++i) {
    chain[std::to_string(i)] = "include = [\"" + std::to_string(i + 1) + "\"]";
    wide[std::to_string(i)] = "include = [\"" + std::to_string(i + 1) + "\", \"" + std::to_string(i + 1) + "\"]";
  }
  wide["10"] = "";
  EXPECT_NE(message_of(load_file("0", {}, files(chain))).find("more than 16 files"), std::string::npos);
  EXPECT_NE(message_of(load_file("0", {}, files(wide))).find("more than 256 includes"), std::string::npos);
}

TEST(Load, OverridesTakeTomlOrABareWord) {
  const std::vector<std::string> sets = {"train.batch=8",    "train.lr = 0.5",    "a.b.c=true",     "name=my-run",
                                         "list=[1, 2]",      "text=\"7\"",        "odd=1#2",        "word=1, 2",
                                         "path=/tmp/x=y.gz", "table={ k = 'v' }", "train.batch=16", "tail=1,"};
  const Value root = load_text("[train]\nbatch = 4\n", "run.toml", sets).value();
  EXPECT_EQ(canonical_text(root),
            "{\"a\"={\"b\"={\"c\"=true}},\"list\"=[1,2],\"name\"=\"my-run\",\"odd\"=\"1#2\",\"path\"=\"/tmp/x=y.gz\","
            "\"table\"={\"k\"=\"v\"},\"tail\"=\"1,\",\"text\"=\"7\",\"train\"={\"batch\"=16,\"lr\"=0.5},"
            "\"word\"=\"1, 2\"}");
  EXPECT_EQ(to_string(root.find("train")->find("batch")->position()), "--set train.batch");
  EXPECT_EQ(to_string(root.find("table")->find("k")->position()), "--set table");
  EXPECT_EQ(root.position().file(), "run.toml");
}

TEST(Load, OverrideMistakes) {
  auto message = [](const std::string& set) {
    const std::vector<std::string> sets = {set};
    return message_of(load_text("x = 1\n[network]\nlayers = [{ type = \"relu\" }]\n", "run.toml", sets));
  };
  EXPECT_EQ(message("train.steps"),
            "--set train.steps: error: no value; write --set train.steps=VALUE (\"\" is the empty "
            "string)");
  EXPECT_EQ(message("a..b=1"), "--set a..b: error: expected a key such as train.steps, then = and a value");
  EXPECT_EQ(message("=1"), "--set : error: expected a key such as train.steps, then = and a value");
  EXPECT_EQ(
      message("network.layers.0.type=tanh"),
      "--set network.layers.0.type: error: 'network.layers' is a list, not a table: --set reaches into tables only; "
      "set 'network.layers' as a whole or edit run.toml:3:10");
  EXPECT_EQ(message("x.y=2").find("--set x.y: error: 'x' is the integer 1, not a table"), 0u);
  EXPECT_EQ(message("y=[1,"), "--set y: error: '[1,' is not a valid TOML value");
  EXPECT_EQ(message("y=\"a"), "--set y: error: '\"a' is not a valid TOML value");
  EXPECT_EQ(message("y=a\xff"), "--set y: error: the value is not valid UTF-8");
  EXPECT_EQ(message("include=[\"a\"]"), "--set include: error: 'include' can only stand in a file");
}

TEST(Load, StepsAndEpochsReplaceEachOtherAcrossLayers) {
  const ReadFile read = files({{"run.toml", "include = [\"base.toml\"]\n[train]\nepochs = 5\n"},
                               {"base.toml", "[train]\nsteps = 100\nbatch = 1\n"}});
  EXPECT_EQ(canonical_text(load_file("run.toml", {}, read).value()), "{\"train\"={\"batch\"=1,\"epochs\"=5}}");
  const std::vector<std::string> sets = {"train.steps=3"};
  EXPECT_EQ(canonical_text(load_file("run.toml", sets, read).value()), "{\"train\"={\"batch\"=1,\"steps\"=3}}");
  // Within one file it is for the run file's reader to object.
  EXPECT_EQ(canonical_text(load_text("[train]\nsteps = 1\nepochs = 1\n").value()),
            "{\"train\"={\"epochs\"=1,\"steps\"=1}}");
}

TEST(Load, ReadsFromTheDisk) {
  const std::filesystem::path folder =
      std::filesystem::path(testing::TempDir()) / ("dtrain-load-" + std::to_string(getpid()));
  std::filesystem::create_directories(folder);
  std::ofstream(folder / "run.toml") << "include = [\"net.toml\"]\na = 1\n";
  std::ofstream(folder / "net.toml") << "b = 2\n";
  EXPECT_EQ(canonical_text(load_file((folder / "run.toml").string()).value()), "{\"a\"=1,\"b\"=2}");
  EXPECT_EQ(message_of(load_file((folder / "no.toml").string())),
            "cannot read '" + (folder / "no.toml").string() + "': No such file or directory");
  EXPECT_NE(message_of(load_file(folder.string())).find("Is a directory"), std::string::npos);
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace dtrain::config
