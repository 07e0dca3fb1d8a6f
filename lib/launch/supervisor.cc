#include "launch/supervisor.h"

#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>

namespace dtrain::launch {
namespace {

// Blocks the signals and gives a descriptor to read them from; undone at the end of its life.
class SignalWatch {
 public:
  SignalWatch() {
    sigset_t set;
    sigemptyset(&set);
    for (int s : {SIGINT, SIGTERM, SIGHUP, SIGCHLD}) sigaddset(&set, s);
    sigprocmask(SIG_BLOCK, &set, &before_);
    fd_ = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
  }
  ~SignalWatch() {
    close(fd_);
    sigprocmask(SIG_SETMASK, &before_, nullptr);
  }
  int fd() const { return fd_; }
  // The next pending signal other than SIGCHLD, or 0.
  int next() {
    signalfd_siginfo info;
    while (::read(fd_, &info, sizeof(info)) == sizeof(info))
      if (info.ssi_signo != SIGCHLD) return static_cast<int>(info.ssi_signo);
    return 0;
  }

 private:
  sigset_t before_;
  int fd_ = -1;
};

bool interrupted(const ChildEnd& end) {
  return !end.signalled && end.value == static_cast<int>(ExitCode::kInterrupted);
}
bool lost_others(const ChildEnd& end) { return !end.signalled && end.value == static_cast<int>(ExitCode::kPeerLost); }

}  // namespace

ExitCode Supervisor::run() {
  SignalWatch signals;
  auto drain = [this](SupervisedTask& t) {
    t.child.read_output([&](const std::string& line, bool rewrite) { print(t.child.label(), line, rewrite); });
  };
  while (any_running()) {
    std::vector<pollfd> wait{{signals.fd(), POLLIN, 0}};
    for (const SupervisedTask& t : tasks_)
      if (t.child.output_fd() >= 0) wait.push_back({t.child.output_fd(), POLLIN, 0});
    poll(wait.data(), wait.size(), kill_at_ ? 50 : 500);
    while (const int number = signals.next()) handle_interrupt(number);
    for (SupervisedTask& t : tasks_) drain(t);
    for (SupervisedTask& t : tasks_)
      if (t.child.reap()) {
        drain(t);
        handle_end(t);
      }
    if (ask_at_ && clock_.now() >= *ask_at_) ask_to_end();
    if (killing()) signal_all(SIGKILL);
  }
  report_first_failure();
  return result();
}

void Supervisor::handle_end(SupervisedTask& task) {
  const ChildEnd& end = task.child.end();
  if (interrupted_) return;
  if (end.good()) {
    if (task.coordinator && !kill_at_) kill_at_ = clock_.now() + options_.grace;  // nobody else has work left
    return;
  }
  const bool lost = is_expendable(task) && !first_failure_;
  print("launch",
        fmt::format("{}: {}{}", task.child.label(), to_string(end), lost ? "; the run goes on without it" : ""), false);
  if (lost || run_is_done()) return;
  if (!first_failure_) {
    // Tasks that have met each other tell each other; before that nobody knows whom to tell.
    const bool begun = options_.begun();
    kill_at_ = clock_.now() + (begun ? options_.grace : kSecond);
    if (begun) ask_at_ = clock_.now() + options_.notice;
  } else if (!lost_others(tasks_[*first_failure_].child.end()) || lost_others(end) || killing()) {
    return;
  }
  // A task that ends for want of another one is seen before that one at times: then the other one's end counts.
  first_failure_ = static_cast<size_t>(&task - tasks_.data());
}

// Whether the run goes on after this end: of a worker without parameters that was killed, was told to leave, or has
// lost the others (its network was cut for too long, say), beside another one.
bool Supervisor::is_expendable(const SupervisedTask& task) const {
  const ChildEnd& end = task.child.end();
  return task.expendable && (end.signalled || lost_others(end) || interrupted(end)) && options_.begun() &&
         (options_.others_may_join || std::any_of(tasks_.begin(), tasks_.end(), [&](const SupervisedTask& t) {
            return &t != &task && t.expendable && (t.child.running() || t.child.end().good());
          }));
}

bool Supervisor::run_is_done() const {
  return std::any_of(tasks_.begin(), tasks_.end(), [](const SupervisedTask& t) {
    return t.coordinator && !t.child.running() && t.child.end().good();
  });
}

void Supervisor::handle_interrupt(int number) {
  if (interrupted_ || number == SIGHUP) {
    signal_all(SIGKILL);
    kill_at_ = clock_.now();
    interrupted_ = true;
    return;
  }
  interrupted_ = true;
  kill_at_ = clock_.now() + options_.interrupt_grace;
  print("launch",
        "interrupted: ends with a checkpoint after this step, if that takes no longer than 4 s; once more ends at once",
        false);
  if (!options_.begun()) return signal_all(SIGTERM);
  ask_to_end();
}

void Supervisor::ask_to_end() {
  if (asked_) return;
  asked_ = true;
  for (const SupervisedTask& t : tasks_)
    if (t.coordinator) t.child.signal(SIGINT);
}

void Supervisor::print(const std::string& label, const std::string& line, bool rewrite) {
  const std::string text = fmt::format("{}[{}] {}{}", rewriting_ ? "\r\x1b[2K" : "", label, line, rewrite ? "" : "\n");
  std::fwrite(text.data(), 1, text.size(), options_.output);
  std::fflush(options_.output);
  rewriting_ = rewrite;
}

void Supervisor::signal_all(int number) {
  for (const SupervisedTask& t : tasks_) t.child.signal(number);
}

bool Supervisor::any_running() const {
  return std::any_of(tasks_.begin(), tasks_.end(), [](const SupervisedTask& t) { return t.child.running(); });
}

void Supervisor::report_first_failure() {
  if (!first_failure_ || interrupted_ || run_is_done()) return;
  const Child& child = tasks_[*first_failure_].child;
  print("launch", fmt::format("first failure: {}, {}; its last lines:", child.label(), to_string(child.end())), false);
  for (const std::string& line : child.last_lines()) print("launch", "  " + line, false);
}

ExitCode Supervisor::result() const {
  if (run_is_done()) return ExitCode::kDone;  // whoever was lost on the way
  if (interrupted_) return ExitCode::kInterrupted;
  if (!first_failure_) return ExitCode::kBug;
  const ChildEnd& end = tasks_[*first_failure_].child.end();
  return end.signalled ? ExitCode::kPeerLost : static_cast<ExitCode>(end.value);
}

}  // namespace dtrain::launch
