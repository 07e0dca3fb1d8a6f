#include "launch/copying.h"

#include <fmt/format.h>
#include <poll.h>
#include <signal.h>

#include "base/clock.h"
#include "launch/child.h"
#include "launch/shell_quote.h"

namespace dtrain::launch {
namespace {

// "printf '%s\0' a b": the list as rsync and tar read it, whatever the names hold.
std::string list_of(const CopyJob& job) { return "printf '%s\\0' " + shell_quote(job.paths); }

}  // namespace

std::string rsync_line(const SshOptions& ssh, const SshTarget& to, const CopyJob& job) {
  // A bare IPv6 address would be read as host:path.
  const size_t user = to.host.find('@') == std::string::npos ? 0 : to.host.find('@') + 1;
  const bool v6 = to.host.find(':') != std::string::npos;
  const std::string host = v6 ? to.host.substr(0, user) + "[" + to.host.substr(user) + "]" : to.host;
  // rsync takes the words of -e apart at blanks, and knows quotation marks.
  const std::vector<std::string> words{"rsync",
                                       "--archive",
                                       "--no-owner",
                                       "--no-group",
                                       "--recursive",
                                       "--protect-args",
                                       "--mkpath",
                                       "--from0",
                                       "--files-from=-",
                                       "-e",
                                       shell_quote(ssh_words(ssh, to)),
                                       "--",
                                       job.base + "/",
                                       host + ":" + job.target + "/"};
  return list_of(job) + " | " + shell_quote(words);
}

std::string tar_line(const SshOptions& ssh, const SshTarget& to, const CopyJob& job) {
  const std::string there = "exec /bin/sh -c " + shell_quote(fmt::format("mkdir -p -- {0} && exec tar -C {0} -xzf -",
                                                                         shell_quote(job.target)));
  return fmt::format("set -e; {} | tar -C {} --null --files-from=- -czf - | {}", list_of(job), shell_quote(job.base),
                     shell_quote(ssh_command(ssh, to, there)));
}

std::string program_line(const SshOptions& ssh, const SshTarget& to, const std::string& program,
                         const std::string& place) {
  const std::string path = "\"$HOME\"/" + shell_quote(place.substr(6));
  const std::string script = fmt::format(
      "umask 077; p={}; mkdir -p \"$(dirname \"$p\")\" && cat > \"$p.$$\" && chmod 700 \"$p.$$\" && mv -f \"$p.$$\" "
      "\"$p\"",
      path);
  return fmt::format("{} < {}", shell_quote(ssh_command(ssh, to, "exec /bin/sh -c " + shell_quote(script))),
                     shell_quote(program));
}

std::vector<std::string> run_lines(const std::vector<std::string>& lines, double seconds) {
  const SteadyClock clock;
  const Instant deadline = clock.now() + static_cast<Nanoseconds>(seconds * kSecond);
  std::vector<std::string> words(lines.size());
  std::vector<Child> children;
  for (size_t i = 0; i < lines.size(); ++i) {
    auto child = Child::start({.label = "a copy", .argv = {"/bin/sh", "-c", lines[i]}});
    if (!child) {
      words[i] = child.error().message;
      continue;
    }
    children.push_back(std::move(*child));
  }
  size_t at = 0;
  for (size_t i = 0; i < lines.size(); ++i) {
    if (!words[i].empty()) continue;
    Child& child = children[at++];
    const auto keep = [&](const std::string& line, bool) { words[i] += (words[i].empty() ? "" : "\n") + line; };
    for (;;) {
      child.read_output(keep);
      if (child.reap()) break;
      if (clock.now() > deadline) kill(-child.pid(), SIGKILL);  // the whole pipe
      pollfd wait{child.output_fd(), POLLIN, 0};
      poll(&wait, 1, 50);
    }
    child.read_output(keep);
    if (child.end().good())
      words[i].clear();
    else if (words[i].empty())
      words[i] = clock.now() > deadline ? fmt::format("not done within {:g} s", seconds) : to_string(child.end());
  }
  return words;
}

}  // namespace dtrain::launch
