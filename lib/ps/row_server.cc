#include "ps/row_server.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "tensor/buffer.h"

namespace dtrain::ps {
namespace {

tl::unexpected<Error> wrong(const std::string& what) { return fail(ExitCode::kPeerLost, what); }

}  // namespace

RowServer::RowServer(const RowSpace& space, uint32_t server, uint32_t micro_batches, const optim::Optimizer& optimizer,
                     InitialValues initial, wire::Outbox& outbox)
    : space_(space),
      server_(server),
      micro_batches_(micro_batches),
      optimizer_(optimizer),
      outbox_(outbox),
      store_(space, optimizer.slots(), std::move(initial)),
      sum_(space, micro_batches) {}

void RowServer::start(int64_t version) {
  store_.start(version);
  sum_.reset();
  arriving_.clear();
  parked_.clear();
}

// What a peer says are rows of this server, in order, few enough for a message; "" where they are.
std::string RowServer::wrong_with(std::span<const uint64_t> rows) const {
  if (rows.size() > RowSpace::kMostRows) return fmt::format("{} rows in one message", rows.size());
  for (size_t i = 0; i < rows.size(); ++i) {
    if (rows[i] >= space_.rows()) return fmt::format("there is no row {}", rows[i]);
    if (space_.server_of(rows[i]) != server_)
      return fmt::format("row {} is of server {}, not {}", rows[i], space_.server_of(rows[i]), server_);
    if (i > 0 && rows[i] <= rows[i - 1]) return fmt::format("row {} comes after row {}", rows[i], rows[i - 1]);
  }
  const size_t elements = space_.elements(rows);
  return elements > RowSpace::kMostElements ? fmt::format("rows of {} elements in one message", elements) : "";
}

Result<void> RowServer::on(wire::Rank from, const wire::RowPull& m) {
  if (m.version < 0) return wrong(fmt::format("there is no version {}", m.version));
  if (const std::string what = wrong_with(m.rows); !what.empty()) return wrong(what);
  if (m.version <= version()) {
    answer(from, m);
    return {};
  }
  std::erase_if(parked_, [&](const Parked& p) { return p.from == from && p.pull.round < m.round; });
  const auto mine = static_cast<size_t>(
      std::count_if(parked_.begin(), parked_.end(), [&](const Parked& p) { return p.from == from; }));
  if (mine >= kMostParked) return wrong(fmt::format("pulls rows in more than {} parts", kMostParked));
  parked_.push_back({from, m});
  return {};
}

void RowServer::answer(wire::Rank to, const wire::RowPull& pull) {
  if (!store_.readable(pull.version)) {
    outbox_.send(to, wire::RowsGone{pull.round, pull.version, version()});
    return;
  }
  auto values = std::make_shared<Buffer>(space_.elements(pull.rows) * sizeof(float));
  store_.read(pull.rows, pull.version, values->as<float>().data());
  const ByteSpan bytes(values->data(), values->size());
  outbox_.send(to, wire::Rows{pull.round, pull.part, pull.version}, {bytes, std::move(values)});
}

Result<void> RowServer::on(wire::Rank from, const wire::RowPush& m, ByteSpan payload) {
  if (m.step < 0) return wrong(fmt::format("there is no step {}", m.step));
  if (m.micro_batch >= micro_batches_) return wrong(fmt::format("there is no micro-batch {}", m.micro_batch));
  if (m.part >= m.parts) return wrong(fmt::format("part {} of {} of a micro-batch's rows", m.part, m.parts));
  if (const std::string what = wrong_with(m.rows); !what.empty()) return wrong(what);
  const size_t elements = space_.elements(m.rows);
  if (payload.size() != elements * sizeof(float))
    return wrong(fmt::format("{} bytes for rows of {} elements", payload.size(), elements));
  if (m.step > version()) return {};  // cannot have begun

  const auto taken = [&] {
    if (m.part + 1 == m.parts) outbox_.send(from, wire::RowsTaken{m.step, m.micro_batch, version()});
  };
  if (m.step < version() || sum_.covers(m.micro_batch)) {
    arriving_.erase({from, m.micro_batch});
    taken();
    return {};
  }
  Arriving& arriving = arriving_[{from, m.micro_batch}];
  if (m.part == 0) arriving = {m.parts, 0, {}};
  RowList& list = arriving.rows;
  if (m.part != arriving.next || m.parts != arriving.parts ||
      (!list.rows.empty() && !m.rows.empty() && m.rows.front() <= list.rows.back()))
    return wrong(fmt::format("parts of a micro-batch's rows that do not follow each other (part {})", m.part));
  ++arriving.next;
  list.rows.insert(list.rows.end(), m.rows.begin(), m.rows.end());
  const size_t had = list.values.size();
  list.values.resize(had + elements);
  if (elements > 0) std::memcpy(list.values.data() + had, payload.data(), payload.size());
  if (arriving.next < arriving.parts) return {};
  RowList whole = std::move(list);
  arriving_.erase({from, m.micro_batch});
  sum_.add(m.micro_batch, std::move(whole));
  taken();
  return {};
}

void RowServer::peer_lost(wire::Rank peer) {
  std::erase_if(parked_, [&](const Parked& p) { return p.from == peer; });
  std::erase_if(arriving_, [&](const auto& a) { return a.first.first == peer; });
}

std::optional<RowStore::NotFinite> RowServer::commit(const RowStore::ContextOf& context) {
  if (auto found = store_.step(optimizer_, context, sum_.take_root())) return found;
  arriving_.clear();
  std::deque<Parked> waiting;
  waiting.swap(parked_);
  for (Parked& p : waiting) {
    if (p.pull.version > version())
      parked_.push_back(std::move(p));
    else
      answer(p.from, p.pull);
  }
  return std::nullopt;
}

}  // namespace dtrain::ps
