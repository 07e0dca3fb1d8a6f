// This machine as a host: tasks are child processes.
#pragma once

#include <map>

#include "launch/child.h"
#include "launch/host.h"

namespace dtrain::launch {

class LocalHost final : public Host {
 public:
  // `program`: the path of dtrain. `pauses`: asked before output is read; while it says so tasks must wait (may be
  // empty).
  LocalHost(std::string name, std::string program, Prepare prepare, std::function<bool()> pauses = {});
  ~LocalHost() override;  // kills what is running

  const std::string& name() const override { return name_; }
  void prepare(const Preparation& what) override;
  const std::optional<Prepared>& prepared() const override { return prepared_; }
  void start(const TaskStart& task) override;
  void signal(uint32_t task, int number) override;
  void descriptors(std::vector<pollfd>& out) const override;
  void work(HostEvents& events) override;
  void abandon(HostEvents&) override {}  // the kernel kills them
  bool lost() const override { return false; }

  bool any_running() const { return !children_.empty(); }
  void signal_all(int number);

 private:
  void release_sockets();

  std::string name_, program_;
  Prepare prepare_;
  std::function<bool()> pauses_;
  std::optional<Prepared> prepared_;
  std::map<uint32_t, std::vector<int>> sockets_;            // reserved, by task, until it is started
  std::map<uint32_t, Child> children_;                      // that have not been reaped
  std::vector<std::pair<uint32_t, std::string>> failures_;  // tasks that could not be started, to be told
};

}  // namespace dtrain::launch
