// A machine on which tasks of a run are started: this one (LocalHost), or another one that is reached by ssh
// (RemoteHost). Single-threaded: whoever owns the hosts polls their descriptors and lets them work; nothing here
// blocks.
#pragma once

#include <poll.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "launch/agent_messages.h"
#include "launch/task_end.h"

namespace dtrain::launch {

// What hosts tell. Tasks are called by the numbers under which they were started.
class HostEvents {
 public:
  virtual ~HostEvents() = default;
  // `rewrite`: the next line comes in the place of this one.
  virtual void on_line(uint32_t task, const std::string& text, bool rewrite) = 0;
  virtual void on_ready(uint32_t task) = 0;  // it has begun to train
  virtual void on_end(uint32_t task, const TaskEnd& end) = 0;
  virtual void on_note(const std::string& host, const std::string& text) = 0;  // said by no task: by ssh, by a shell
};

class Host {
 public:
  virtual ~Host() = default;

  virtual const std::string& name() const = 0;
  // Asks the host to look whether these tasks can be started, and to reserve their ports; prepared() gets the answer.
  virtual void prepare(const Preparation& what) = 0;
  virtual const std::optional<Prepared>& prepared() const = 0;
  // Once per task and life; a task that cannot be started ends.
  virtual void start(const TaskStart& task) = 0;
  virtual void signal(uint32_t task, int number) = 0;
  // For poll().
  virtual void descriptors(std::vector<pollfd>& out) const = 0;
  // Reads and writes what can be, and tells what has happened. To be called at least every second.
  virtual void work(HostEvents& events) = 0;
  // Gives it up where tasks still run that were to be killed: they count as ended, and end with the connection.
  virtual void abandon(HostEvents& events) = 0;
  // No longer there: what was started on it has ended for its launcher.
  virtual bool lost() const = 0;
};

// What a host does to prepare: the answer, and the sockets that it reserved. The composition of it needs more than this
// module may know (reading run files), so it is handed in.
struct Reserved {
  Prepared answer;
  std::vector<std::vector<int>> sockets;  // by task, in the order of the preparation; owned by who asked
};
using Prepare = std::function<Reserved(const Preparation&)>;

}  // namespace dtrain::launch
