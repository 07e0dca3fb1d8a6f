#include "launch/agent.h"

#include <fcntl.h>
#include <signal.h>

#include "launch/line_buffer.h"
#include "launch/local_host.h"

namespace dtrain::launch {
namespace {

class Agent final : HostEvents {
 public:
  Agent(const AgentSetup& setup, const Clock& clock)
      : setup_(setup), clock_(clock), heard_(clock.now()), host_("", setup.program, setup.prepare, [this] {
          // Tasks wait rather than this process grows, when the launcher does not read.
          constexpr size_t kMost = 1u << 20;
          return out_.waiting() > kMost;
        }) {}

  void run() {
    out_.add("\n");  // what a login printed may have no end of its line
    say(setup_.greeting);
    // A launcher that was stopped for long is as good as gone: tasks elsewhere have ended for it too.
    for (bool there = true; there && clock_.now() - heard_ < kAliveFor;) {
      std::vector<pollfd> wait{{setup_.in, POLLIN, 0}};
      if (out_.waiting() > 0) wait.push_back({setup_.out, POLLOUT, 0});
      host_.descriptors(wait);
      poll(wait.data(), wait.size(), 100);
      there = in_.fill(setup_.in);
      for (std::string line; in_.next(line);) {
        heard_ = clock_.now();
        if (const auto message = decode(line)) std::visit([this](const auto& m) { on(m); }, *message);
      }
      host_.work(*this);
      if (clock_.now() - spoke_ >= kAliveEvery) say(Alive{});
      there = out_.flush(setup_.out) && there;
    }
  }

 private:
  void say(const AgentMessage& message) {
    out_.add(encode(message));
    spoke_ = clock_.now();
  }
  void on(const Preparation& what) {
    host_.prepare(what);
    say(*host_.prepared());
    heard_ = clock_.now();  // it took its time here
  }
  void on(const TaskStart& task) { host_.start(task); }
  void on(const SignalTask& what) { host_.signal(what.task, static_cast<int>(what.number)); }
  template <typename Other>
  void on(const Other&) {}

  void on_line(uint32_t task, const std::string& text, bool rewrite) override { say(TaskLine{task, text, rewrite}); }
  void on_ready(uint32_t task) override { say(TaskReady{task}); }
  void on_end(uint32_t task, const TaskEnd& end) override {
    say(TaskEnded{task, static_cast<uint32_t>(end.value), end.kind == TaskEnd::Kind::kSignalled});
  }
  void on_note(const std::string&, const std::string&) override {}

  const AgentSetup& setup_;
  const Clock& clock_;
  LineReader in_;
  LineWriter out_;
  Instant heard_, spoke_ = 0;
  LocalHost host_;
};

}  // namespace

ExitCode run_agent(const AgentSetup& setup, const Clock& clock) {
  // A signal to the whole session (sshd's at its end, say) is not for this process: the end of its input is.
  for (int number : {SIGPIPE, SIGHUP, SIGINT, SIGTERM}) signal(number, SIG_IGN);
  for (int fd : {setup.in, setup.out}) fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
  Agent(setup, clock).run();
  return ExitCode::kDone;
}

}  // namespace dtrain::launch
