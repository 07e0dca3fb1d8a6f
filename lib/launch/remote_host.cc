#include "launch/remote_host.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/wait.h>

#include <algorithm>

namespace dtrain::launch {

Result<std::unique_ptr<RemoteHost>> RemoteHost::connect(std::string name, const std::vector<std::string>& connect,
                                                        const Clock& clock) {
  ChildStart how{.label = "ssh to " + name, .argv = connect};
  how.channel = true;
  DTRAIN_TRY_ASSIGN(Child ssh, Child::start(how));
  return std::unique_ptr<RemoteHost>(new RemoteHost(std::move(name), std::move(ssh), clock));
}

RemoteHost::~RemoteHost() {
  ssh_.close_channel_in();
  if (!ssh_.running()) return;
  ssh_.signal(SIGKILL);  // sshd closes the agent's input
  waitpid(ssh_.pid(), nullptr, 0);
}

void RemoteHost::send(const AgentMessage& message) {
  if (lost_) return;
  out_.add(encode(message));
  spoke_ = clock_.now();
  out_.flush(ssh_.channel_in());
}

void RemoteHost::prepare(const Preparation& what) {
  prepared_.reset();
  looking_ = true;
  send(what);
}

void RemoteHost::start(const TaskStart& task) {
  running_.push_back(task.task);
  send(task);
}

void RemoteHost::signal(uint32_t task, int number) { send(SignalTask{task, static_cast<uint32_t>(number)}); }

void RemoteHost::descriptors(std::vector<pollfd>& out) const {
  if (lost_) return;
  if (!closed_) out.push_back({ssh_.channel_out(), POLLIN, 0});
  if (ssh_.output_fd() >= 0) out.push_back({ssh_.output_fd(), POLLIN, 0});
  if (out_.waiting() > 0) out.push_back({ssh_.channel_in(), POLLOUT, 0});
}

void RemoteHost::work(HostEvents& events) {
  if (lost_) {
    // Tasks that were to be started after it was lost.
    for (uint32_t task : std::exchange(running_, {})) events.on_end(task, TaskEnd::lost("no connection to " + name_));
    ssh_.reap();
    return;
  }
  const Instant now = clock_.now();
  const auto note = [&](const std::string& text, bool) {
    constexpr size_t kRemembered = 2000;
    if (last_words_.size() < kRemembered) last_words_ += (last_words_.empty() ? "" : "\n") + text;
    if (greeting_) events.on_note(name_, text);  // before that it is part of why there was none
  };
  if (!closed_ && !in_.fill(ssh_.channel_out())) closed_ = now;
  for (std::string line; in_.next(line);) {
    heard_ = now;
    take(line, events);
  }
  ssh_.read_output(note);
  constexpr Nanoseconds kFarewell = kSecond;  // for ssh to say why
  if (ssh_.reap() || (closed_ && now - *closed_ > kFarewell)) {
    ssh_.read_output(note);
    return lose(!last_words_.empty() ? last_words_ : end() ? "ssh: " + to_string(*end()) : "it was closed", events);
  }
  if (greeting_ && !looking_ && now - heard_ > kAliveFor)
    return lose(fmt::format("nothing was heard for {} s", kAliveFor / kSecond), events);
  if (now - spoke_ >= kAliveEvery && greeting_) send(Alive{});
  out_.flush(ssh_.channel_in());
}

void RemoteHost::take(const std::string& line, HostEvents& events) {
  const Result<AgentMessage> message = decode(line);
  if (!message) {
    // What shells print at a login is on the way to the agent's first word; after it something else would be odd.
    if (greeting_) events.on_note(name_, line);
    return;
  }
  if (const auto* greeting = std::get_if<Greeting>(&*message)) greeting_ = *greeting;
  std::visit([&](const auto& m) { on(m, events); }, *message);
}

void RemoteHost::on(const TaskEnded& message, HostEvents& events) {
  const auto at = std::find(running_.begin(), running_.end(), message.task);
  if (at == running_.end()) return;
  running_.erase(at);
  const int value = static_cast<int>(message.value);
  const bool possible = message.signalled ? value >= 1 && value <= 64 : value >= 0 && value <= 255;
  events.on_end(message.task, !possible           ? TaskEnd::lost(name_ + " says nonsense of its end")
                              : message.signalled ? TaskEnd::signalled(value)
                                                  : TaskEnd::exited(value));
}

void RemoteHost::lose(const std::string& why, HostEvents& events) {
  lost_ = true;
  ssh_.close_channel_in();
  ssh_.signal(SIGKILL);
  const std::string text = fmt::format("the connection to {} ended: {}", name_, why);
  for (uint32_t task : std::exchange(running_, {})) events.on_end(task, TaskEnd::lost(text));
}

}  // namespace dtrain::launch
