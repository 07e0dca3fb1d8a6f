// What the commands that look at a running job share: finding its tasks from the address of one, and asking them, with
// a deadline on every wait.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "flags.h"
#include "net/asio/guest_client.h"
#include "proto-free-wire/message.h"
#include "secret_flags.h"
#include "watch/consistent_read.h"

namespace dtrain::cmd {

struct GuestFlags {
  std::string address;
  double timeout = 10;
  SecretFlags secret;

  void declare(CLI::App& app) {
    app.add_option("--ps", address, "where any task of the job listens; the others are learnt from it")
        ->type_name("HOST:PORT")
        ->required();
    secret.declare(app);
    app.add_option("--timeout", timeout, "give up when nothing has come for so many seconds")
        ->type_name("SECONDS")
        ->check(number_from(0.1, 86400))
        ->capture_default_str();
  }
};

class RunGuest {
 public:
  // Connects to the task at that address and asks what the run is.
  static Result<std::unique_ptr<RunGuest>> open(const GuestFlags& flags);

  const wire::RunInfo& info() const { return info_; }
  const std::vector<wire::TaskPlace>& tasks() const { return tasks_; }
  const std::vector<wire::NamedTensor>& tensors() const { return tensors_; }
  // Indices of the tensors that a name or a pattern means, in the order of the run, each once; no name: all. One that
  // means none is an error that names the nearest.
  Result<std::vector<uint32_t>> find(std::span<const std::string> patterns) const;
  // Those of them that can be read, or of which there is a gradient. What a pattern, or no name, means beside these is
  // left out, which is said on standard error; what is named stays, and read() says why not.
  Result<std::vector<uint32_t>> find_readable(std::span<const std::string> patterns, bool gradient) const;

  // All shard servers are connected after this.
  Status meet_servers();
  size_t servers() const { return servers_.size(); }
  // Reads tensors, or their gradients, of one version.
  Result<std::unique_ptr<watch::ConsistentRead>> read(const std::vector<uint32_t>& tensors, bool gradient,
                                                      std::optional<int64_t> version);
  // The version that all servers have; −1 where the run has not begun; nothing where each block has its own.
  Result<std::optional<int64_t>> version();

  // Status of all tasks, by rank. What the coordinator has not heard of has a negative age.
  struct TaskTable {
    std::vector<wire::StatusRow> rows;
    wire::StatusEnd end;
  };
  Result<TaskTable> status();
  // Replaces a tensor; the version since which it is so.
  Result<int64_t> put(uint32_t tensor, std::span<const float> values);
  // Nothing to ask for `time`, but to be there; an error where the run ends meanwhile, or the user wants to.
  Status rest(Nanoseconds time);

 private:
  RunGuest(const GuestFlags& flags, net::ProofMeans proof);
  Result<size_t> meet(wire::Rank rank);
  // The next message within the timeout; `tick` is called often meanwhile, and may be empty.
  Result<net::GuestEvent> next(const std::string& awaited, const std::function<void()>& tick = {});
  Result<std::optional<net::GuestEvent>> next_within(Nanoseconds time);

  const Nanoseconds timeout_;
  SteadyClock clock_;
  net::GuestClient client_;
  wire::RunInfo info_;
  std::vector<wire::TaskPlace> tasks_;
  std::vector<wire::NamedTensor> tensors_;
  std::vector<std::optional<size_t>> link_of_;  // by rank
  std::vector<wire::Rank> rank_of_;             // by link
  std::vector<wire::Rank> servers_;             // ranks
  uint32_t request_ = 0;
};

}  // namespace dtrain::cmd
