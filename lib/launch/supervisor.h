// Watches the tasks of one run on this machine until all have ended: passes their output on, each line with its task in
// front; forwards Ctrl-C; decides which death ends the run. Nothing is left running when run() returns.
#pragma once

#include <cstdio>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/exit_code.h"
#include "launch/child.h"

namespace dtrain::launch {

struct SupervisedTask {
  Child child;
  bool coordinator = false;  // its end is the run's end; asked first when the run is interrupted
  bool expendable = false;   // a worker without parameters: the run goes on without it while another one is left
};

struct SupervisorOptions {
  std::FILE* output = nullptr;       // borrowed; where the tasks' lines go
  Nanoseconds grace = 10 * kSecond;  // for the others to end by themselves after a failure, or when the run is done
  // From a failure until a coordinator that goes on, with other workers or waiting for some, is asked to end the run.
  Nanoseconds notice = kSecond;
  Nanoseconds interrupt_grace = 4'500 * kMillisecond;  // from the first Ctrl-C until everything is killed
  // Whether training has begun: before that the loss of any task ends the run.
  std::function<bool()> begun;
  bool others_may_join = false;  // from elsewhere: the run goes on though none of the expendable tasks is left
};

class Supervisor {
 public:
  Supervisor(std::vector<SupervisedTask> tasks, SupervisorOptions options)
      : tasks_(std::move(tasks)), options_(std::move(options)) {}

  // Takes over SIGINT, SIGTERM, SIGHUP and SIGCHLD of this process while it runs (single-threaded use).
  ExitCode run();

 private:
  void handle_end(SupervisedTask& task);
  void handle_interrupt(int number);
  void ask_to_end();  // once: a second signal would end the coordinator without a checkpoint
  void print(const std::string& label, const std::string& line, bool rewrite);
  void signal_all(int number);
  bool is_expendable(const SupervisedTask& task) const;
  bool run_is_done() const;
  bool killing() const { return kill_at_ && clock_.now() >= *kill_at_; }
  bool any_running() const;
  void report_first_failure();
  ExitCode result() const;

  std::vector<SupervisedTask> tasks_;
  SupervisorOptions options_;
  SteadyClock clock_;
  std::optional<size_t> first_failure_;  // index into tasks_
  std::optional<Instant> ask_at_;        // the coordinator is asked to end the run then, if it is still there
  std::optional<Instant> kill_at_;       // everything still running is killed then
  bool asked_ = false;
  bool interrupted_ = false;
  bool rewriting_ = false;  // the terminal's line holds a progress bar
};

}  // namespace dtrain::launch
