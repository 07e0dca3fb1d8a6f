#include "guest.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/nearest.h"
#include "cluster/spec.h"
#include "net/handshake.h"
#include "process.h"
#include "tensor/parameter.h"
#include "watch/glob.h"

namespace dtrain::cmd {
namespace {

constexpr Nanoseconds kLook = 100 * kMillisecond;
// What a run may have, so that a stranger who claims to be one cannot fill the memory.
constexpr uint32_t kMostTasks = 1 << 20, kMostTensors = 1 << 22;

// Why a tensor, or its gradient, cannot be read; null where it can.
const char* unreadable(const wire::NamedTensor& t, bool gradient) {
  const auto kind = static_cast<ParameterKind>(t.kind);
  if (kind == ParameterKind::kSparse) return "is a sparse table, which is not read as a whole";
  if (!gradient || kind == ParameterKind::kTrainable) return nullptr;
  return kind == ParameterKind::kFrozen ? "has no gradient, since it is frozen"
                                        : "has no gradient, since it is a running statistic";
}

}  // namespace

RunGuest::RunGuest(const GuestFlags& flags, net::ProofMeans proof)
    : timeout_(static_cast<Nanoseconds>(flags.timeout * kSecond)), client_(DTRAIN_VERSION, std::move(proof)) {}

Result<std::unique_ptr<RunGuest>> RunGuest::open(const GuestFlags& flags) {
  const Result<cluster::TaskAddress> address = cluster::parse_address(flags.address);
  if (!address) return fail(address.error().code, fmt::format("--ps: {}", address.error().message));
  DTRAIN_TRY_ASSIGN(net::ProofMeans proof, flags.secret.read());
  std::unique_ptr<RunGuest> guest(new RunGuest(flags, std::move(proof)));
  DTRAIN_TRY_ASSIGN(const size_t link, guest->client_.connect({"", address->host, address->port}, guest->timeout_));
  guest->client_.send(link, wire::AskRun{});
  bool known = false;
  while (!known || guest->tasks_.size() < guest->info_.tasks || guest->tensors_.size() < guest->info_.tensors) {
    DTRAIN_TRY_ASSIGN(net::GuestEvent event, guest->next("what its run is"));
    if (const auto* m = std::get_if<wire::RunInfo>(&event.message)) {
      known = true;
      guest->info_ = *m;
      if (m->tasks > kMostTasks || m->tensors > kMostTensors || m->rank >= m->tasks)
        return fail(ExitCode::kPeerLost, fmt::format("{} does not answer as a task of dtrain does", flags.address));
    }
    if (auto* m = std::get_if<wire::TaskPlace>(&event.message)) guest->tasks_.push_back(std::move(*m));
    if (auto* m = std::get_if<wire::NamedTensor>(&event.message)) guest->tensors_.push_back(std::move(*m));
  }
  guest->link_of_.resize(guest->tasks_.size());
  guest->link_of_[guest->info_.rank] = link;
  guest->rank_of_.push_back(guest->info_.rank);
  for (const wire::TaskPlace& task : guest->tasks_)
    if (task.serves) guest->servers_.push_back(task.rank);
  return guest;
}

Result<std::vector<uint32_t>> RunGuest::find(std::span<const std::string> patterns) const {
  std::vector<bool> wanted(tensors_.size(), patterns.empty());
  for (const std::string& pattern : patterns) {
    bool any = false;
    for (size_t i = 0; i < tensors_.size(); ++i) {
      if (!(watch::is_pattern(pattern) ? watch::matches(pattern, tensors_[i].name) : pattern == tensors_[i].name))
        continue;
      wanted[i] = any = true;
    }
    if (any) continue;
    std::vector<std::string> names;
    for (const wire::NamedTensor& t : tensors_) names.push_back(t.name);
    return fail(ExitCode::kUsage, fmt::format("run '{}' has no tensor '{}'{}", net::printable(info_.name), pattern,
                                              watch::is_pattern(pattern) ? "" : suggestion(pattern, names)));
  }
  std::vector<uint32_t> out;
  for (uint32_t i = 0; i < wanted.size(); ++i)
    if (wanted[i]) out.push_back(i);
  return out;
}

Result<std::vector<uint32_t>> RunGuest::find_readable(std::span<const std::string> patterns, bool gradient) const {
  DTRAIN_TRY_ASSIGN(const std::vector<uint32_t> found, find(patterns));
  std::vector<uint32_t> out;
  std::string left_out;
  for (const uint32_t i : found) {
    const wire::NamedTensor& t = tensors_[i];
    const char* const reason = unreadable(t, gradient);
    if (!reason || std::find(patterns.begin(), patterns.end(), t.name) != patterns.end())
      out.push_back(i);
    else
      left_out += fmt::format("dtrain: left out: '{}' {}\n", net::printable(t.name), reason);
  }
  if (out.empty()) return found;
  fmt::print(stderr, "{}", left_out);
  return out;
}

Result<size_t> RunGuest::meet(wire::Rank rank) {
  if (rank >= tasks_.size()) return fail(ExitCode::kPeerLost, fmt::format("the run has no task of rank {}", rank));
  if (link_of_[rank]) return *link_of_[rank];
  DTRAIN_TRY_ASSIGN(const cluster::TaskAddress address, cluster::parse_address(tasks_[rank].address));
  DTRAIN_TRY_ASSIGN(const size_t link, client_.connect({tasks_[rank].name, address.host, address.port}, timeout_));
  link_of_[rank] = link;
  rank_of_.push_back(rank);
  return link;
}

Status RunGuest::meet_servers() {
  for (const wire::Rank rank : servers_) DTRAIN_TRY(meet(rank));
  return {};
}

Result<std::optional<net::GuestEvent>> RunGuest::next_within(Nanoseconds time) {
  const Instant until = clock_.now() + time;
  for (;;) {
    const Nanoseconds left = until - clock_.now();
    std::optional<net::GuestEvent> event = client_.next(std::clamp<Nanoseconds>(left, 0, kLook));
    if (interrupts.load() > 0) return fail(ExitCode::kInterrupted, "interrupted");
    if (event && !event->lost.empty()) {
      const std::string name = event->link < rank_of_.size() ? tasks_[rank_of_[event->link]].name : "the task";
      return fail(ExitCode::kPeerLost,
                  fmt::format("{} is gone, perhaps since the run has ended: {}", name, net::printable(event->lost)));
    }
    if (event || left <= 0) return event;
  }
}

Result<net::GuestEvent> RunGuest::next(const std::string& awaited, const std::function<void()>& tick) {
  const Instant until = clock_.now() + timeout_;
  for (;;) {
    DTRAIN_TRY_ASSIGN(std::optional<net::GuestEvent> event, next_within(std::min(kLook, timeout_)));
    if (event) return std::move(*event);
    if (tick) tick();
    if (clock_.now() >= until)
      return fail(ExitCode::kPeerLost, fmt::format("nothing has come within {:g} s of {}; --timeout gives it longer",
                                                   static_cast<double>(timeout_) / kSecond, awaited));
  }
}

Status RunGuest::rest(Nanoseconds time) {
  const Instant until = clock_.now() + time;
  while (clock_.now() < until) DTRAIN_TRY(next_within(until - clock_.now()));
  return {};
}

Result<std::optional<int64_t>> RunGuest::version() {
  DTRAIN_TRY(meet_servers());
  ++request_;
  for (const wire::Rank rank : servers_) client_.send(*link_of_[rank], wire::AskStanding{request_});
  std::optional<int64_t> lowest;
  bool apart = false;
  for (size_t heard = 0; heard < servers_.size();) {
    DTRAIN_TRY_ASSIGN(const net::GuestEvent event, next("where the servers stand"));
    const auto* m = std::get_if<wire::Standing>(&event.message);
    if (!m || m->request != request_) continue;
    ++heard;
    lowest = std::min(lowest.value_or(m->version), m->version);
    apart = apart || m->stride == 0;
  }
  if (apart && lowest >= 0) return std::optional<int64_t>();
  return std::optional(lowest.value_or(-1));
}

Result<std::unique_ptr<watch::ConsistentRead>> RunGuest::read(const std::vector<uint32_t>& tensors, bool gradient,
                                                              std::optional<int64_t> version) {
  DTRAIN_TRY(meet_servers());
  watch::ConsistentRead::Options options;
  options.servers = servers_.size();
  options.gradient = gradient;
  options.version = version;
  for (const uint32_t i : tensors) {
    const wire::NamedTensor& t = tensors_[i];
    if (const char* reason = unreadable(t, gradient))
      return fail(ExitCode::kUsage, fmt::format("'{}' {}: name the others", net::printable(t.name), reason));
    options.wanted.push_back({t.tensor, t.name, Shape(t.shape).elements()});
  }
  auto send = [this](size_t server, wire::Message message) {
    client_.send(*link_of_[servers_[server]], std::move(message));
  };
  auto reading = std::make_unique<watch::ConsistentRead>(std::move(options), send, clock_.now());
  Instant heard = clock_.now();
  while (!reading->done()) {
    DTRAIN_TRY_ASSIGN(const auto event, next_within(kLook));
    const Instant now = clock_.now();
    reading->on_tick(now);
    if (event) {
      const wire::Rank from = rank_of_[event->link];
      const auto server = static_cast<size_t>(std::find(servers_.begin(), servers_.end(), from) - servers_.begin());
      if (server == servers_.size()) continue;
      // That the servers say where they stand is no progress: it would be asked for ever.
      if (!std::holds_alternative<wire::Standing>(event->message)) heard = now;
      DTRAIN_TRY(reading->on_message(server, event->message, event->payload, now));
    } else if (now - heard >= timeout_) {
      return fail(ExitCode::kPeerLost,
                  fmt::format("no {} within {:g} s: the run stands still, or its steps are longer than that ({}); "
                              "--timeout gives it longer",
                              gradient ? "step ended" : "version could be read",
                              static_cast<double>(timeout_) / kSecond, reading->situation()));
    }
  }
  return reading;
}

Result<RunGuest::TaskTable> RunGuest::status() {
  DTRAIN_TRY_ASSIGN(const size_t link, meet(0));
  client_.send(link, wire::AskStatus{++request_});
  TaskTable table;
  for (;;) {
    DTRAIN_TRY_ASSIGN(const net::GuestEvent event, next("how the tasks are doing"));
    if (const auto* row = std::get_if<wire::StatusRow>(&event.message); row && row->request == request_)
      table.rows.push_back(*row);
    if (const auto* end = std::get_if<wire::StatusEnd>(&event.message); end && end->request == request_) {
      table.end = *end;
      return table;
    }
  }
}

Result<int64_t> RunGuest::put(uint32_t tensor, std::span<const float> values) {
  // The coordinator first: whether it may be is its to say, before the servers take anything.
  std::vector<wire::Rank> order{0};
  for (const wire::Rank rank : servers_)
    if (rank != 0) order.push_back(rank);
  for (const wire::Rank rank : order) DTRAIN_TRY(meet(rank));
  const uint64_t put = random_incarnation();
  auto refused = [&](const std::string& why) {
    return fail(ExitCode::kUsage, fmt::format("'{}' was not replaced: {}", tensors_[tensor].name, net::printable(why)));
  };
  for (const wire::Rank rank : order) {
    client_.send(*link_of_[rank], wire::Put{put, tensor});
    for (bool answered = false; !answered;) {
      DTRAIN_TRY_ASSIGN(const net::GuestEvent event, next("leave to replace a tensor"));
      if (const auto* no = std::get_if<wire::PutDone>(&event.message); no && no->put == put) return refused(no->error);
      const auto* ranges = std::get_if<wire::PutRanges>(&event.message);
      if (!ranges || ranges->put != put) continue;
      answered = true;
      for (size_t r = 0; r + 1 < ranges->ranges.size(); r += 2) {
        const int64_t end = ranges->ranges[r] + ranges->ranges[r + 1];
        if (ranges->ranges[r] < 0 || end > static_cast<int64_t>(values.size()) || end < ranges->ranges[r])
          return fail(ExitCode::kBug, fmt::format("{} wants elements that there are not", tasks_[rank].name));
        for (int64_t first = ranges->ranges[r]; first < end; first += kChunkElements) {
          const auto n = static_cast<size_t>(std::min<int64_t>(kChunkElements, end - first));
          client_.send(*link_of_[rank], wire::PutChunk{put, first},
                       {std::as_bytes(values.subspan(static_cast<size_t>(first), n)), nullptr});
        }
      }
    }
  }
  for (;;) {
    DTRAIN_TRY_ASSIGN(const net::GuestEvent event,
                      next("the step with which the tensor is replaced, which may still happen"));
    const auto* m = std::get_if<wire::PutDone>(&event.message);
    if (!m || m->put != put) continue;
    if (!m->error.empty()) return refused(m->error);
    return m->version;
  }
}

}  // namespace dtrain::cmd
