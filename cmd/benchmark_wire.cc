// dtrain benchmark wire: how fast tensors and messages travel, beside what this machine can do at most.
#include <fmt/format.h>
#include <signal.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <functional>
#include <iterator>
#include <memory>
#include <tuple>
#include <vector>

#include "benchmark_parts.h"
#include "config/parse.h"
#include "launch/child.h"
#include "optim/optimizer_spec.h"
#include "process.h"
#include "report_flags.h"
#include "wire_exchange.h"
#include "wire_limits.h"

namespace dtrain::cmd {
namespace {

constexpr size_t kMoved = 64u << 20;  // bytes of one measurement, but of what is sent alone
constexpr size_t kMessage = 64, kRoundTrips = 1000;

struct WireFlags {
  std::vector<uint64_t> sizes{1u << 20, 16u << 20, 64u << 20};
  int rounds = 12;
  ReportFlags report;
  int peer_fd = -1;  // of the child that the benchmark has started
};

using Measure = std::function<Result<double>()>;

// One thing that is measured, once a round. `limit`: the key of what it can be as fast as.
struct Line {
  std::string key, text, limit;
  Measure measure;  // in the unit of its group
};

// What is measured together, in turns.
struct Group {
  std::string name, title, unit;
  bool less_is_better = false;
  std::vector<Line> lines = {};  // limits before what is compared with them
};

Result<std::vector<figures::Figure>> measure_in_turns(const Group& group, int rounds) {
  std::vector<std::vector<double>> values(group.lines.size());
  for (int round = -1; round < rounds; ++round) {  // the first only warms memory
    for (size_t i = 0; i < group.lines.size(); ++i) {
      DTRAIN_TRY_ASSIGN(const double value, group.lines[i].measure());
      if (round >= 0) values[i].push_back(value);
    }
  }
  std::vector<figures::Figure> all;
  for (size_t i = 0; i < group.lines.size(); ++i) {
    const Line& line = group.lines[i];
    figures::Figure about{.name = group.name + "." + line.key,
                          .text = line.text,
                          .unit = group.unit,
                          .group = group.title,
                          .less_is_better = group.less_is_better};
    for (size_t of = 0; of < i; ++of) {
      if (group.lines[of].key != line.limit) continue;
      about.peak = all[of].best;
      about.peak_of = all[of].text;
    }
    all.push_back(figures::summarise(std::move(about), std::move(values[i])));
  }
  return all;
}

// "1 MiB", with what stands between number and unit.
std::string size_text(size_t bytes, const char* between) {
  for (const auto& [unit, name] : {std::pair<size_t, const char*>{1u << 20, "MiB"}, {1u << 10, "KiB"}})
    if (bytes % unit == 0) return fmt::format("{}{}{}", bytes / unit, between, name);
  return fmt::format("{}{}bytes", bytes, between);
}

class WireBenchmark {
 public:
  static Result<std::vector<figures::Figure>> run(const WireFlags& flags);

 private:
  WireBenchmark(PeerChannel& child, std::unique_ptr<WireLimits> limits) : child_(child), limits_(std::move(limits)) {}
  Status connect();
  Result<std::vector<figures::Figure>> tensors(size_t bytes, size_t count, int rounds);
  Result<std::vector<figures::Figure>> messages(int rounds);

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

Result<std::vector<figures::Figure>> WireBenchmark::tensors(size_t bytes, size_t count, int rounds) {
  const size_t total = bytes * count;
  const ps::BlockTable table = wire_table(bytes, count);
  DTRAIN_TRY(limits_->resize(total));
  DTRAIN_TRY(child_.obey({.act = Act::kTable, .bytes = bytes, .count = count}));
  for (WireServer& server : servers_) server.serve(table, *optimizer_);

  const bool alone = count == 1;
  Group group{.name = alone ? size_text(bytes, "") : fmt::format("{}x{}", count, size_text(bytes, "")),
              .title = alone ? size_text(bytes, " ") + " alone" : fmt::format("{} × {}", count, size_text(bytes, " ")),
              .unit = "GB/s"};
  const auto add = [&](std::string key, std::string text, std::string limit, Measure seconds) {
    group.lines.push_back(
        {std::move(key), std::move(text), std::move(limit), [seconds = std::move(seconds), total]() -> Result<double> {
           DTRAIN_TRY_ASSIGN(const double taken, seconds());
           return static_cast<double>(total) / taken / 1e9;
         }});
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

  DTRAIN_TRY_ASSIGN(auto figures, measure_in_turns(group, rounds));
  for (WireServer& server : servers_) DTRAIN_TRY(server.check());
  return figures;
}

Result<std::vector<figures::Figure>> WireBenchmark::messages(int rounds) {
  Group group{.name = "round_trip", .title = "round trip of 64 bytes", .unit = "µs", .less_is_better = true};
  const auto add = [&](std::string key, std::string text, std::string limit,
                       std::function<Result<std::vector<double>>()> seconds) {
    group.lines.push_back(
        {std::move(key), std::move(text), std::move(limit), [seconds = std::move(seconds)]() -> Result<double> {
           DTRAIN_TRY_ASSIGN(std::vector<double> all, seconds());
           std::sort(all.begin(), all.end());
           return 1e6 * figures::quantile(all, 0.5);
         }});
  };
  add("echo_tcp", "bare Asio echo over TCP", "", [this] { return limits_->echo(kRawTcp, kMessage, kRoundTrips); });
  add("echo_unix", "bare Asio echo over a Unix socket", "",
      [this] { return limits_->echo(kRawUnix, kMessage, kRoundTrips); });
  add("message_tcp", "message over TCP", "echo_tcp", [this] { return servers_[kTcp].bounce(kRoundTrips); });
  add("message_host", "message on one host", "echo_unix", [this] { return servers_[kHost].bounce(kRoundTrips); });
  return measure_in_turns(group, rounds);
}

Result<std::vector<figures::Figure>> WireBenchmark::run(const WireFlags& flags) {
  DTRAIN_TRY_ASSIGN(auto ends, PeerChannel::make_ends());
  DTRAIN_TRY_ASSIGN(
      auto child,
      launch::Child::start({.label = "child",
                            .argv = {own_path(), "benchmark", "wire", "--peer_fd", std::to_string(ends.second.get())},
                            .keep_fds = {ends.second.get()}}));
  ends.second.reset();
  PeerChannel channel(std::move(ends.first));
  auto measure = [&]() -> Result<std::vector<figures::Figure>> {
    DTRAIN_TRY_ASSIGN(auto limits, WireLimits::make(channel));
    WireBenchmark benchmark(channel, std::move(limits));
    DTRAIN_TRY(benchmark.connect());
    std::vector<figures::Figure> all;
    const auto add = [&](std::vector<figures::Figure> figures) {
      std::move(figures.begin(), figures.end(), std::back_inserter(all));
    };
    for (const uint64_t bytes : flags.sizes) {
      const size_t count = std::max<size_t>(kMoved / bytes, 1);
      DTRAIN_TRY_ASSIGN(auto together, benchmark.tensors(bytes, count, flags.rounds));
      add(std::move(together));
      if (count == 1) continue;
      DTRAIN_TRY_ASSIGN(auto alone, benchmark.tensors(bytes, 1, flags.rounds));
      add(std::move(alone));
    }
    DTRAIN_TRY_ASSIGN(auto messages, benchmark.messages(flags.rounds));
    add(std::move(messages));
    return all;
  };
  auto figures = measure();
  if (!figures) {  // the child says why it left
    child.read_output([](const std::string& line, bool) { fmt::print(stderr, "{}\n", line); });
    child.signal(SIGKILL);
  }
  return figures;
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

Status time_wire(WireFlags flags) {
  if (flags.peer_fd >= 0) return serve_orders(flags.peer_fd);
  for (const uint64_t bytes : flags.sizes)
    if (bytes < 4096 || bytes > (1u << 30) || bytes % sizeof(float) != 0)
      return fail(ExitCode::kUsage,
                  fmt::format("--sizes: {} is no multiple of 4 from 4 KiB to 1 GiB (what a small message takes is "
                              "always measured)",
                              bytes));
  std::sort(flags.sizes.begin(), flags.sizes.end());
  flags.sizes.erase(std::unique(flags.sizes.begin(), flags.sizes.end()), flags.sizes.end());
  DTRAIN_TRY_ASSIGN(const auto then, flags.report.earlier("wire", ""));
  figures::Report r{.program = "dtrain " DTRAIN_VERSION, .part = "wire"};
  r.title = fmt::format("two processes on this machine, one thread each, {} round{}", flags.rounds,
                        flags.rounds == 1 ? "" : "s");
  r.settings = {{"together_bytes", int64_t{kMoved}}, {"round_trips", int64_t{kRoundTrips}}};
  DTRAIN_TRY_ASSIGN(r.figures, WireBenchmark::run(flags));
  r.machine = measure_machine(1);
  return flags.report.print(r, then);
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
  flags->report.declare(*wire);
  wire->add_option("--peer_fd", flags->peer_fd, "")->group("");  // for the process that the benchmark starts itself
  return {wire, [flags] {
            const Status done = time_wire(*flags);
            return done ? ExitCode::kDone : report(done.error());
          }};
}

}  // namespace dtrain::cmd
