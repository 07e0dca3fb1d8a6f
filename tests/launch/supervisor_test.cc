// Small shells as tasks. Signals to the launcher are sent by its children, so that nothing depends on the time.
#include "launch/supervisor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

namespace dtrain::launch {
namespace {

using testing::HasSubstr;
using testing::Not;

class SupervisorTest : public testing::Test {
 protected:
  SupervisorTest() : output_(std::tmpfile()) {
    // A child may signal before run() listens: then the signal waits.
    sigset_t set;
    sigemptyset(&set);
    for (int s : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&set, s);
    sigprocmask(SIG_BLOCK, &set, &before_);
    options_.output = output_;
    options_.grace = 50 * kMillisecond;
    options_.notice = 10 * kMillisecond;
    options_.interrupt_grace = 100 * kMillisecond;
    options_.begun = [this] { return begun_; };
  }
  ~SupervisorTest() override {
    sigprocmask(SIG_SETMASK, &before_, nullptr);
    std::fclose(output_);
  }

  void task(const std::string& label, const std::string& script, bool coordinator = false, bool expendable = false) {
    auto child = Child::start(label, {"/bin/sh", "-c", script}, -1);
    ASSERT_TRUE(child) << child.error().message;
    pids_.push_back(child->pid());
    tasks_.push_back({std::move(*child), coordinator, expendable});
  }

  ExitCode run() {
    const ExitCode code = Supervisor(std::move(tasks_), options_).run();
    for (pid_t pid : pids_) EXPECT_TRUE(kill(pid, 0) == -1 && errno == ESRCH) << "still running";
    std::rewind(output_);
    char buffer[4096];
    while (const size_t n = std::fread(buffer, 1, sizeof(buffer), output_)) text_.append(buffer, n);
    return code;
  }

  bool begun_ = true;
  std::string text_;
  SupervisorOptions options_;
  std::vector<pid_t> pids_;  // of the tasks

 private:
  std::FILE* output_;
  sigset_t before_;
  std::vector<SupervisedTask> tasks_;
};

TEST_F(SupervisorTest, PassesEachLineOnWithItsTaskInFront) {
  task("ps/0", "echo one; echo two >&2; printf three", true);
  task("worker/0", "echo four");
  EXPECT_EQ(run(), ExitCode::kDone);
  EXPECT_THAT(text_, HasSubstr("[ps/0] one\n"));
  EXPECT_THAT(text_, HasSubstr("[ps/0] two\n"));
  EXPECT_THAT(text_, HasSubstr("[ps/0] three\n"));
  EXPECT_THAT(text_, HasSubstr("[worker/0] four\n"));
}

TEST_F(SupervisorTest, ARewrittenLineStaysOneUntilAnotherComes) {
  task("ps/0", R"(printf 'bar 1\rbar 2\rend\nlast\n')", true);
  EXPECT_EQ(run(), ExitCode::kDone);
  EXPECT_EQ(text_, "[ps/0] bar 1\r\x1b[2K[ps/0] bar 2\r\x1b[2K[ps/0] end\n[ps/0] last\n");
}

TEST_F(SupervisorTest, TheFirstFailureIsTheOneReported) {
  // The server ends because the worker does.
  options_.grace = 100 * kSecond;
  int wait_for_first[2];
  ASSERT_EQ(pipe(wait_for_first), 0);
  const std::string in = std::to_string(wait_for_first[0]), out = std::to_string(wait_for_first[1]);
  task("ps/0", "exec " + out + ">&-; read x <&" + in + "; echo lost worker/0; exit 4", true);
  task("worker/0", "echo why it failed; exit 3");
  close(wait_for_first[0]);
  close(wait_for_first[1]);
  EXPECT_EQ(run(), ExitCode::kData);
  EXPECT_THAT(text_, HasSubstr("[launch] worker/0: exit code 3\n"));
  EXPECT_THAT(text_, HasSubstr("[launch] first failure: worker/0, exit code 3; its last lines:\n"
                               "[launch]   why it failed\n"));
  EXPECT_THAT(text_, Not(HasSubstr("killed by signal")));
}

TEST_F(SupervisorTest, TheOthersAreKilledWhenTheGraceIsOver) {
  task("ps/0", "exec sleep 100", true);
  task("worker/0", "exit 5");
  EXPECT_EQ(run(), ExitCode::kCheckpoint);
  EXPECT_THAT(text_, HasSubstr("first failure: worker/0, exit code 5"));
}

TEST_F(SupervisorTest, ARunGoesOnWithoutAKilledWorkerThatHoldsNothing) {
  options_.grace = 100 * kSecond;
  task("ps/0", "echo training; exit 0", true);
  task("worker/0", "kill -KILL $$", false, true);
  task("worker/1", "exit 0", false, true);
  EXPECT_EQ(run(), ExitCode::kDone);
  EXPECT_THAT(text_, HasSubstr("worker/0: killed by signal 9"));
  EXPECT_THAT(text_, HasSubstr("the run goes on without it"));
  EXPECT_THAT(text_, Not(HasSubstr("first failure")));
}

// One that was frozen for too long finds the others gone when it wakes.
TEST_F(SupervisorTest, ARunGoesOnWithoutAWorkerThatHasLostTheOthers) {
  task("ps/0", "while kill -0 $PPID && [ -z \"$ended\" ]; do ended=1; done; exit 0", true);
  task("worker/0", "exit 4", false, true);
  task("worker/1", "exit 0", false, true);
  EXPECT_EQ(run(), ExitCode::kDone);
  EXPECT_THAT(text_, HasSubstr("worker/0: exit code 4; the run goes on without it"));
}

TEST_F(SupervisorTest, ARunGoesOnWithoutAWorkerThatLeaves) {
  options_.grace = 100 * kSecond;
  task("ps/0", "echo training; exit 0", true);
  task("worker/0", "exit 130", false, true);
  task("worker/1", "exit 0", false, true);
  EXPECT_EQ(run(), ExitCode::kDone);
  EXPECT_THAT(text_, HasSubstr("worker/0: exit code 130; the run goes on without it"));
}

TEST_F(SupervisorTest, WhereOthersMayJoinItGoesOnWithoutAnyWorker) {
  options_.others_may_join = true;
  options_.grace = 100 * kSecond;
  task("ps/0", "exit 0", true);
  task("worker/0", "kill -KILL $$", false, true);
  EXPECT_EQ(run(), ExitCode::kDone);
  EXPECT_THAT(text_, HasSubstr("worker/0: killed by signal 9 (Killed); the run goes on without it"));
}

TEST_F(SupervisorTest, WithoutAnyWorkerItDoesNotGoOn) {
  task("ps/0", "exec sleep 100", true);
  task("worker/0", "kill -KILL $$", false, true);
  task("worker/1", "kill -KILL $$", false, true);
  EXPECT_EQ(run(), ExitCode::kPeerLost);
  EXPECT_THAT(text_, HasSubstr("first failure: worker/"));
}

TEST_F(SupervisorTest, ACoordinatorThatGoesOnAfterAFailureIsAskedToEnd) {
  options_.grace = 100 * kSecond;
  task("ps/0", "trap 'echo checkpoint; exit 130' INT; while :; do sleep 0.01; done", true);
  const std::string coordinator = std::to_string(pids_[0]);
  task("worker/0", "while kill -0 " + coordinator + "; do sleep 0.01; done 2>&-", false, true);
  task("worker/1", "sleep 0.1; exit 2", false, true);
  EXPECT_EQ(run(), ExitCode::kUsage);
  EXPECT_THAT(text_, HasSubstr("[ps/0] checkpoint\n"));
  EXPECT_THAT(text_, HasSubstr("first failure: worker/1, exit code 2"));
}

TEST_F(SupervisorTest, ACoordinatorThatWasAskedToEndIsNotAskedAgain) {
  options_.grace = 100 * kSecond;
  options_.interrupt_grace = 100 * kSecond;
  task("ps/0",
       "trap 'n=x$n; kill -INT $PPID' INT; while [ -z $n ]; do sleep 0.01; done; sleep 0.1; echo asked $n; exit 130",
       true);
  task("worker/0", "sleep 0.1; exit 2", false, true);
  EXPECT_EQ(run(), ExitCode::kInterrupted);
  EXPECT_THAT(text_, HasSubstr("[ps/0] asked x\n"));
}

TEST_F(SupervisorTest, WhoeverIsLeftWhenTheRunIsDoneIsKilled) {
  task("ps/0", "exit 0", true);
  task("worker/0", "kill -STOP $$", false, true);
  task("worker/1", "exit 0", false, true);
  EXPECT_EQ(run(), ExitCode::kDone);
  EXPECT_THAT(text_, HasSubstr("worker/0: killed by signal 9"));
  EXPECT_THAT(text_, Not(HasSubstr("first failure")));
}

TEST_F(SupervisorTest, AnExpendableWorkerThatSaysWhyItEndsIsAFailure) {
  task("ps/0", "exec sleep 100", true);
  task("worker/0", "exit 3", false, true);
  EXPECT_EQ(run(), ExitCode::kData);
}

TEST_F(SupervisorTest, BeforeTheBeginningEveryLossEndsTheRun) {
  begun_ = false;
  task("ps/0", "exec sleep 100", true);
  task("worker/0", "kill -KILL $$", false, true);
  EXPECT_EQ(run(), ExitCode::kPeerLost);
  EXPECT_THAT(text_, HasSubstr("first failure: worker/0, killed by signal 9"));
  EXPECT_THAT(text_, Not(HasSubstr("goes on without")));
}

TEST_F(SupervisorTest, ATaskThatHoldsParametersIsNeeded) {
  task("ps/0", "exec sleep 100", true);
  task("ps/1", "kill -KILL $$");
  EXPECT_EQ(run(), ExitCode::kPeerLost);
}

TEST_F(SupervisorTest, AnInterruptionGoesToTheCoordinatorAlone) {
  options_.interrupt_grace = 100 * kSecond;
  int told[2];  // the worker ends when the coordinator does
  ASSERT_EQ(pipe(told), 0);
  const std::string in = std::to_string(told[0]), out = std::to_string(told[1]);
  task("ps/0",
       "trap 'echo checkpoint; exit 130' INT; exec " + in + "<&-; kill -INT $PPID; while :; do sleep 0.01; done", true);
  task("worker/0", "trap 'echo interrupted too' INT; exec " + out + ">&-; read x <&" + in + "; exit 130");
  close(told[0]);
  close(told[1]);
  EXPECT_EQ(run(), ExitCode::kInterrupted);
  EXPECT_THAT(text_, HasSubstr("[launch] interrupted"));
  EXPECT_THAT(text_, HasSubstr("[ps/0] checkpoint\n"));
  EXPECT_THAT(text_, Not(HasSubstr("interrupted too")));
  EXPECT_THAT(text_, Not(HasSubstr("first failure")));
}

TEST_F(SupervisorTest, ARunThatIsDoneAllTheSameIsDone) {
  options_.interrupt_grace = 100 * kSecond;
  task("ps/0", "trap 'exit 0' INT; kill -INT $PPID; while :; do sleep 0.01; done", true);
  EXPECT_EQ(run(), ExitCode::kDone);
}

TEST_F(SupervisorTest, BeforeTheBeginningAnInterruptionEndsAll) {
  begun_ = false;
  options_.interrupt_grace = 100 * kSecond;
  task("ps/0", "kill -INT $PPID; exec sleep 100", true);
  task("worker/0", "exec sleep 100");
  EXPECT_EQ(run(), ExitCode::kInterrupted);
}

TEST_F(SupervisorTest, WhoDoesNotEndAfterAnInterruptionIsKilled) {
  task("ps/0", "trap '' INT; kill -INT $PPID; exec sleep 100", true);
  task("worker/0", "trap '' INT TERM; exec sleep 100");
  EXPECT_EQ(run(), ExitCode::kInterrupted);
}

TEST_F(SupervisorTest, TheSecondInterruptionKillsAtOnce) {
  options_.interrupt_grace = 100 * kSecond;
  // Answers the launcher's SIGINT with the user's second one.
  task("ps/0", "trap 'kill -INT $PPID' INT; kill -INT $PPID; while :; do sleep 0.01; done", true);
  task("worker/0", "exec sleep 100");
  EXPECT_EQ(run(), ExitCode::kInterrupted);
}

TEST_F(SupervisorTest, AHangUpKillsAtOnce) {
  options_.interrupt_grace = 100 * kSecond;
  task("ps/0", "trap '' INT TERM HUP; kill -HUP $PPID; exec sleep 100", true);
  EXPECT_EQ(run(), ExitCode::kInterrupted);
}

TEST_F(SupervisorTest, LeavesTheSignalMaskAsItWas) {
  task("ps/0", "exit 0", true);
  run();
  sigset_t now;
  sigprocmask(SIG_BLOCK, nullptr, &now);
  EXPECT_TRUE(sigismember(&now, SIGINT));
  EXPECT_FALSE(sigismember(&now, SIGCHLD));
}

}  // namespace
}  // namespace dtrain::launch
