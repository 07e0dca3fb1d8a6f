// Small shells as tasks. Signals to the launcher are sent by its children, so that nothing depends on the time.
#include "launch/supervisor.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

#include "launch/local_host.h"

namespace dtrain::launch {
namespace {

using testing::HasSubstr;
using testing::Not;

class SupervisorTest : public testing::Test {
 protected:
  SupervisorTest() : stream_(std::tmpfile()), host_("", "/bin/sh", [](const Preparation&) { return Reserved(); }) {
    while (waitpid(-1, nullptr, WNOHANG) > 0) {  // what other tests have not asked after
    }
    // A child may signal before run() listens: then the signal waits.
    sigset_t set;
    sigemptyset(&set);
    for (int s : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&set, s);
    sigprocmask(SIG_BLOCK, &set, &before_);
    shown_.stream = stream_;
    options_.grace = 50 * kMillisecond;
    options_.notice = 10 * kMillisecond;
    options_.interrupt_grace = 100 * kMillisecond;
    options_.begun = true;
    options_.first_pause = 10 * kMillisecond;
  }
  ~SupervisorTest() override {
    sigprocmask(SIG_SETMASK, &before_, nullptr);
    std::fclose(stream_);
    for (const std::string& path : fifos_) std::remove(path.c_str());
  }

  void task(const std::string& name, const std::string& script, bool coordinator = false, bool expendable = false) {
    SupervisedTask task;
    task.start.task = static_cast<uint32_t>(tasks_.size()) + 7;
    task.start.name = name;
    task.start.words = {"-c", script};
    task.again_words = {"-c", script, "sh", "--auto_resume"};  // further words are its arguments
    task.host = &host_;
    task.coordinator = coordinator;
    task.expendable = expendable;
    tasks_.push_back(std::move(task));
  }

  // A pipe with a name: who reads from it waits until the last who writes to it is gone.
  std::string fifo() {
    fifos_.push_back(testing::TempDir() + fmt::format("fifo-{}-{}", getpid(), fifos_.size()));
    EXPECT_EQ(mkfifo(fifos_.back().c_str(), 0600), 0);
    return fifos_.back();
  }

  ExitCode run() {
    TaskOutput output(shown_);
    const ExitCode code = Supervisor(std::move(tasks_), {&host_}, output, options_).run();
    EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1) << "a task is still running";
    EXPECT_EQ(errno, ECHILD);
    std::rewind(stream_);
    char buffer[4096];
    while (const size_t n = std::fread(buffer, 1, sizeof(buffer), stream_)) text_.append(buffer, n);
    return code;
  }

  std::string text_;
  TaskOutputOptions shown_;
  SupervisorOptions options_;

 private:
  std::FILE* stream_;
  LocalHost host_;
  sigset_t before_;
  std::vector<SupervisedTask> tasks_;
  std::vector<std::string> fifos_;
};

// What a task says when training has begun.
const char* const kReady = R"(python3 -c 'import os, socket
socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM).sendto(b"READY=1", "\0" + os.environ["NOTIFY_SOCKET"][1:])' ; )";

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
  const std::string first = fifo();
  task("ps/0", "read x <" + first + "; echo lost worker/0; exit 4", true);
  task("worker/0", "exec 9>" + first + "; echo why it failed; exit 3");
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
  const std::string ended = fifo();
  task("ps/0", "trap 'echo checkpoint; exit 130' INT; exec 9>" + ended + "; while :; do sleep 0.01; done", true);
  task("worker/0", "read x <" + ended + "; exit 130", false, true);
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
  EXPECT_THAT(text_, HasSubstr("worker/0: ended by the launcher"));
  EXPECT_THAT(text_, Not(HasSubstr("first failure")));
}

TEST_F(SupervisorTest, AnExpendableWorkerThatSaysWhyItEndsIsAFailure) {
  task("ps/0", "exec sleep 100", true);
  task("worker/0", "exit 3", false, true);
  EXPECT_EQ(run(), ExitCode::kData);
}

TEST_F(SupervisorTest, BeforeTheBeginningEveryLossEndsTheRun) {
  options_.begun = false;
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
  const std::string ended = fifo();  // the worker ends when the coordinator does
  task("ps/0",
       "trap 'echo checkpoint; exit 130' INT; exec 9>" + ended + "; kill -INT $PPID; while :; do sleep 0.01; done",
       true);
  task("worker/0", "trap 'echo interrupted too' INT; read x <" + ended + "; exit 130");
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
  options_.begun = false;
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

TEST_F(SupervisorTest, TrainingHasBegunWhenTheCoordinatorSaysSo) {
  options_.begun = false;
  options_.grace = 100 * kSecond;
  const std::string spoken = fifo();
  task("ps/0", std::string(kReady) + "exec 9>" + spoken + "; exec 9>&-; sleep 0.3; exit 0", true);
  task("worker/0", "read x <" + spoken + "; exit 4", false, true);
  task("worker/1", "sleep 0.4; exit 0", false, true);
  EXPECT_EQ(run(), ExitCode::kDone);
  EXPECT_THAT(text_, HasSubstr("worker/0: exit code 4; the run goes on without it"));
}

TEST_F(SupervisorTest, TheWorstCodeIsTheRuns) {
  options_.grace = 100 * kSecond;
  task("ps/0", "exit 7", true);
  task("worker/0", "exit 4");
  task("worker/1", "exit 2");
  EXPECT_EQ(run(), ExitCode::kNotFinite);
}

TEST_F(SupervisorTest, AWorkerThatHoldsNothingIsStartedAgain) {
  options_.max_restarts = 2;
  options_.grace = 100 * kSecond;
  const std::string folder = testing::TempDir() + "restart-" + std::to_string(getpid());
  task("ps/0", "while [ ! -e " + folder + "-2 ]; do sleep 0.01; done; exit 0", true);
  task("worker/0",
       "for n in 1 2; do if [ ! -e " + folder + "-$n ]; then : > " + folder + "-$n; kill -KILL $$; fi; done; exit 0",
       false, true);
  EXPECT_EQ(run(), ExitCode::kDone);
  EXPECT_THAT(text_, HasSubstr("worker/0: killed by signal 9 (Killed); it is started again (1 of 2)"));
  for (const char* n : {"-1", "-2"}) std::remove((folder + n).c_str());
}

TEST_F(SupervisorTest, TheRunIsStartedAgainFromItsNewestCheckpoint) {
  options_.max_restarts = 1;
  task("ps/0", "echo \"given: $*\"; [ \"$1\" = --auto_resume ]", true);
  task("worker/0", "exit 0");
  EXPECT_EQ(run(), ExitCode::kDone);
  EXPECT_THAT(text_, HasSubstr("[ps/0] given: \n"));
  EXPECT_THAT(text_, HasSubstr("[ps/0] given: --auto_resume\n"));
  EXPECT_THAT(text_, HasSubstr("[launch] first failure: ps/0, exit code 1; its last lines:\n"));
  EXPECT_THAT(text_, HasSubstr("the run is started again (1 of 1)"));
}

TEST_F(SupervisorTest, AWrongConfigurationIsNotTriedAgain) {
  options_.max_restarts = 5;
  task("ps/0", "exit 2", true);
  EXPECT_EQ(run(), ExitCode::kUsage);
  EXPECT_THAT(text_, Not(HasSubstr("started again")));
}

TEST_F(SupervisorTest, AfterTheLastRestartTheRunHasFailed) {
  options_.max_restarts = 2;
  task("ps/0", "echo try; exit 4", true);
  EXPECT_EQ(run(), ExitCode::kPeerLost);
  EXPECT_THAT(text_, HasSubstr("(2 of 2)"));
}

// As in the background of a script.
TEST_F(SupervisorTest, AnInterruptionCountsAlsoWhereItWasIgnored) {
  const auto before = ::signal(SIGINT, SIG_IGN);
  options_.interrupt_grace = 100 * kSecond;
  task("ps/0", "trap 'exit 130' INT; kill -INT $PPID; while :; do sleep 0.01; done", true);
  EXPECT_EQ(run(), ExitCode::kInterrupted);
  ::signal(SIGINT, before);
}

TEST_F(SupervisorTest, AHangUpDoesNotCountWhereItWasIgnored) {
  const auto before = ::signal(SIGHUP, SIG_IGN);
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGHUP);
  sigprocmask(SIG_UNBLOCK, &set, nullptr);  // what is blocked waits, ignored or not
  task("ps/0", "kill -HUP $PPID; exit 0", true);
  EXPECT_EQ(run(), ExitCode::kDone);
  ::signal(SIGHUP, before);
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
