// Starts the tasks of one run on their hosts and watches them until all have ended: passes their output on; forwards
// Ctrl-C; decides which end ends the run, and which task is started again. Nothing is left running when run() returns.
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/exit_code.h"
#include "launch/host.h"
#include "launch/task_output.h"

namespace dtrain::launch {

struct SupervisedTask {
  TaskStart start;                            // its number is its own among the tasks
  Host* host = nullptr;                       // borrowed
  std::vector<std::string> again_words = {};  // instead of start.words, when the run is started again
  bool coordinator = false;                   // its end is the run's end; asked first when the run is interrupted
  bool expendable = false;  // a worker without parameters: the run goes on without it while another one is left
};

struct SupervisorOptions {
  Nanoseconds grace = 10 * kSecond;  // for the others to end by themselves after a failure, or when the run is done
  // From a failure until a coordinator that goes on, with other workers or waiting for some, is asked to end the run.
  Nanoseconds notice = kSecond;
  Nanoseconds interrupt_grace = 4'500 * kMillisecond;  // from the first Ctrl-C until everything is killed
  bool begun = false;  // from the start on; else when the coordinator is ready: before that any loss ends the run
  bool others_may_join = false;  // from elsewhere: the run goes on though none of the expendable tasks is left
  // How often something that failed is started again: an expendable task by itself, any other with the whole run. The
  // first time at once, then after a pause that doubles up to the longest.
  int max_restarts = 0;
  Nanoseconds first_pause = kSecond, longest_pause = 30 * kSecond;
};

class Supervisor final : HostEvents {
 public:
  Supervisor(std::vector<SupervisedTask> tasks, std::vector<Host*> hosts, TaskOutput& output,
             SupervisorOptions options);

  // Takes over SIGINT, SIGTERM, SIGHUP, SIGTSTP and SIGCHLD of this process while it runs (single-threaded use).
  ExitCode run();

 private:
  struct Watched {
    SupervisedTask task;
    bool running = false, ended = false;
    std::optional<Instant> start_at;  // it is started again then
    TaskEnd end;
    std::deque<std::string> last_lines;
  };
  void on_line(uint32_t task, const std::string& text, bool rewrite) override;
  void on_ready(uint32_t task) override;
  void on_end(uint32_t task, const TaskEnd& end) override;
  void on_note(const std::string& host, const std::string& text) override;

  Watched& watched(uint32_t number) { return tasks_[index_.at(number)]; }
  void start(Watched& watched, bool again);
  void start_run();
  void watch(class SignalWatch& signals);
  void handle_end(Watched& watched);
  void handle_interrupt(int number);
  bool start_again(Watched& watched);
  void start_due();
  Nanoseconds pause() const;  // before the restart that was counted last
  bool run_can_start_again();
  void ask_to_end();  // once: a second signal would end the coordinator without a checkpoint
  void signal_all(int number);
  bool is_expendable(const Watched& watched) const;
  bool others_are_left(const Watched& watched) const;
  bool run_is_done() const;
  bool killing() const { return kill_at_ && clock_.now() >= *kill_at_; }
  bool any_running() const;
  std::string name_of(const Watched& watched) const;  // "worker/3 on node2"
  void report_first_failure();
  ExitCode result() const;

  std::vector<Watched> tasks_;
  std::map<uint32_t, size_t> index_;  // number of a task → its place in tasks_
  std::vector<Host*> hosts_;
  TaskOutput& output_;
  SupervisorOptions options_;
  SteadyClock clock_;
  int restarts_ = 0;
  bool again_ = false;  // the run has been started again
  bool begun_ = false;
  std::optional<size_t> first_failure_;  // index into tasks_
  ExitCode worst_ = ExitCode::kDone;     // of those that failed by themselves
  std::optional<Instant> ask_at_;        // the coordinator is asked to end the run then, if it is still there
  std::optional<Instant> kill_at_;       // everything still running is killed then
  bool asked_ = false;
  bool interrupted_ = false;
};

}  // namespace dtrain::launch
