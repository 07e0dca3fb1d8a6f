#include "ps/row_server.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "tensor/buffer.h"

namespace dtrain::ps {
namespace {

size_t widest(const RowSpace& space) {
  int64_t width = 0;
  for (const RowSpace::Table& table : space.tables()) width = std::max(width, table.width);
  return static_cast<size_t>(width);
}

tl::unexpected<Error> wrong(const std::string& what) { return fail(ExitCode::kPeerLost, what); }

}  // namespace

RowServer::RowServer(const RowSpace& space, uint32_t server, uint32_t micro_batches, uint64_t most_rows,
                     const optim::Optimizer& optimizer, InitialValues initial, wire::Outbox& outbox)
    : space_(space),
      server_(server),
      micro_batches_(micro_batches),
      most_rows_(std::min(most_rows, space.rows())),
      most_answers_(kAnswersAtLeast + kMostAnswers * static_cast<size_t>(most_rows_) * widest(space) * sizeof(float)),
      optimizer_(optimizer),
      outbox_(outbox),
      store_(space, optimizer.slots(), std::move(initial)),
      sum_(space, micro_batches) {}

void RowServer::start(int64_t version) {
  store_.start(version);
  sum_.reset();
  arriving_.clear();
  parked_.clear();
  waiting_.clear();
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
  if (m.version > version()) return park(from, m);
  const auto unread = unread_.find(from);
  if (unread != unread_.end() && *unread->second + space_.elements(m.rows) * sizeof(float) > most_answers_)
    return wrong("pulls rows without reading those that it is sent");
  answer(from, m);
  return {};
}

Result<void> RowServer::park(wire::Rank from, const wire::RowPull& m) {
  const auto before = waiting_.find(from);
  const bool newer = before == waiting_.end() || before->second.round < m.round;
  if (!newer && m.round < before->second.round) return {};  // of no use any more
  if (!newer && before->second.parts.contains(m.part)) return wrong(fmt::format("pulls part {} twice", m.part));
  if ((newer ? 0 : before->second.rows) + m.rows.size() > most_rows_)
    return wrong(fmt::format("pulls more than the {} rows that a micro-batch can use", most_rows_));
  if (!newer && before->second.parts.size() == kMostParts)
    return wrong(fmt::format("pulls rows in more than {} parts", kMostParts));
  if (newer && before != waiting_.end()) std::erase_if(parked_, [&](const Parked& p) { return p.from == from; });
  Waiting& waiting = newer ? waiting_[from] = {m.round, 0, {}} : before->second;
  waiting.rows += m.rows.size();
  waiting.parts.insert(m.part);
  parked_.push_back({from, m});
  return {};
}

void RowServer::answer(wire::Rank to, const wire::RowPull& pull) {
  if (!store_.readable(pull.version)) {
    outbox_.send(to, wire::RowsGone{pull.round, pull.version, version()});
    return;
  }
  std::shared_ptr<std::atomic<size_t>>& unread = unread_[to];
  if (!unread) unread = std::make_shared<std::atomic<size_t>>(0);
  const size_t size = space_.elements(pull.rows) * sizeof(float);
  *unread += size;
  const std::shared_ptr<Buffer> values(new Buffer(size), [unread, size](const Buffer* b) {
    delete b;
    *unread -= size;
  });
  store_.read(pull.rows, pull.version, values->as<float>().data());
  const ByteSpan bytes(values->data(), values->size());
  outbox_.send(to, wire::Rows{pull.round, pull.part, pull.version}, {bytes, values});
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
  const auto mine = std::distance(arriving_.lower_bound({from, 0}), arriving_.upper_bound({from, UINT32_MAX}));
  if (static_cast<size_t>(mine) >= kMostArriving && !arriving_.contains({from, m.micro_batch}))
    return wrong("pushes rows of several micro-batches at a time");
  Arriving& arriving = arriving_[{from, m.micro_batch}];
  if (m.part == 0) arriving = {m.parts, 0, {}};
  RowList& list = arriving.rows;
  if (m.part != arriving.next || m.parts != arriving.parts ||
      (!list.rows.empty() && !m.rows.empty() && m.rows.front() <= list.rows.back()))
    return wrong(fmt::format("parts of a micro-batch's rows that do not follow each other (part {})", m.part));
  if (list.rows.size() + m.rows.size() > most_rows_)
    return wrong(fmt::format("pushes more than the {} rows that a micro-batch can use", most_rows_));
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
  waiting_.erase(peer);
  unread_.erase(peer);
  std::erase_if(parked_, [&](const Parked& p) { return p.from == peer; });
  std::erase_if(arriving_, [&](const auto& a) { return a.first.first == peer; });
}

std::optional<RowStore::NotFinite> RowServer::commit(const RowStore::ContextOf& context) {
  if (auto found = store_.step(optimizer_, context, sum_.take_root())) return found;
  arriving_.clear();
  std::deque<Parked> parked;
  parked.swap(parked_);
  for (Parked& p : parked) {
    if (p.pull.version > version()) {
      parked_.push_back(std::move(p));
      continue;
    }
    Waiting& waiting = waiting_[p.from];
    waiting.rows -= p.pull.rows.size();
    waiting.parts.erase(p.pull.part);
    if (waiting.parts.empty()) waiting_.erase(p.from);
    answer(p.from, p.pull);
  }
  return std::nullopt;
}

}  // namespace dtrain::ps
