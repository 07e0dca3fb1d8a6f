// dtrain top: how all tasks of a running job are doing, second by second.
#include <fmt/format.h>
#include <poll.h>
#include <termios.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <memory>

#include "commands.h"
#include "guest.h"
#include "net/handshake.h"
#include "observe/metrics_file.h"
#include "process.h"

namespace dtrain::cmd {
namespace {

struct TopFlags {
  GuestFlags guest;
  bool once = false, json = false;
};

// Reads single keys, unseen, while it lives; nothing where standard input is no terminal.
class Keys {
 public:
  Keys() {
    if (!isatty(STDIN_FILENO) || tcgetattr(STDIN_FILENO, &before_) != 0) return;
    termios now = before_;
    now.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
    active_ = tcsetattr(STDIN_FILENO, TCSANOW, &now) == 0;
  }
  ~Keys() {
    if (active_) tcsetattr(STDIN_FILENO, TCSANOW, &before_);
  }
  Keys(const Keys&) = delete;
  Keys& operator=(const Keys&) = delete;

  bool wants_to_leave() const {
    pollfd in{STDIN_FILENO, POLLIN, 0};
    while (active_ && poll(&in, 1, 0) == 1) {
      char key = 0;
      if (read(STDIN_FILENO, &key, 1) != 1) return false;
      if (key == 'q' || key == 'Q') return true;
    }
    return false;
  }

 private:
  termios before_{};
  bool active_ = false;
};

// "3.2 MB"
std::string bytes_text(double bytes) {
  constexpr const char* kUnits[] = {"B", "kB", "MB", "GB", "TB"};
  size_t unit = 0;
  while (bytes >= 999.5 && unit + 1 < std::size(kUnits)) {
    bytes /= 1000;
    ++unit;
  }
  return fmt::format("{:.{}f} {}", bytes, unit == 0 || bytes >= 99.95 ? 0 : 1, kUnits[unit]);
}

const char* roles(const wire::TaskPlace& task) {
  return task.computes && task.serves ? "both" : task.computes ? "worker" : "server";
}

std::string text(const RunGuest& run, const RunGuest::TaskTable& table) {
  std::string out = fmt::format("{}: {}, step {} of {}\n", net::printable(run.info().name),
                                net::printable(table.end.phase), table.end.step, table.end.steps);
  size_t widest = 4;
  for (const wire::TaskPlace& task : run.tasks()) widest = std::max(widest, task.name.size());
  out += fmt::format("{:<{}}  {:<6} {:>8} {:>5} {:>11} {:>6} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9}\n", "task", widest,
                     "role", "step", "lag", "samples/s", "waits", "sent/s", "recv/s", "sent", "received", "queued",
                     "memory");
  for (const wire::StatusRow& row : table.rows) {
    if (row.rank >= run.tasks().size()) continue;
    const wire::TaskPlace& task = run.tasks()[row.rank];
    out += fmt::format("{:<{}}  {:<6} ", net::printable(task.name), widest, roles(task));
    if (row.age < 0) {
      out += "not there\n";
      continue;
    }
    const wire::TaskStatus& s = row.status;
    auto number = [](int64_t n) { return n < 0 ? std::string("-") : std::to_string(n); };
    out += fmt::format("{:>8} {:>5} {:>11} {:>6} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9}", number(s.step),
                       number(row.lag), task.computes ? fmt::format("{:.1f}", s.samples_per_s) : "-",
                       task.computes ? fmt::format("{:.0f} %", 100 * std::clamp(s.waited, 0.0, 1.0)) : "-",
                       bytes_text(s.sent_per_s), bytes_text(s.received_per_s), bytes_text(static_cast<double>(s.sent)),
                       bytes_text(static_cast<double>(s.received)), bytes_text(static_cast<double>(s.queued)),
                       bytes_text(static_cast<double>(s.resident)));
    out += row.age >= 3 ? fmt::format("  heard {:.0f} s ago\n", row.age) : "\n";
  }
  return out;
}

std::string json(const RunGuest& run, const RunGuest::TaskTable& table) {
  using observe::json_number, observe::json_string;
  std::string out =
      fmt::format(R"({{"run": {}, "phase": {}, "step": {}, "steps": {}, "tasks": [)", json_string(run.info().name),
                  json_string(table.end.phase), table.end.step, table.end.steps);
  bool first = true;
  for (const wire::StatusRow& row : table.rows) {
    if (row.rank >= run.tasks().size()) continue;
    const wire::TaskPlace& task = run.tasks()[row.rank];
    out +=
        fmt::format(R"({}{{"task": {}, "address": {}, "computes": {}, "serves": {}, "present": {})", first ? "" : ", ",
                    json_string(task.name), json_string(task.address), task.computes, task.serves, row.age >= 0);
    first = false;
    const wire::TaskStatus& s = row.status;
    if (row.age >= 0)
      out += fmt::format(
          R"(, "age": {}, "step": {}, "lag": {}, "samples_per_s": {}, "waited": {}, "sent": {}, "received": {}, )"
          R"("sent_per_s": {}, "received_per_s": {}, "queued": {}, "resident": {})",
          json_number(row.age), s.step, row.lag, json_number(s.samples_per_s), json_number(s.waited),
          s.sent, s.received, json_number(s.sent_per_s), json_number(s.received_per_s), s.queued, s.resident);
    out += "}";
  }
  return out + "]}\n";
}

Status top(const TopFlags& flags) {
  DTRAIN_TRY_ASSIGN(const auto run, RunGuest::open(flags.guest));
  const bool screen = isatty(STDOUT_FILENO) && !flags.once && !flags.json;
  const std::unique_ptr<Keys> keys = screen ? std::make_unique<Keys>() : nullptr;
  for (bool first = true;; first = false) {
    DTRAIN_TRY_ASSIGN(const RunGuest::TaskTable table, run->status());
    const std::string shown = flags.json ? json(*run, table) : text(*run, table);
    if (screen)
      fmt::print("\x1b[H\x1b[2J{}\nq or Ctrl-C leaves\n", shown);
    else
      fmt::print("{}{}", first || flags.json ? "" : "\n", shown);
    std::fflush(stdout);
    if (flags.once) return {};
    if (std::ferror(stdout)) {
      if (reader_is_gone()) return {};  // it has seen enough, as `head` has
      return fail(ExitCode::kUsage, "the output cannot be written any more");
    }
    for (int i = 0; i < 10; ++i) {
      DTRAIN_TRY(run->rest(100 * kMillisecond));
      if (keys && keys->wants_to_leave()) return {};
    }
  }
}

}  // namespace

const Command kTop{"top", "show how all tasks of a running job are doing",
                   [](CLI::App& app) -> std::function<ExitCode()> {
                     auto flags = std::make_shared<TopFlags>();
                     flags->guest.declare(app);
                     app.add_flag("--once", flags->once, "one table, then end");
                     app.add_flag("--json", flags->json, "one JSON object a line instead of tables");
                     return [flags] {
                       catch_signals();
                       const Status done = top(*flags);
                       // Watching goes on until the user has seen enough.
                       if (!done && done.error().code == ExitCode::kInterrupted) return ExitCode::kDone;
                       return done ? ExitCode::kDone : report(done.error());
                     };
                   }};

}  // namespace dtrain::cmd
