// What is told to shells is tried on a real one.
#include "launch/ssh.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>

#include "launch/copying.h"
#include "launch/shell_quote.h"

namespace dtrain::launch {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

std::string output_of(const std::string& line) {
  std::string out;
  FILE* pipe = popen(line.c_str(), "r");
  char buffer[1024];
  while (const size_t n = fread(buffer, 1, sizeof(buffer), pipe)) out.append(buffer, n);
  pclose(pipe);
  return out;
}

TEST(ShellQuote, AShellReadsBackWhatWasMeant) {
  for (const std::string word :
       {"plain", "",  "a b", "it's",           "'",   "''a''", "\"x\"", "$HOME",  "`ls`", "\\", "a\nb",
        "*",     "~", "#x",  "a;b&c|d>e<f(g)", "A=b", "=ls",   "!1",    "é→日本", "-n"}) {
    EXPECT_EQ(output_of("printf %s " + shell_quote(word)), word);
    // Twice, as of a command within a command.
    EXPECT_EQ(output_of("sh -c " + shell_quote("printf %s " + shell_quote(word))), word);
  }
  EXPECT_EQ(shell_quote({"ls", "-l", "a b"}), "ls -l 'a b'");
}

TEST(Ssh, AsksNothingAndKeepsTheUsersOwnWordsFirst) {
  SshOptions options;
  options.config = "my config";
  options.options = {"Port=2222", "StrictHostKeyChecking=yes"};
  const auto words = ssh_command(options, {"alice@node1", 2022}, "true");
  EXPECT_THAT(words, Contains("BatchMode=yes"));
  const auto mine = std::find(words.begin(), words.end(), "StrictHostKeyChecking=yes");
  EXPECT_LT(mine, std::find(words.begin(), words.end(), "StrictHostKeyChecking=accept-new"));
  EXPECT_EQ(words[1], "-F");
  EXPECT_EQ(words[2], "my config");
  EXPECT_EQ(std::vector(words.end() - 5, words.end()),
            (std::vector<std::string>{"-p", "2022", "--", "alice@node1", "true"}));
}

TEST(Ssh, TheAgentIsTheFirstProgramThatIsThere) {
  const std::string folder = testing::TempDir() + "agent it's " + std::to_string(getpid());
  std::filesystem::create_directories(folder + "/home/.cache");
  const std::string program = folder + "/home/.cache/dtrain";
  std::ofstream(program) << "#!/bin/sh\necho found $1\n";
  std::filesystem::permissions(program, std::filesystem::perms::owner_all);
  const std::string in_home = "HOME=" + shell_quote(folder + "/home") + " PATH=/nowhere ";
  const auto run = [&](const std::vector<std::string>& places) {
    return output_of(in_home + "/bin/sh -c " + shell_quote(agent_command(places)) + "; echo $?");
  };
  EXPECT_EQ(run({folder + "/none", "$HOME/.cache/dtrain"}), "found agent\n0\n");
  EXPECT_EQ(run({program}), "found agent\n0\n");
  EXPECT_EQ(run({folder + "/none", folder + "/home"}), "97\n") << "a folder is no program";
  std::filesystem::remove_all(folder);
}

TEST(Ssh, SaysWhatToDo) {
  EXPECT_THAT(ssh_hint("bob@node1: Permission denied (publickey,password).", "node1"), HasSubstr("ssh-copy-id node1"));
  EXPECT_THAT(ssh_hint("Host key verification failed.", "node1"), HasSubstr("ssh-keygen -R node1"));
  EXPECT_THAT(ssh_hint("ssh: Could not resolve hostname x: Name or service not known", "x"), HasSubstr("no such host"));
  EXPECT_THAT(ssh_hint("ssh: connect to host a port 22: Connection refused", "a"), HasSubstr("sshd"));
  EXPECT_EQ(ssh_hint("something else", "a"), "");
}

TEST(Ssh, TheNameBehindAnAlias) {
  EXPECT_EQ(host_name_of("user root\nhostname 10.0.0.7\nport 22\n"), "10.0.0.7");
  EXPECT_EQ(host_name_of("hostname a"), "a");
  EXPECT_EQ(host_name_of("user root\n"), "");
}

std::vector<std::string> failures(const std::vector<Pipeline>& pipelines, double seconds = 60) {
  std::vector<std::string> out;
  for (const PipelineEnd& end : run_pipelines(pipelines, seconds)) out.push_back(end.good ? "" : end.why());
  return out;
}

Pipeline shell(const std::string& script) { return {{{"/bin/sh", "-c", script}}}; }

TEST(Programs, ThoseThatFailSayWhy) {
  EXPECT_THAT(
      failures({shell("exit 0"),
                shell("echo no room >&2; exit 1"),
                shell("exit 3"),
                shell("sleep 100 & wait"),
                {{{"/nowhere/rsync"}}}},
               0.3),
      ElementsAre("", "no room", "exit code 3", HasSubstr("not done within 0.3 s"), HasSubstr("/nowhere/rsync")));
}

TEST(Programs, APipelineIsAsGoodAsItsWorstProgram) {
  EXPECT_THAT(
      failures({{{{"/bin/sh", "-c", "echo a; exit 2"}, {"cat"}}}, {{{"echo", "a"}, {"/bin/sh", "-c", "cat; exit 3"}}}}),
      ElementsAre("a", "a"));
  const auto ends = run_pipelines({{{{"cat"}, {"tr", "a", "b"}, {"rev"}}, std::string(200'000, 'a') + "c"}}, 60);
  EXPECT_TRUE(ends[0].good);
  EXPECT_EQ(ends[0].output.size(), 200'001u + 3) << "more than a pipe holds; long lines are cut";
  EXPECT_EQ(ends[0].output[0], 'c');
}

TEST(Programs, OthersAreServedMeanwhile) {
  int served = 0;
  run_pipelines({shell("sleep 0.3")}, 60, [&] { ++served; });
  EXPECT_GE(served, 3);
}

TEST(Copying, TarBringsFilesWhateverTheirNames) {
  const std::string folder = testing::TempDir() + "copy " + std::to_string(getpid());
  const std::string odd = "a b/it's $HOME.toml";
  std::filesystem::create_directories(folder + "/from/a b");
  std::ofstream(folder + "/from/" + odd) << "content";
  // An ssh that runs the command here.
  std::ofstream(folder + "/ssh") << "#!/bin/sh\nfor command do :; done\nHOME=" << shell_quote(folder)
                                 << " exec /bin/sh -c \"$command\"\n";
  std::filesystem::permissions(folder + "/ssh", std::filesystem::perms::owner_all);
  SshOptions ssh;
  ssh.program = folder + "/ssh";
  const CopyJob job{folder + "/from", folder + "/to \"there\"", {odd}};
  EXPECT_THAT(failures({tar_copy(ssh, {"node1"}, job)}), ElementsAre(""));
  std::string text;
  std::getline(std::ifstream(job.target + "/" + odd), text);
  EXPECT_EQ(text, "content");
  EXPECT_THAT(failures({tar_copy(ssh, {"node1"}, {job.base, job.target, {odd, "missing"}})}),
              ElementsAre(HasSubstr("missing")));

  EXPECT_THAT(failures({program_copy(ssh, {"node1"}, job.target + "/" + odd, "$HOME/.cache/d/dtrain")}),
              ElementsAre(""));
  std::getline(std::ifstream(folder + "/.cache/d/dtrain"), text);
  EXPECT_EQ(text, "content");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder + "/.cache/d"), {}), 1);
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace dtrain::launch
