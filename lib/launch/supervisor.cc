#include "launch/supervisor.h"

#include <fmt/format.h>
#include <poll.h>
#include <signal.h>

#include <algorithm>

#include "launch/signal_watch.h"

namespace dtrain::launch {
namespace {

constexpr size_t kRememberedLines = 12;
constexpr Nanoseconds kAnswer = 1500 * kMillisecond;  // for a host to say that it has killed its tasks

bool lost_others(const TaskEnd& end) { return end.is(ExitCode::kPeerLost); }
// Killed, with its machine or by itself, told to leave, or cut off.
bool was_taken(const TaskEnd& end) {
  return end.kind != TaskEnd::Kind::kExited || lost_others(end) || end.is(ExitCode::kInterrupted);
}
// Another try may go better; a wrong configuration stays one.
bool worth_another_try(const TaskEnd& end) { return was_taken(end) || end.is(ExitCode::kBug); }

}  // namespace

Supervisor::Supervisor(std::vector<SupervisedTask> tasks, std::vector<Host*> hosts, TaskOutput& output,
                       SupervisorOptions options)
    : hosts_(std::move(hosts)), output_(output), options_(options) {
  for (SupervisedTask& task : tasks) {
    index_[task.start.task] = tasks_.size();
    tasks_.push_back({std::move(task)});
  }
}

ExitCode Supervisor::run() {
  SignalWatch signals;
  start_run();
  for (;;) {
    watch(signals);
    if (!run_can_start_again()) break;
    report_first_failure();
    ++restarts_;
    output_.say(fmt::format("the run is started again ({} of {}), from its newest checkpoint", restarts_,
                            options_.max_restarts));
    start_run();
  }
  report_first_failure();
  output_.flush();
  return result();
}

void Supervisor::start_run() {
  begun_ = options_.begun;
  asked_ = false;
  first_failure_.reset();
  ask_at_.reset();
  kill_at_.reset();
  worst_ = ExitCode::kDone;
  for (Watched& watched : tasks_) watched.start_at = clock_.now() + (restarts_ > 0 ? pause() : 0);
  again_ = restarts_ > 0;
  start_due();
}

Nanoseconds Supervisor::pause() const {
  if (restarts_ <= 1) return 0;
  Nanoseconds pause = options_.first_pause;
  for (int n = 2; n < restarts_ && pause < options_.longest_pause; ++n) pause *= 2;
  return std::min(pause, options_.longest_pause);
}

void Supervisor::start_due() {
  for (Watched& watched : tasks_)
    if (watched.start_at && clock_.now() >= *watched.start_at) {
      watched.start_at.reset();
      start(watched, again_);
    }
}

void Supervisor::start(Watched& watched, bool again) {
  watched.running = true;
  watched.ended = false;
  watched.last_lines.clear();
  TaskStart start = watched.task.start;
  if (again) start.words = watched.task.again_words;
  watched.task.host->start(start);
}

// Until none is running.
void Supervisor::watch(SignalWatch& signals) {
  while (any_running()) {
    std::vector<pollfd> wait{{signals.fd(), POLLIN, 0}};
    for (const Host* host : hosts_) host->descriptors(wait);
    poll(wait.data(), wait.size(), kill_at_ || ask_at_ ? 50 : 250);
    while (const int number = signals.next()) handle_interrupt(number);
    for (Host* host : hosts_) host->work(*this);
    start_due();
    if (ask_at_ && clock_.now() >= *ask_at_) ask_to_end();
    if (killing()) signal_all(SIGKILL);
    if (kill_at_ && clock_.now() >= *kill_at_ + kAnswer)
      for (Host* host : hosts_) host->abandon(*this);
  }
}

void Supervisor::on_line(uint32_t task, const std::string& text, bool rewrite) {
  Watched& watched = this->watched(task);
  if (!rewrite) {
    watched.last_lines.push_back(text);
    if (watched.last_lines.size() > kRememberedLines) watched.last_lines.pop_front();
  }
  output_.line(watched.task.start.name, text, rewrite);
}

void Supervisor::on_ready(uint32_t task) {
  if (watched(task).task.coordinator) begun_ = true;
}

void Supervisor::on_note(const std::string& host, const std::string& text) {
  output_.say(fmt::format("{}: {}", host, text));
}

void Supervisor::on_end(uint32_t task, const TaskEnd& end) {
  Watched& watched = this->watched(task);
  watched.running = false;
  watched.ended = true;
  watched.end = end;
  handle_end(watched);
}

void Supervisor::handle_end(Watched& watched) {
  const TaskEnd& end = watched.end;
  if (interrupted_) return;
  if (end.good()) {
    if (watched.task.coordinator && !kill_at_) kill_at_ = clock_.now() + options_.grace;  // nobody else has work left
    return;
  }
  const bool may_lose = is_expendable(watched) && !first_failure_;
  if (may_lose && !run_is_done() && start_again(watched)) return;
  const bool lost = may_lose && others_are_left(watched);
  const bool by_launcher = killing() && end.kind == TaskEnd::Kind::kSignalled && end.value == SIGKILL;
  output_.say(fmt::format("{}: {}{}", name_of(watched), by_launcher ? "ended by the launcher" : to_string(end),
                          lost ? "; the run goes on without it" : ""));
  if (lost || run_is_done()) return;
  if (!killing()) worst_ = worse(worst_, end.code());
  if (!first_failure_) {
    // Tasks that have met each other tell each other; before that nobody knows whom to tell.
    kill_at_ = clock_.now() + (begun_ ? options_.grace : kSecond);
    if (begun_) ask_at_ = clock_.now() + options_.notice;
  } else if (!lost_others(tasks_[*first_failure_].end) || lost_others(end) || killing()) {
    return;
  }
  // A task that ends for want of another one is seen before that one at times: then the other one's end counts.
  first_failure_ = static_cast<size_t>(&watched - tasks_.data());
}

// Of a task whose loss the run survives: it comes back as a new life of itself.
bool Supervisor::start_again(Watched& watched) {
  if (restarts_ >= options_.max_restarts || watched.task.host->lost() || !worth_another_try(watched.end)) return false;
  ++restarts_;
  output_.say(fmt::format("{}: {}; it is started again ({} of {})", name_of(watched), to_string(watched.end), restarts_,
                          options_.max_restarts));
  watched.start_at = clock_.now() + pause();
  return true;
}

bool Supervisor::run_can_start_again() {
  if (!first_failure_ || interrupted_ || run_is_done() || restarts_ >= options_.max_restarts ||
      !worth_another_try(tasks_[*first_failure_].end))
    return false;
  const auto gone = std::find_if(tasks_.begin(), tasks_.end(), [](const Watched& w) { return w.task.host->lost(); });
  if (gone == tasks_.end()) return true;
  output_.say(
      fmt::format("the run is not started again: {} has a part in it, and the connection to it is gone; launch it "
                  "again with --auto_resume",
                  gone->task.host->name()));
  return false;
}

// Whether the run can go on after this end: of a worker without parameters that was killed, was told to leave, or has
// lost the others (its network was cut for too long, say).
bool Supervisor::is_expendable(const Watched& watched) const {
  return watched.task.expendable && was_taken(watched.end) && begun_;
}

bool Supervisor::others_are_left(const Watched& watched) const {
  return options_.others_may_join || std::any_of(tasks_.begin(), tasks_.end(), [&](const Watched& w) {
           return &w != &watched && w.task.expendable && (w.running || (w.ended && w.end.good()));
         });
}

bool Supervisor::run_is_done() const {
  return std::any_of(tasks_.begin(), tasks_.end(),
                     [](const Watched& w) { return w.task.coordinator && w.ended && w.end.good(); });
}

void Supervisor::handle_interrupt(int number) {
  // Tasks on other hosts would take a launcher that stands still for dead.
  if (number == SIGTSTP) return output_.say("a launcher cannot be suspended; Ctrl-C ends the run with a checkpoint");
  if (number == SIGHUP)
    output_.say("the terminal is gone: everything is ended (nohup lets a launch outlive its terminal)");
  if (interrupted_ || number == SIGHUP) {
    signal_all(SIGKILL);
    for (Watched& w : tasks_) w.start_at.reset();
    kill_at_ = clock_.now();
    interrupted_ = true;
    return;
  }
  interrupted_ = true;
  for (Watched& w : tasks_) w.start_at.reset();
  kill_at_ = clock_.now() + options_.interrupt_grace;
  output_.say(
      "interrupted: ends with a checkpoint after this step, if that takes no longer than 4 s; once more ends at once");
  if (!begun_) return signal_all(SIGTERM);
  ask_to_end();
}

void Supervisor::ask_to_end() {
  if (asked_) return;
  asked_ = true;
  for (Watched& w : tasks_)
    if (w.task.coordinator && w.running) w.task.host->signal(w.task.start.task, SIGINT);
}

void Supervisor::signal_all(int number) {
  for (Watched& w : tasks_)
    if (w.running) w.task.host->signal(w.task.start.task, number);
}

bool Supervisor::any_running() const {
  return std::any_of(tasks_.begin(), tasks_.end(), [](const Watched& w) { return w.running || w.start_at; });
}

std::string Supervisor::name_of(const Watched& watched) const {
  const std::string& host = watched.task.host->name();
  return host.empty() ? watched.task.start.name : fmt::format("{} on {}", watched.task.start.name, host);
}

void Supervisor::report_first_failure() {
  if (!first_failure_ || interrupted_ || run_is_done()) return;
  const Watched& watched = tasks_[*first_failure_];
  output_.say(fmt::format("first failure: {}, {}; its last lines:", name_of(watched), to_string(watched.end)));
  for (const std::string& line : watched.last_lines) output_.say("  " + line);
  if (!output_.log_folder().empty()) output_.say(fmt::format("all that the tasks said is in {}", output_.log_folder()));
}

ExitCode Supervisor::result() const {
  if (run_is_done()) return ExitCode::kDone;  // whoever was lost on the way
  if (interrupted_) return ExitCode::kInterrupted;
  return first_failure_ ? worst_ : ExitCode::kBug;
}

}  // namespace dtrain::launch
