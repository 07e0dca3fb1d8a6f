#include "launch/local_host.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

namespace dtrain::launch {

LocalHost::LocalHost(std::string name, std::string program, Prepare prepare, std::function<bool()> pauses)
    : name_(std::move(name)), program_(std::move(program)), prepare_(std::move(prepare)), pauses_(std::move(pauses)) {}

LocalHost::~LocalHost() {
  signal_all(SIGKILL);
  for (auto& [id, child] : children_) waitpid(child.pid(), nullptr, 0);
  release_sockets();
}

void LocalHost::release_sockets() {
  for (const auto& [task, fds] : sockets_)
    for (int fd : fds) close(fd);
  sockets_.clear();
}

void LocalHost::prepare(const Preparation& what) {
  release_sockets();
  Reserved reserved = prepare_(what);
  for (size_t i = 0; i < reserved.sockets.size(); ++i) sockets_[what.tasks[i].id] = std::move(reserved.sockets[i]);
  prepared_ = std::move(reserved.answer);
}

void LocalHost::start(const TaskStart& task) {
  ChildStart how;
  how.label = task.name;
  how.argv.push_back(program_);
  how.argv.insert(how.argv.end(), task.words.begin(), task.words.end());
  how.environment = task.environment;
  how.notify = true;
  if (!task.secret.empty()) {
    how.argv.insert(how.argv.end(), {"--secret_fd", "0"});
    how.input = from_digits(task.secret);
  }
  if (auto reserved = sockets_.extract(task.task)) how.keep_fds = std::move(reserved.mapped());
  for (int fd : how.keep_fds) how.argv.insert(how.argv.end(), {"--listen_fd", std::to_string(fd)});
  Result<Child> child = Child::start(how);
  // A copy that stays open would go on to take connections when the task is dead.
  for (int fd : how.keep_fds) close(fd);
  if (child && !children_.contains(task.task))
    children_.emplace(task.task, std::move(*child));
  else if (child)
    child->signal(SIGKILL);  // there is one of that number already
  else
    failures_.emplace_back(task.task, child.error().message);
}

void LocalHost::signal(uint32_t task, int number) {
  if (const auto at = children_.find(task); at != children_.end()) at->second.signal(number);
}

void LocalHost::signal_all(int number) {
  for (const auto& [id, child] : children_) child.signal(number);
}

void LocalHost::descriptors(std::vector<pollfd>& out) const {
  const bool paused = pauses_ && pauses_();
  for (const auto& [id, child] : children_) {
    if (child.output_fd() >= 0 && !paused) out.push_back({child.output_fd(), POLLIN, 0});
    if (child.notify_fd() >= 0) out.push_back({child.notify_fd(), POLLIN, 0});
  }
}

void LocalHost::work(HostEvents& events) {
  for (const auto& [task, why] : std::exchange(failures_, {})) {
    events.on_line(task, why, false);
    events.on_end(task, TaskEnd::exited(static_cast<int>(ExitCode::kUsage)));
  }
  for (auto at = children_.begin(); at != children_.end();) {
    auto& [id, child] = *at;
    const auto tell = [&, task = id](const std::string& text, bool rewrite) { events.on_line(task, text, rewrite); };
    if (!pauses_ || !pauses_()) child.read_output(tell);
    if (child.became_ready()) events.on_ready(id);
    if (!child.reap()) {
      ++at;
      continue;
    }
    child.read_output(tell);
    if (child.became_ready()) events.on_ready(id);  // said just before its end
    const uint32_t task = id;
    const TaskEnd end = child.end();
    at = children_.erase(at);
    events.on_end(task, end);
  }
}

}  // namespace dtrain::launch
