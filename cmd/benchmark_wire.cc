// dtrain benchmark wire: how fast tensors and messages travel, beside what this machine can do at most.
#include <fmt/format.h>
#include <signal.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "benchmark_parts.h"
#include "config/parse.h"
#include "flags.h"
#include "launch/child.h"
#include "optim/optimizer_spec.h"
#include "process.h"
#include "wire_exchange.h"
#include "wire_limits.h"

namespace dtrain::cmd {
namespace {

constexpr size_t kMoved = 64u << 20;  // bytes of one measurement, but of what is sent alone
constexpr size_t kMessage = 64, kRoundTrips = 1000;

struct WireFlags {
  std::vector<uint64_t> sizes{1u << 20, 16u << 20, 64u << 20};
  int rounds = 12;
  bool json = false;
  int peer_fd = -1;  // of the child that the benchmark has started
};

// One line of the report, measured once a round. `limit`: the line that it can be as fast as.
struct Line {
  std::string key, text;
  std::string limit = {};
  std::vector<double> values = {};  // GB/s, or µs of a round trip
};

// What is measured together, in turns.
struct Group {
  std::string title;
  size_t bytes = 0, count = 0;
  bool times = false;  // smaller is better
  std::vector<Line> lines;

  double best(const Line& line) const {
    return times ? *std::min_element(line.values.begin(), line.values.end())
                 : *std::max_element(line.values.begin(), line.values.end());
  }
  static double median(const Line& line) {
    std::vector<double> sorted = line.values;
    std::sort(sorted.begin(), sorted.end());
    return sorted[sorted.size() / 2];
  }
  const Line* limit_of(const Line& line) const {
    for (const Line& other : lines)
      if (other.key == line.limit) return &other;
    return nullptr;
  }
};

std::string size_text(size_t bytes) {
  for (const auto& [unit, name] : {std::pair<size_t, const char*>{1u << 20, "MiB"}, {1u << 10, "KiB"}})
    if (bytes % unit == 0) return fmt::format("{} {}", bytes / unit, name);
  return fmt::format("{} bytes", bytes);
}

class WireBenchmark {
 public:
  static Result<std::vector<Group>> run(const WireFlags& flags);

 private:
  WireBenchmark(PeerChannel& child, std::unique_ptr<WireLimits> limits) : child_(child), limits_(std::move(limits)) {}
  Status connect();
  Result<Group> tensors(size_t bytes, size_t count, int rounds);
  Result<Group> messages(int rounds);

  PeerChannel& child_;
  std::unique_ptr<WireLimits> limits_;
  WireServer servers_[kDtrainLinks];
  std::shared_ptr<const optim::Optimizer> optimizer_;
};

Status WireBenchmark::connect() {
  DTRAIN_TRY_ASSIGN(const config::Value table, config::parse_toml("type = \"sgd\"\nlr = 1", "the benchmark"));
  config::Diagnostics diagnostics;
  optimizer_ = optim::read_optimizer_spec(table, diagnostics).optimizer;
  for (const DtrainLink link : {kTcp, kUnix, kHost}) DTRAIN_TRY(servers_[link].connect(child_, link));
  return {};
}

Result<Group> WireBenchmark::tensors(size_t bytes, size_t count, int rounds) {
  const size_t total = bytes * count;
  const ps::BlockTable table = wire_table(bytes, count);
  DTRAIN_TRY(limits_->resize(total));
  DTRAIN_TRY(child_.obey({.act = Act::kTable, .bytes = bytes, .count = count}));
  for (WireServer& server : servers_) server.serve(table, *optimizer_);

  Group group;
  group.title = count == 1 ? size_text(bytes) + " alone" : fmt::format("{} × {}", count, size_text(bytes));
  group.bytes = bytes;
  group.count = count;
  using Measure = std::function<Result<double>()>;
  std::vector<Measure> measures;
  auto add = [&](std::string key, std::string text, std::string limit, Measure measure) {
    group.lines.push_back({std::move(key), std::move(text), std::move(limit)});
    measures.push_back(std::move(measure));
  };
  for (const auto& [link, key, name] :
       {std::tuple(kRawTcp, "raw_tcp", "raw TCP"), std::tuple(kRawUnix, "raw_unix", "raw Unix socket")})
    for (const auto& [use, suffix, what] :
         {std::tuple(Use::kNothing, "", ""), std::tuple(Use::kSum, "_sum", ", summed"),
          std::tuple(Use::kSumAndChecksum, "_sum_crc", ", summed and checked")})
      add(std::string(key) + suffix, std::string(name) + what, "",
          [this, link = link, use = use, total] { return limits_->stream(link, use, total); });
  add("shared_sum", "shared memory, summed in place", "", [this] { return Result<double>(limits_->shared_sum()); });
  add("memcpy", "memcpy", "", [this] { return Result<double>(limits_->copy()); });
  add("push_tcp", "push over TCP", "raw_tcp_sum", [this] { return servers_[kTcp].push(); });
  add("pull_tcp", "pull over TCP", "raw_tcp_sum", [this] { return servers_[kTcp].pull(); });
  add("push_unix", "push over a Unix socket", "raw_unix_sum", [this] { return servers_[kUnix].push(); });
  add("pull_unix", "pull over a Unix socket", "raw_unix_sum", [this] { return servers_[kUnix].pull(); });
  add("push_host", "push on one host", "shared_sum", [this] { return servers_[kHost].push(); });
  add("pull_host", "pull on one host", "memcpy", [this] { return servers_[kHost].pull(); });

  for (int round = -1; round < rounds; ++round) {  // the first only warms memory
    for (size_t i = 0; i < measures.size(); ++i) {
      DTRAIN_TRY_ASSIGN(const double seconds, measures[i]());
      if (round >= 0) group.lines[i].values.push_back(static_cast<double>(total) / seconds / 1e9);
    }
  }
  for (WireServer& server : servers_) DTRAIN_TRY(server.check());
  return group;
}

Result<Group> WireBenchmark::messages(int rounds) {
  Group group{"round trip of 64 bytes", kMessage, kRoundTrips, true, {}};
  group.lines = {{"echo_tcp", "bare Asio echo over TCP"},
                 {"echo_unix", "bare Asio echo over a Unix socket"},
                 {"message_tcp", "message over TCP", "echo_tcp"},
                 {"message_host", "message on one host", "echo_unix"}};
  auto add = [](Line& line, Result<std::vector<double>> seconds) -> Status {
    if (!seconds) return tl::unexpected(seconds.error());
    std::sort(seconds->begin(), seconds->end());
    line.values.push_back(1e6 * (*seconds)[seconds->size() / 2]);
    return {};
  };
  for (int round = 0; round < rounds; ++round) {
    DTRAIN_TRY(add(group.lines[0], limits_->echo(kRawTcp, kMessage, kRoundTrips)));
    DTRAIN_TRY(add(group.lines[1], limits_->echo(kRawUnix, kMessage, kRoundTrips)));
    DTRAIN_TRY(add(group.lines[2], servers_[kTcp].bounce(kRoundTrips)));
    DTRAIN_TRY(add(group.lines[3], servers_[kHost].bounce(kRoundTrips)));
  }
  return group;
}

Result<std::vector<Group>> WireBenchmark::run(const WireFlags& flags) {
  DTRAIN_TRY_ASSIGN(auto ends, PeerChannel::make_ends());
  DTRAIN_TRY_ASSIGN(
      auto child,
      launch::Child::start({.label = "child",
                            .argv = {own_path(), "benchmark", "wire", "--peer_fd", std::to_string(ends.second.get())},
                            .keep_fds = {ends.second.get()}}));
  ends.second.reset();
  PeerChannel channel(std::move(ends.first));
  auto measure = [&]() -> Result<std::vector<Group>> {
    DTRAIN_TRY_ASSIGN(auto limits, WireLimits::make(channel));
    WireBenchmark benchmark(channel, std::move(limits));
    DTRAIN_TRY(benchmark.connect());
    std::vector<Group> groups;
    for (const uint64_t bytes : flags.sizes) {
      const size_t count = std::max<size_t>(kMoved / bytes, 1);
      DTRAIN_TRY_ASSIGN(groups.emplace_back(), benchmark.tensors(bytes, count, flags.rounds));
      if (count == 1) continue;
      DTRAIN_TRY_ASSIGN(groups.emplace_back(), benchmark.tensors(bytes, 1, flags.rounds));
    }
    DTRAIN_TRY_ASSIGN(groups.emplace_back(), benchmark.messages(flags.rounds));
    return groups;
  };
  auto groups = measure();
  if (!groups) {  // the child says why it left
    child.read_output([](const std::string& line, bool) { fmt::print(stderr, "{}\n", line); });
    child.signal(SIGKILL);
  }
  return groups;
}

// The process that the benchmark has started: obeys until its parent closes the channel.
Status serve_orders(int fd) {
  PeerChannel parent{net::UniqueFd(fd)};
  WireLimitsChild limits;
  WireExchangeChild exchange;
  while (auto order = parent.receive()) {
    if (WireLimitsChild::knows(order->first.act))
      DTRAIN_TRY(limits.obey(parent, order->first, std::move(order->second)));
    else
      DTRAIN_TRY(exchange.obey(parent, order->first));
  }
  return {};
}

void print_text(const std::vector<Group>& groups) {
  for (const Group& group : groups) {
    fmt::print("{:<40} {:>10} {:>10}   {}\n", group.title, group.times ? "best µs" : "best GB/s", "median",
               "of its limit");
    for (const Line& line : group.lines) {
      fmt::print("  {:<38} {:>10.2f} {:>10.2f}", line.text, group.best(line), Group::median(line));
      if (const Line* limit = group.limit_of(line))
        fmt::print("   {:.2f} of {}", group.best(line) / group.best(*limit), limit->text);
      fmt::print("\n");
    }
  }
}

void print_json(const std::vector<Group>& groups) {
  nlohmann::ordered_json all{{"program", "dtrain " DTRAIN_VERSION}, {"groups", nlohmann::json::array()}};
  for (const Group& group : groups) {
    nlohmann::ordered_json g{{"bytes", group.bytes}, {"count", group.count}, {"unit", group.times ? "us" : "GB/s"}};
    for (const Line& line : group.lines) {
      nlohmann::ordered_json& l = g[line.key];
      l = {{"best", group.best(line)}, {"median", Group::median(line)}};
      if (const Line* limit = group.limit_of(line)) {
        l["limit"] = limit->key;
        l["ratio"] = group.best(line) / group.best(*limit);
      }
    }
    all["groups"].push_back(std::move(g));
  }
  fmt::print("{}\n", all.dump());
}

ExitCode time_wire(const WireFlags& flags) {
  if (flags.peer_fd >= 0) {
    const Status served = serve_orders(flags.peer_fd);
    return served ? ExitCode::kDone : report(served.error());
  }
  for (const uint64_t bytes : flags.sizes)
    if (bytes < 4096 || bytes > (1u << 30) || bytes % sizeof(float) != 0)
      return report({ExitCode::kUsage,
                     fmt::format("--sizes: {} is no multiple of 4 from 4 KiB to 1 GiB (what a small message takes is "
                                 "always measured)",
                                 bytes)});
  const auto groups = WireBenchmark::run(flags);
  if (!groups) return report(groups.error());
  (flags.json ? print_json : print_text)(*groups);
  return ExitCode::kDone;
}

}  // namespace

BenchmarkPart benchmark_wire(CLI::App& app) {
  auto flags = std::make_shared<WireFlags>();
  CLI::App* wire = app.add_subcommand("wire", "time pushes, pulls and messages beside bare sockets and memory");
  add_flag_value(*wire, "--sizes", flags->sizes, "sizes of the tensors, as 1MiB,16MiB (default 1MiB,16MiB,64MiB)")
      ->delimiter(',')
      ->transform(CLI::AsSizeValue(false));
  add_flag_value(*wire, "--rounds", flags->rounds, "how often each is measured, in turns")
      ->check(CLI::Range(1, 10000))
      ->capture_default_str();
  add_switch(*wire, "--json", flags->json, "print one line of JSON");
  wire->add_option("--peer_fd", flags->peer_fd, "")->group("");  // for the process that the benchmark starts itself
  return {wire, [flags] { return time_wire(*flags); }};
}

}  // namespace dtrain::cmd
