#include "host_check.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <optional>

#include "base/file_system.h"
#include "base/log.h"
#include "bytes_text.h"
#include "checkpoint/checkpoint_folder.h"
#include "doctor/surroundings.h"
#include "net/asio/bound_port.h"
#include "net/asio/socket_address.h"
#include "node/arithmetic.h"
#include "node/memory_estimate.h"
#include "node/out_folder.h"
#include "node/run_definition.h"
#include "node/start_plan.h"
#include "proto-free-wire/frame.h"

namespace dtrain::cmd {
namespace {

// A line of /proc/meminfo, in bytes.
std::optional<double> memory_of(const std::string& key) {
  std::ifstream in("/proc/meminfo");
  std::string name, unit;
  for (double kib = 0; in >> name >> kib; std::getline(in, unit))
    if (name == key + ":") return kib * 1024;
  return std::nullopt;
}

class HostCheck {
 public:
  explicit HostCheck(const launch::Preparation& what) : what_(what) {}

  launch::Reserved run() {
    // Without its folder nothing else can be looked for.
    if (enter_folder()) {
      const auto definition = node::RunDefinition::read(what_.run_file, what_.set, files_);
      if (definition) {
        check_same_run(*definition);
        check_data(*definition);
        check_memory(*definition);
      } else {
        problem(definition.error());
      }
      check_init();
      check_names();
      reserve_ports();
      if (reserved_.answer.problems.empty() && definition) check_out(*definition);
    }
    if (!reserved_.answer.problems.empty()) give_up_ports();
    return std::move(reserved_);
  }

 private:
  void problem(ExitCode code, std::string text) {
    reserved_.answer.problems.push_back({static_cast<uint32_t>(code), std::move(text)});
  }
  void problem(const Error& error) { problem(error.code, error.message); }
  bool any(bool launch::PlannedTask::*is) const {
    return std::any_of(what_.tasks.begin(), what_.tasks.end(), [&](const auto& task) { return task.*is; });
  }

  bool enter_folder() {
    if (what_.folder.empty() || chdir(what_.folder.c_str()) == 0) return true;
    problem(ExitCode::kUsage,
            fmt::format("the folder {} cannot be entered there: {}; make it, let --sync bring the run's "
                        "files, or name another one by --remote_dir",
                        what_.folder, std::strerror(errno)));
    return false;
  }

  // A copy that is older than the launcher's would be trained without a word.
  void check_same_run(const node::RunDefinition& run) {
    if (what_.run_digest.empty() || what_.run_digest == to_hex(run.run_digest)) return;
    problem(
        ExitCode::kUsage,
        fmt::format("{} or what it includes is another one there than here: --sync brings this one", what_.run_file));
  }

  void check_data(const node::RunDefinition& run) {
    if (!any(&launch::PlannedTask::computes) && !any(&launch::PlannedTask::coordinates)) return;
    std::vector<std::string> named;
    for (const auto& file : run.data_files()) {
      if (access(file.path.c_str(), R_OK) == 0 || std::find(named.begin(), named.end(), file.path) != named.end())
        continue;
      named.push_back(file.path);
      const int error = errno;
      problem(ExitCode::kData, fmt::format("{}: error: '{}' cannot be read there: {}{}", to_string(file.at), file.path,
                                           std::strerror(error),
                                           what_.folder.empty() || error != ENOENT ? "" : "; --sync_data brings it"));
    }
  }

  void check_init() {
    if (what_.init.empty() || access(what_.init.c_str(), R_OK) == 0) return;
    problem(ExitCode::kCheckpoint,
            fmt::format("the model of --init, '{}', cannot be read there: {}", what_.init, std::strerror(errno)));
  }

  // More than there is can never go well; more than is free now may, where others end.
  void check_memory(const node::RunDefinition& run) {
    if (!node::set_up_arithmetic(run.spec.train)) return;  // said by the task, with all there is to say
    const auto memory = node::estimate_memory_of(run, what_.workers, std::max(1u, what_.servers));
    auto total = memory_of("MemTotal"), available = memory_of("MemAvailable");
    if (!memory || !total || !available) return;
    if (const auto group = doctor::control_group_limits({.files = files_}).memory) {  // a container's, a service's
      total = std::min(*total, static_cast<double>(*group));
      available = std::min(*available, *total);
    }
    double needed = 0;
    for (const launch::PlannedTask& task : what_.tasks)
      needed += (task.computes ? memory->worker() : 0) + (task.serves ? memory->server() : 0);
    const std::string text =
        fmt::format("its {} task{} take{} {} of memory; there is {}, of which {} are free", what_.tasks.size(),
                    what_.tasks.size() == 1 ? "" : "s", what_.tasks.size() == 1 ? "s" : "", bytes_text(needed),
                    bytes_text(*total), bytes_text(*available));
    if (needed > *total)
      problem(ExitCode::kUsage, text +
                                    ": put fewer tasks there, or take smaller micro-batches (dtrain check says what "
                                    "takes how much)");
    else if (needed > *available)
      reserved_.answer.warnings.push_back(text);
  }

  // Debian's installer writes a host's own name into its /etc/hosts at 127.0.1.1: who listens there is heard by nobody.
  void check_names() {
    if (what_.alone) return;
    std::string checked;
    for (const launch::PlannedTask& task : what_.tasks) {
      if (!task.listens || task.host == checked) continue;
      checked = task.host;
      const auto addresses = net::resolve(task.host, 0);
      if (!addresses) continue;  // said where it is bound
      if (std::all_of(addresses->begin(), addresses->end(), [](const auto& a) { return a.is_loopback(); }))
        problem(ExitCode::kUsage,
                fmt::format("{0} is {1} on this host itself, where no other host can reach its tasks: name the host by "
                            "its address (address=… in a hostfile), or take the name off that line of its /etc/hosts",
                            task.host, addresses->front().host()));
    }
  }

  void reserve_ports() {
    NullLog quiet;
    for (const launch::PlannedTask& task : what_.tasks) {
      reserved_.sockets.emplace_back();
      reserved_.answer.ports.push_back(task.port);
      if (!task.listens) continue;
      auto bound = net::bind_port(task.host, static_cast<uint16_t>(task.port), quiet);
      if (!bound) {
        problem(bound.error().code, fmt::format("{}: {}", task.name, bound.error().message));
        continue;
      }
      reserved_.answer.ports.back() = bound->port;
      for (auto& socket : bound->sockets) reserved_.sockets.back().push_back(socket.release());
    }
  }

  void give_up_ports() {
    for (const auto& fds : reserved_.sockets)
      for (int fd : fds) close(fd);
    reserved_.sockets.clear();
    reserved_.answer.ports.clear();
  }

  bool resumable(const node::OutFolder& out) {
    NullLog quiet;
    const auto steps = checkpoint::CheckpointFolder(files_, out.checkpoints(), quiet).list();
    return !steps || !steps->empty();
  }

  // Last, since it makes the folder.
  void check_out(const node::RunDefinition& run) {
    if (!any(&launch::PlannedTask::coordinates)) return;
    const node::OutFolder out(what_.out);
    if (!what_.resume && !what_.auto_resume) {
      if (const Status workers = node::can_start(run, what_.workers); !workers) return problem(workers.error());
      if (const Status made = out.create(files_); !made) return problem(made.error());
    } else if (what_.resume && !resumable(out)) {
      return problem(
          ExitCode::kCheckpoint,
          fmt::format("--resume: {} holds no complete checkpoint to go on from; start the run without --resume",
                      out.checkpoints()));
    } else if (const Status made = under_code(ExitCode::kUsage, files_.make_directories(what_.out)); !made) {
      return problem(made.error());
    }
    if (access(what_.out.c_str(), W_OK | X_OK) != 0)
      problem(ExitCode::kUsage,
              fmt::format("{} cannot be written to there: {}; give another --out", what_.out, std::strerror(errno)));
  }

  const launch::Preparation& what_;
  RealFileSystem files_;
  launch::Reserved reserved_;
};

}  // namespace

launch::Reserved check_host(const launch::Preparation& what) { return HostCheck(what).run(); }

std::string machine_name() {
  std::string boot;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), boot);
  char space[64] = {};
  const ssize_t n = readlink("/proc/self/ns/net", space, sizeof(space) - 1);
  return fmt::format("{} {}", boot, std::string(space, static_cast<size_t>(std::max<ssize_t>(n, 0))));
}

std::string program_version() { return fmt::format("{} (protocol {})", DTRAIN_VERSION, wire::kProtocolVersion); }

}  // namespace dtrain::cmd
