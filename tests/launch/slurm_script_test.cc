#include "launch/slurm_script.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>

namespace dtrain::launch {
namespace {

using testing::HasSubstr;
using testing::Not;

SlurmScript small() {
  SlurmScript script;
  script.job_name = "lenet";
  script.folder = "/home/u/work";
  script.log = "/home/u/work/runs/lenet/slurm-%j.log";
  script.tasks = 3;
  script.command = {"/usr/bin/dtrain", "run", "lenet.toml", "--ps", "1"};
  return script;
}
std::string text(const SlurmScript& script) {
  const auto result = slurm_script(script);
  EXPECT_TRUE(result) << (result ? "" : result.error().message);
  return result.value_or("");
}
std::string error(const SlurmScript& script) {
  const auto result = slurm_script(script);
  EXPECT_FALSE(result);
  if (result) return "";
  EXPECT_EQ(result.error().code, ExitCode::kUsage);
  return result.error().message;
}
SlurmScript with_option(const std::string& option) {
  SlurmScript script = small();
  script.options = {option};
  return script;
}

TEST(SlurmScript, WhatItSays) {
  SlurmScript script = small();
  script.nodes = 2;
  script.options = {"--time=2:00:00", "-p gpu"};
  const std::string all = text(script);
  EXPECT_TRUE(all.starts_with("#!/bin/sh\n"));
  EXPECT_THAT(all, HasSubstr("\n#SBATCH --job-name=lenet\n#SBATCH --chdir=/home/u/work\n"
                             "#SBATCH --output=/home/u/work/runs/lenet/slurm-%j.log\n#SBATCH --open-mode=append\n"
                             "#SBATCH --ntasks=3\n#SBATCH --nodes=2\n#SBATCH --no-requeue\n"
                             "#SBATCH --time=2:00:00\n#SBATCH -p gpu\n\n"));
  EXPECT_TRUE(all.ends_with("exec srun --kill-on-bad-exit=1 /usr/bin/dtrain run lenet.toml --ps 1\n"));
  // What the command says of the secret is not overruled by a descriptor of whoever launched.
  EXPECT_LT(all.find("DTRAIN_SECRET_FD\n"), all.find("\nexec srun"));
  // Every line for sbatch comes before the first command.
  EXPECT_LT(all.rfind("#SBATCH"), all.find("\nunset"));
}

TEST(SlurmScript, WhatMayBeLeftOut) {
  const std::string all = text(small());
  EXPECT_THAT(all, Not(HasSubstr("--nodes")));
  SlurmScript script = small();
  script.requeue = true;
  script.expendable_tasks = true;
  EXPECT_THAT(text(script), HasSubstr("#SBATCH --requeue\n"));
  EXPECT_THAT(text(script), HasSubstr("srun --kill-on-bad-exit=0 "));
}

TEST(SlurmScript, LinesForSbatchAreQuoted) {
  SlurmScript script = small();
  script.job_name = "a run's \"name\" #1";
  script.folder = "/home/u/my work";
  EXPECT_THAT(text(script), HasSubstr("#SBATCH \"--job-name=a run's \\\"name\\\" #1\"\n"
                                      "#SBATCH \"--chdir=/home/u/my work\"\n"));
  EXPECT_THAT(text(with_option("--comment=a b\\c")), HasSubstr("#SBATCH \"--comment=a b\\\\c\"\n"));
  EXPECT_THAT(text(with_option("--comment a b")), HasSubstr("#SBATCH --comment \"a b\"\n"));
  EXPECT_THAT(text(with_option("--exclusive")), HasSubstr("#SBATCH --exclusive\n"));
}

TEST(SlurmScript, WhatCannotBeIsRefused) {
  EXPECT_THAT(error(with_option("time=5")), HasSubstr("begins with '-'"));
  EXPECT_THAT(error(with_option("")), HasSubstr("begins with '-'"));
  EXPECT_THAT(error(with_option("--comment=a\n#SBATCH --uid=0")), HasSubstr("line break"));
  for (const char* option : {"--ntasks=4", "-n4", "-n 4", "--nodes 2", "-N2"})
    EXPECT_THAT(error(with_option(option)), HasSubstr("--workers, --ps and --nodes")) << option;
  SlurmScript script = small();
  script.log = "/a\\b/slurm-%j.log";
  EXPECT_THAT(error(script), HasSubstr("backslash"));
  script = small();
  script.job_name = "a\nb";
  EXPECT_THAT(error(script), HasSubstr("line break"));
}

// The last line, as a real shell reads it.
TEST(SlurmScript, EveryArgumentArrivesAsGiven) {
  const std::vector<std::string> words = {"plain",       "two words", "it's", "\"quoted\"",  "$HOME `id` $(id)",
                                          "back\\slash", "a;b&c|d",   "*",    "line\nbreak", "",
                                          "'",           "é"};
  SlurmScript script = small();
  script.command = words;
  std::string last = text(script);
  last = last.substr(last.find("exec srun"));
  const std::string start = "exec srun --kill-on-bad-exit=1";
  ASSERT_TRUE(last.starts_with(start));
  // printf takes srun's place, and ends each word in a way that no word does.
  const std::string path = testing::TempDir() + "/slurm_script_test.sh";
  FILE* file = std::fopen(path.c_str(), "w");
  ASSERT_TRUE(file);
  std::fputs(("printf '%s\\001\\n'" + last.substr(start.size())).c_str(), file);
  std::fclose(file);
  FILE* shell = popen(("/bin/sh '" + path + "'").c_str(), "r");
  ASSERT_TRUE(shell);
  std::string said;
  for (int c; (c = std::fgetc(shell)) != EOF;) said += static_cast<char>(c);
  EXPECT_EQ(pclose(shell), 0);
  std::remove(path.c_str());
  std::string want;
  for (const std::string& word : words) want += word + "\001\n";
  EXPECT_EQ(said, want);
}

TEST(SlurmScript, PathsWithoutPatterns) {
  EXPECT_EQ(without_patterns("/a/50%j/b"), "/a/50%%j/b");
  EXPECT_EQ(without_patterns("/a/b"), "/a/b");
}

TEST(SlurmScript, WhichOptionsThereAre) {
  EXPECT_TRUE(has_option({"--time=1", "--output=x"}, "output", 'o'));
  EXPECT_TRUE(has_option({"--output x"}, "output", 'o'));
  EXPECT_TRUE(has_option({"-o x"}, "output", 'o'));
  EXPECT_FALSE(has_option({"--open-mode=append", "--outputs", "output"}, "output", 'o'));
}

TEST(SlurmScript, TheNumberOfTheJob) {
  EXPECT_EQ(job_id("4217\n"), "4217");
  EXPECT_EQ(job_id("4217;north\n"), "4217");
  EXPECT_EQ(job_id("sbatch: warning: can't run 1 processes on 2 nodes\n4217\n"), "4217");
  EXPECT_EQ(job_id("sbatch: error: Batch job submission failed\n"), "");
  EXPECT_EQ(job_id(""), "");
}

}  // namespace
}  // namespace dtrain::launch
