// Command lines of ssh: the user's own binary, which honours the user's configuration, agent and known hosts.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"

namespace dtrain::launch {

struct SshOptions {
  std::string program = "ssh";
  std::string config;                // -F
  std::vector<std::string> options;  // -o each
  int connect_timeout = 10;          // seconds
};

struct SshTarget {
  std::string host;  // as ssh is to be told: an alias of its configuration, user@host, an address
  int port = 0;      // 0: what the configuration says
};

// ssh that asks nothing: a password or an unknown change of a host's key is an error. New hosts are accepted and
// remembered. Without target and command.
std::vector<std::string> ssh_words(const SshOptions& options, const SshTarget& target);
// The whole command line; `command` is for the shell of the user there.
std::vector<std::string> ssh_command(const SshOptions& options, const SshTarget& target, const std::string& command);

// What the shell there is told in order to become the agent: the first of `candidates` that is there, then dtrain of
// the PATH. "$HOME/" at the beginning of a candidate is that of the user there. Exits with kNoProgram where there is
// none.
constexpr int kNoProgram = 97;  // no code of a shell or of the loader
std::string agent_command(const std::vector<std::string>& candidates);

// What to do about ssh's last words, for a person; "" where they say it themselves.
std::string ssh_hint(const std::string& words, const std::string& host);

// "10.0.0.7" where ssh's configuration has that HostName for an alias (`output` is that of ssh -G).
std::string host_name_of(const std::string& output);

}  // namespace dtrain::launch
