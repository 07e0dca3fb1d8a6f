// From names of hosts to hosts that are ready to start tasks: connects to all at the same time, copies to them what
// they lack where that is wanted, and lets each look whether its tasks can run. Everything that is in the way is
// reported at once; nothing is started.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "launch/copying.h"
#include "launch/host.h"
#include "launch/ssh.h"

namespace dtrain::launch {

struct WantedHost {
  std::string name;   // for messages
  bool here = false;  // this machine: without ssh
  SshTarget target;
  Preparation preparation;
};

struct GatherOptions {
  SshOptions ssh;
  std::string program;          // the path of this dtrain
  std::string version;          // that of the others must be the same
  std::string machine;          // as greetings name it: where all have this one, loopback addresses will do
  std::string remote_program;   // its path on the others; "": looked for
  std::string store;            // "$HOME/…", where --sync puts it on the others
  bool sync = false;            // copy the program where it is missing or another one, and `copies`
  std::vector<CopyJob> copies;  // to every host that is not this machine
  double patience = 30;         // seconds for all hosts to answer; also after a copy
  double copy_patience = 600;   // seconds that a copy may take
  Prepare prepare_here;
};

struct GatheredHost {
  std::unique_ptr<Host> host;  // null or lost where there are problems
  std::vector<Problem> problems;
  std::vector<std::string> warnings;
  bool alone = false;  // all hosts are this machine: Preparation::alone as it was asked
};

// In the order of `wanted`. `events` gets what the hosts' shells print; the clock outlives the hosts.
std::vector<GatheredHost> gather(const std::vector<WantedHost>& wanted, const GatherOptions& options,
                                 HostEvents& events, const Clock& clock);

// Of one host that is there: lets it look again, at something else; its problems and ports are those of this answer.
void ask_again(GatheredHost& host, const Preparation& what, double patience = 30);

}  // namespace dtrain::launch
