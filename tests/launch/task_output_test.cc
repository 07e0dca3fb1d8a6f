#include "launch/task_output.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "launch/task_end.h"

namespace dtrain::launch {
namespace {

using testing::HasSubstr;
using testing::Not;

class TaskOutputTest : public testing::Test {
 protected:
  TaskOutputTest() { options_.stream = std::tmpfile(); }
  ~TaskOutputTest() override { std::fclose(options_.stream); }

  std::string shown(TaskOutput& output) {
    EXPECT_TRUE(output.flush(std::chrono::seconds(60)));
    std::rewind(options_.stream);
    char buffer[4096];
    return std::string(buffer, std::fread(buffer, 1, sizeof(buffer), options_.stream));
  }
  TaskOutputOptions options_;
};

TEST(IsMeant, NamesJobsAndPatterns) {
  EXPECT_TRUE(is_meant("worker/3", "worker/3"));
  EXPECT_FALSE(is_meant("worker/3", "worker/31"));
  EXPECT_TRUE(is_meant("worker", "worker/3"));
  EXPECT_TRUE(is_meant("w*", "worker/3"));
  EXPECT_TRUE(is_meant("worker/1*", "worker/12"));
  EXPECT_FALSE(is_meant("ps", "worker/3"));
}

TEST_F(TaskOutputTest, EachTaskHasItsColourAlways) {
  options_.colour = true;
  TaskOutput output(options_);
  output.line("ps/0", "one", false);
  output.line("ps/0", "two", false);
  output.say("three");
  const std::string text = shown(output);
  const std::string colour = text.substr(0, text.find('['));
  EXPECT_THAT(text, HasSubstr("\x1b[0m two\n"));
  ASSERT_GT(text.size(), 5u);
  EXPECT_THAT(text, HasSubstr("\n[launch] three\n"));
  EXPECT_EQ(text.find("\x1b[", 1) == std::string::npos, false);
}

TEST_F(TaskOutputTest, OnlyWhatIsAskedForIsShownAndTheLauncherAlways) {
  options_.only = {"worker/1"};
  TaskOutput output(options_);
  output.line("worker/0", "no", false);
  output.line("worker/1", "yes", false);
  output.say("said");
  EXPECT_EQ(shown(output), "[worker/1] yes\n[launch] said\n");
}

// As behind a pager, or after Ctrl-S.
TEST_F(TaskOutputTest, ATerminalThatStandsStillKeepsNobodyWaiting) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  std::FILE* const stream = fdopen(ends[1], "w");
  TaskOutputOptions options;
  options.stream = stream;
  std::string text;
  {
    TaskOutput output(options);
    for (int i = 0; i < 100'000; ++i)
      output.line("ps/0", std::string(100, 'x'), false);  // nobody reads, and it goes on
    std::thread reader([&] {
      char buffer[65536];
      while (const ssize_t n = read(ends[0], buffer, sizeof(buffer))) text.append(buffer, static_cast<size_t>(n));
    });
    EXPECT_TRUE(output.flush(std::chrono::seconds(60)));
    output.line("ps/0", "last", false);
    EXPECT_TRUE(output.flush(std::chrono::seconds(60)));
    std::fclose(stream);
    reader.join();
  }
  close(ends[0]);
  EXPECT_THAT(
      text, testing::ContainsRegex("\n\\[launch\\] [0-9]+ lines are not shown: nobody read them\n\\[ps/0\\] last\n$"));
}

TEST_F(TaskOutputTest, AFullDiskEndsTheLogAndNothingElse) {
  const std::string folder = testing::TempDir() + "full-" + std::to_string(getpid());
  std::filesystem::create_directories(folder);
  std::filesystem::create_symlink("/dev/full", folder + "/ps-0.log");
  options_.log_folder = folder;
  TaskOutput output(options_);
  ASSERT_TRUE(output.open_logs({"ps/0"}));
  output.line("ps/0", "one", false);
  output.line("ps/0", "two", false);
  EXPECT_EQ(shown(output),
            "[launch] the log of ps/0 in " + folder + " ends here: No space left on device\n[ps/0] one\n[ps/0] two\n");
  std::filesystem::remove_all(folder);
}

TEST_F(TaskOutputTest, LogsHaveWholeLinesOfAllAndAreAddedTo) {
  const std::string folder = testing::TempDir() + "logs-" + std::to_string(getpid()) + "/a";
  options_.only = {"none"};
  options_.log_folder = folder;
  for (int life = 0; life < 2; ++life) {
    TaskOutput output(options_);
    ASSERT_TRUE(output.open_logs({"worker/3"}));
    output.line("worker/3", "a bar", true);
    output.line("worker/3", "line " + std::to_string(life), false);
  }
  std::stringstream text;
  text << std::ifstream(folder + "/worker-3.log").rdbuf();
  EXPECT_EQ(text.str(), "line 0\nline 1\n");
  TaskOutput output(options_);
  EXPECT_EQ(shown(output), "");
  std::filesystem::remove_all(std::filesystem::path(folder).parent_path());
}

TEST_F(TaskOutputTest, AFolderThatCannotBeMadeIsNamed) {
  options_.log_folder = "/proc/nothing/logs";
  TaskOutput output(options_);
  const Status opened = output.open_logs({"ps/0"});
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code, ExitCode::kUsage);
  EXPECT_THAT(opened.error().message, HasSubstr("/proc/nothing/logs"));
  EXPECT_THAT(opened.error().message, HasSubstr("--log_dir"));
}

TEST(TaskEnd, TheWorseOfTwoCodes) {
  EXPECT_EQ(worse(ExitCode::kDone, ExitCode::kPeerLost), ExitCode::kPeerLost);
  EXPECT_EQ(worse(ExitCode::kData, ExitCode::kPeerLost), ExitCode::kData) << "a cause before its consequence";
  EXPECT_EQ(worse(ExitCode::kPeerLost, ExitCode::kNotFinite), ExitCode::kNotFinite);
  EXPECT_EQ(worse(ExitCode::kBug, ExitCode::kNotFinite), ExitCode::kBug);
  EXPECT_EQ(worse(static_cast<ExitCode>(77), ExitCode::kNotFinite), static_cast<ExitCode>(77)) << "of no table";
  EXPECT_EQ(TaskEnd::lost("gone").code(), ExitCode::kPeerLost);
  EXPECT_EQ(to_string(TaskEnd::lost("gone")), "lost: gone");
}

}  // namespace
}  // namespace dtrain::launch
