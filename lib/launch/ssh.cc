#include "launch/ssh.h"

#include <fmt/format.h>

#include "launch/shell_quote.h"

namespace dtrain::launch {

std::vector<std::string> ssh_words(const SshOptions& options, const SshTarget& target) {
  std::vector<std::string> words{options.program};
  if (!options.config.empty()) words.insert(words.end(), {"-F", options.config});
  // What the user asks for goes first: of an option that is given twice ssh takes the first.
  for (const std::string& option : options.options) words.insert(words.end(), {"-o", option});
  words.insert(words.end(), {"-T", "-x", "-o", "BatchMode=yes", "-o", "StrictHostKeyChecking=accept-new", "-o",
                             fmt::format("ConnectTimeout={}", options.connect_timeout), "-o", "LogLevel=ERROR"});
  if (target.port > 0) words.insert(words.end(), {"-p", std::to_string(target.port)});
  return words;
}

std::vector<std::string> ssh_command(const SshOptions& options, const SshTarget& target, const std::string& command) {
  std::vector<std::string> words = ssh_words(options, target);
  words.insert(words.end(), {"--", target.host, command});
  return words;
}

std::string agent_command(const std::vector<std::string>& candidates) {
  std::string places;
  for (const std::string& candidate : candidates)
    places += candidate.starts_with("$HOME/") ? " \"$HOME\"/" + shell_quote(candidate.substr(6))
                                              : " " + shell_quote(candidate);
  // One script for a shell that is known, whatever the user's own is.
  const std::string script =
      "for p in" + places +
      " \"$(command -v dtrain)\"; do if [ -f \"$p\" ] && [ -x \"$p\" ]; then exec \"$p\" agent; fi; "
      "done; exit " +
      std::to_string(kNoProgram);
  return "exec /bin/sh -c " + shell_quote(script);
}

std::string ssh_hint(const std::string& words, const std::string& host) {
  const auto says = [&](const char* what) { return words.find(what) != std::string::npos; };
  if (says("Permission denied") || says("Too many authentication failures"))
    return fmt::format(
        "ssh would have to ask for a password, which a launch cannot: let a key in (ssh-copy-id {0}), "
        "load it into an agent, or name user and key for {0} in ~/.ssh/config",
        host);
  if (says("Host key verification failed") || says("REMOTE HOST IDENTIFICATION HAS CHANGED"))
    return fmt::format(
        "its key is not the one that is remembered: where that is right, forget the old one "
        "(ssh-keygen -R {}) and try again",
        host);
  if (says("Could not resolve hostname")) return "no such host: is the name right, here and in ~/.ssh/config?";
  if (says("Connection refused")) return "no ssh server listens there: is sshd running, and is it the right port?";
  if (says("timed out") || says("No route to host") || says("Network is unreachable"))
    return "is the host up, and does the network lead there?";
  return "";
}

std::string host_name_of(const std::string& output) {
  for (size_t begin = 0; begin < output.size();) {
    const size_t end = std::min(output.find('\n', begin), output.size());
    const std::string line = output.substr(begin, end - begin);
    if (line.starts_with("hostname ")) return line.substr(9);
    begin = end + 1;
  }
  return "";
}

}  // namespace dtrain::launch
