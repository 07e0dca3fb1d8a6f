// Another machine as a host: an agent there, reached through an ssh connection, starts the tasks. When the connection
// ends, or nothing is heard for a while, both sides take it for lost: here all its tasks count as ended, there they are
// killed.
#pragma once

#include <algorithm>
#include <memory>

#include "base/clock.h"
#include "launch/child.h"
#include "launch/host.h"
#include "launch/line_buffer.h"

namespace dtrain::launch {

class RemoteHost final : public Host {
 public:
  // Starts `connect`, a whole command line of ssh that ends in an agent. The clock outlives this object.
  static Result<std::unique_ptr<RemoteHost>> connect(std::string name, const std::vector<std::string>& connect,
                                                     const Clock& clock);
  ~RemoteHost() override;  // ends the connection, and with it whatever runs there

  const std::string& name() const override { return name_; }
  void prepare(const Preparation& what) override;
  const std::optional<Prepared>& prepared() const override { return prepared_; }
  void start(const TaskStart& task) override;
  void signal(uint32_t task, int number) override;
  void descriptors(std::vector<pollfd>& out) const override;
  void work(HostEvents& events) override;
  void abandon(HostEvents& events) override {
    if (!lost_ && !running_.empty()) lose("it does not kill its tasks", events);
  }
  bool lost() const override { return lost_; }

  // The agent's first word; nothing before it has come.
  const std::optional<Greeting>& greeting() const { return greeting_; }
  // Of a lost one: how ssh ended, where that was seen, and the last lines that it printed.
  std::optional<TaskEnd> end() const { return ssh_.running() ? std::nullopt : std::optional(ssh_.end()); }
  const std::string& last_words() const { return last_words_; }

 private:
  RemoteHost(std::string name, Child ssh, const Clock& clock)
      : name_(std::move(name)), ssh_(std::move(ssh)), clock_(clock), heard_(clock.now()), spoke_(clock.now()) {}
  void send(const AgentMessage& message);
  void take(const std::string& line, HostEvents& events);
  void on(const Prepared& message, HostEvents&) {
    prepared_ = message;
    looking_ = false;
  }
  // Of tasks that run there: an agent speaks of no others.
  void on(const TaskLine& message, HostEvents& events) {
    if (runs(message.task)) events.on_line(message.task, message.text, message.rewrite);
  }
  void on(const TaskReady& message, HostEvents& events) {
    if (runs(message.task)) events.on_ready(message.task);
  }
  void on(const TaskEnded& message, HostEvents& events);
  template <typename Other>
  void on(const Other&, HostEvents&) {}
  void lose(const std::string& why, HostEvents& events);
  bool runs(uint32_t task) const { return std::find(running_.begin(), running_.end(), task) != running_.end(); }

  std::string name_;
  Child ssh_;
  const Clock& clock_;
  LineReader in_;
  LineWriter out_;
  Instant heard_, spoke_;
  std::optional<Instant> closed_;  // since when nothing can come from ssh, whose own end is still to be seen
  std::optional<Greeting> greeting_;
  std::optional<Prepared> prepared_;
  bool looking_ = false;  // it was asked to prepare, and is silent until it has
  std::vector<uint32_t> running_;
  std::string last_words_;
  bool lost_ = false;
};

}  // namespace dtrain::launch
