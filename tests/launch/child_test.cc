#include "launch/child.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

namespace dtrain::launch {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;

using Lines = std::vector<std::pair<std::string, bool>>;  // text, ended by a carriage return

Child shell(const std::string& script, std::vector<int> keep_fds = {}) {
  auto child = Child::start({.label = "worker/0", .argv = {"/bin/sh", "-c", script}, .keep_fds = std::move(keep_fds)});
  EXPECT_TRUE(child) << child.error().message;
  return std::move(*child);
}

// Reads until the output is at its end.
Lines read_all(Child& child) {
  Lines lines;
  while (child.output_fd() >= 0) {
    pollfd wait{child.output_fd(), POLLIN, 0};
    if (poll(&wait, 1, 10'000) != 1) {
      ADD_FAILURE() << "nothing to read for ten seconds";
      break;
    }
    child.read_output([&](const std::string& text, bool rewrite) { lines.emplace_back(text, rewrite); });
  }
  return lines;
}

// The output is at its end a little before the process is.
void wait_for_end(Child& child) {
  siginfo_t info;
  ASSERT_EQ(waitid(P_PID, static_cast<id_t>(child.pid()), &info, WEXITED | WNOWAIT), 0);
  ASSERT_TRUE(child.reap());
}

TEST(Child, BothOutputsByLinesAndTheExitCode) {
  Child child = shell("echo one; echo two >&2; echo; printf three; exit 4");
  EXPECT_THAT(read_all(child),
              ElementsAre(Pair("one", false), Pair("two", false), Pair("", false), Pair("three", false)));
  wait_for_end(child);
  EXPECT_FALSE(child.running());
  EXPECT_FALSE(child.reap()) << "only once";
  EXPECT_FALSE(child.end().good());
  EXPECT_EQ(to_string(child.end()), "exit code 4");
  EXPECT_EQ(child.label(), "worker/0");
}

// As a process that was started by one that ignores its children's ends.
TEST(Child, TheExitCodeComesAlsoWhereItWasIgnored) {
  const auto before = ::signal(SIGCHLD, SIG_IGN);
  Child child = shell("exit 3");
  read_all(child);
  wait_for_end(child);
  ::signal(SIGCHLD, before);
  EXPECT_EQ(to_string(child.end()), "exit code 3");
}

TEST(Child, GoodEnd) {
  Child child = shell("exit 0");
  EXPECT_TRUE(read_all(child).empty());
  wait_for_end(child);
  EXPECT_TRUE(child.end().good());
}

TEST(Child, LinesThatAreRewritten) {
  Child child = shell(R"(printf '\rstep 1\rstep 2\rdone\n')");
  EXPECT_THAT(read_all(child), ElementsAre(Pair("step 1", true), Pair("step 2", true), Pair("done", false)));
}

// A bar wipes its line before it is drawn anew; behind the task's name that would wipe the name.
TEST(Child, WipingALineIsLeftToTheReader) {
  Child child = shell(R"(printf '\r\033[2Kstep 1\r\033[2Kstep 2\r\033[2K\r\033[2Kdone\n')");
  EXPECT_THAT(read_all(child), ElementsAre(Pair("step 1", true), Pair("step 2", true), Pair("done", false)));
}

TEST(Child, LineEndsOfTwoCharacters) {
  Child child = shell(R"(printf 'one\r\n\r\ntwo\r\n')");
  EXPECT_THAT(read_all(child), ElementsAre(Pair("one", false), Pair("", false), Pair("two", false)));
}

TEST(Child, AnEndlessLineIsCutAndNothingLost) {
  Child child = shell("head -c 150000 /dev/zero | tr '\\0' x; echo");
  size_t characters = 0;
  for (const auto& [text, rewrite] : read_all(child)) {
    EXPECT_LE(text.size(), 65'536u);
    EXPECT_FALSE(rewrite);
    characters += text.size();
  }
  EXPECT_EQ(characters, 150'000u);
}

TEST(Child, KilledBySignal) {
  Child child = shell("exec sleep 100");
  child.signal(SIGKILL);
  read_all(child);
  wait_for_end(child);
  EXPECT_EQ(child.end().kind, TaskEnd::Kind::kSignalled);
  EXPECT_EQ(child.end().value, SIGKILL);
  EXPECT_THAT(to_string(child.end()), HasSubstr("killed by signal 9"));
  child.signal(SIGKILL);  // its id may be another's by now: nothing is sent
}

TEST(Child, HasNoInputAndAGroupOfItsOwn) {
  Child child = shell("cat; ps -o pgid= -p $$ 2>/dev/null | tr -d ' '");
  EXPECT_EQ(getpgid(child.pid()), child.pid());
  for (const auto& [text, rewrite] : read_all(child)) EXPECT_EQ(text, std::to_string(child.pid()));
  wait_for_end(child);
}

TEST(Child, InheritsTheOneDescriptorThatItIsGiven) {
  int given[2], other[2];
  ASSERT_EQ(pipe2(given, O_CLOEXEC), 0);
  ASSERT_EQ(pipe2(other, O_CLOEXEC), 0);
  Child child = shell("for fd in " + std::to_string(given[1]) + " " + std::to_string(other[1]) +
                          "; do [ -e /proc/self/fd/$fd ] && echo $fd; done; echo hello >&" + std::to_string(given[1]),
                      {given[1]});
  EXPECT_THAT(read_all(child), ElementsAre(Pair(std::to_string(given[1]), false)));
  char text[6] = {};
  EXPECT_EQ(::read(given[0], text, 5), 5);
  EXPECT_STREQ(text, "hello");
  for (int fd : {given[0], given[1], other[0], other[1]}) close(fd);
}

TEST(Child, AProgramThatDoesNotExist) {
  auto child = Child::start({.label = "ps/0", .argv = {"/nowhere/dtrain"}});
  ASSERT_TRUE(child);
  EXPECT_THAT(read_all(*child),
              ElementsAre(Pair("dtrain: cannot start /nowhere/dtrain: No such file or directory", false)));
  wait_for_end(*child);
  EXPECT_EQ(child->end().value, 127);
}

TEST(Child, SignalsBlockedHereAreNotBlockedThere) {
  sigset_t set, before;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigprocmask(SIG_BLOCK, &set, &before);
  Child child = shell("kill -TERM $$; exit 3");
  sigprocmask(SIG_SETMASK, &before, nullptr);
  read_all(child);
  wait_for_end(child);
  EXPECT_EQ(child.end().kind, TaskEnd::Kind::kSignalled);
  EXPECT_EQ(child.end().value, SIGTERM);
}

// As an agent's children, which itself must not die of a signal to its session.
TEST(Child, SignalsIgnoredHereAreNotIgnoredThere) {
  const auto before = ::signal(SIGTERM, SIG_IGN);
  Child child = shell("kill -TERM $$; exit 3");
  ::signal(SIGTERM, before);
  read_all(child);
  wait_for_end(child);
  EXPECT_EQ(to_string(child.end()), "killed by signal 15 (Terminated)");
}

TEST(Child, ReadsWhatItIsGivenOnce) {
  auto child = Child::start({.label = "ps/0", .argv = {"/bin/sh", "-c", "cat; echo; echo end"}, .input = "a secret"});
  ASSERT_TRUE(child) << child.error().message;
  EXPECT_THAT(read_all(*child), ElementsAre(Pair("a secret", false), Pair("end", false)));
  wait_for_end(*child);
}

TEST(Child, ItsEnvironmentIsThisOneWithChanges) {
  setenv("DTRAIN_TEST_KEPT", "kept", 1);
  setenv("DTRAIN_TEST_CHANGED", "old", 1);
  setenv("NOTIFY_SOCKET", "@of-the-launcher", 1);
  auto child =
      Child::start({.label = "ps/0",
                    .argv = {"/bin/sh", "-c",
                             "echo $DTRAIN_TEST_KEPT $DTRAIN_TEST_CHANGED; env | grep -c ^DTRAIN_TEST_CHANGED; "
                             "echo ${NOTIFY_SOCKET-none}"},
                    .environment = {"DTRAIN_TEST_CHANGED=new value"}});
  for (const char* name : {"DTRAIN_TEST_KEPT", "DTRAIN_TEST_CHANGED", "NOTIFY_SOCKET"}) unsetenv(name);
  ASSERT_TRUE(child) << child.error().message;
  EXPECT_THAT(read_all(*child), ElementsAre(Pair("kept new value", false), Pair("1", false), Pair("none", false)));
  wait_for_end(*child);
}

TEST(Child, AChannelIsApartFromWhatItComplainsOf) {
  ChildStart how{.label = "ssh", .argv = {"/bin/sh", "-c", "read line; echo \"got $line\"; echo oh >&2; exit 255"}};
  how.channel = true;
  auto child = Child::start(how);
  ASSERT_TRUE(child) << child.error().message;
  ASSERT_EQ(write(child->channel_in(), "hello\n", 6), 6);
  pollfd wait{child->channel_out(), POLLIN, 0};
  ASSERT_EQ(poll(&wait, 1, 10'000), 1);
  char text[32] = {};
  EXPECT_EQ(::read(child->channel_out(), text, sizeof(text)), 10);
  EXPECT_STREQ(text, "got hello\n");
  EXPECT_THAT(read_all(*child), ElementsAre(Pair("oh", false)));
  wait_for_end(*child);
  EXPECT_EQ(child->end().value, 255);
}

TEST(Child, SaysOnceThatItIsReady) {
  const char* const script = R"(
import os, socket
s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
for text in (b"STATUS=starting", b"READY=1\nSTATUS=training", b"READY=1"):
    s.sendto(text, "\0" + os.environ["NOTIFY_SOCKET"][1:])
)";
  ChildStart how{.label = "ps/0", .argv = {"python3", "-c", script}};
  how.notify = true;
  auto child = Child::start(how);
  ASSERT_TRUE(child) << child.error().message;
  EXPECT_THAT(read_all(*child), testing::IsEmpty());
  wait_for_end(*child);
  EXPECT_TRUE(child->became_ready());
  EXPECT_FALSE(child->became_ready());
}

}  // namespace
}  // namespace dtrain::launch
