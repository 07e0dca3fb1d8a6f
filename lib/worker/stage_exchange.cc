#include "worker/stage_exchange.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <set>

#include "base/check.h"
#include "ps/block_table.h"

namespace dtrain::worker {
namespace {

constexpr size_t kPiece = static_cast<size_t>(ps::kChunkElements) * sizeof(float);

std::set<wire::Rank> readers_of(const StageLinks& links) {
  std::set<wire::Rank> ranks;
  for (const StageLinks::Export& e : links.exports) ranks.insert(e.to.begin(), e.to.end());
  return ranks;
}

std::set<wire::Rank> makers_of(const StageLinks& links) {
  std::set<wire::Rank> ranks;
  for (const StageLinks::Import& i : links.imports) ranks.insert(i.from);
  return ranks;
}

}  // namespace

// Buffers of what is on its way to others; they come back on the thread that lets go of the last piece.
class StageExchange::Pool : public std::enable_shared_from_this<Pool> {
 public:
  std::shared_ptr<Buffer> take(size_t bytes) {
    Buffer buffer;
    {
      std::lock_guard lock(mutex_);
      std::vector<Buffer>& free = free_[bytes];
      if (!free.empty()) {
        buffer = std::move(free.back());
        free.pop_back();
      }
    }
    if (buffer.size() != bytes) buffer = Buffer(bytes);
    return {new Buffer(std::move(buffer)), [pool = shared_from_this()](Buffer* b) {
              {
                std::lock_guard lock(pool->mutex_);
                pool->free_[b->size()].push_back(std::move(*b));
              }
              delete b;
            }};
  }

 private:
  std::mutex mutex_;
  std::map<size_t, std::vector<Buffer>> free_;
};

void StageExchange::connect(StageLinks train, StageLinks eval) {
  std::lock_guard lock(mutex_);
  train_ = std::move(train);
  eval_ = std::move(eval);
  pool_ = std::make_shared<Pool>();
}

Status StageExchange::on_message(wire::Rank from, const wire::Message& message, ByteSpan payload) {
  std::lock_guard lock(mutex_);
  if (const auto* m = std::get_if<wire::StageValue>(&message)) return on(from, *m, payload);
  if (const auto* m = std::get_if<wire::StageDone>(&message)) return on(from, *m);
  return fail(ExitCode::kBug, fmt::format("task {} sent a stage a message that is not for stages", from));
}

Status StageExchange::on(wire::Rank from, const wire::StageValue& m, ByteSpan payload) {
  const StageLinks& of = links(m.kind);
  const auto import = std::ranges::lower_bound(of.imports, m.value, {}, &StageLinks::Import::value);
  const auto wrong = [&](const std::string& what) {
    return fail(ExitCode::kBug, fmt::format("task {} sent {} as piece {} of value {} of micro-batch {} of step {}",
                                            from, what, m.piece, m.value, m.micro_batch, m.step));
  };
  if (import == of.imports.end() || import->value != m.value || import->from != from || m.step < 0 ||
      m.micro_batch >= of.micro_batches)
    return wrong("what it does not have to send");
  const Place place{m.step, m.kind};
  if (current_ ? place < *current_ || (place == *current_ && m.micro_batch < done_) : before_ && place <= *before_)
    return {};
  const auto i = static_cast<uint32_t>(import - of.imports.begin());
  auto at = arriving_.find({place, m.micro_batch});
  if (at == arriving_.end() || !at->second.contains(i)) {
    // No maker is further ahead than the window.
    const auto ahead = std::ranges::count_if(arriving_, [&](const auto& micro) {
      return std::ranges::any_of(
          micro.second, [&](const auto& a) { return links(micro.first.first.kind).imports[a.first].from == from; });
    });
    const bool known = at != arriving_.end() &&
                       std::ranges::any_of(at->second, [&](const auto& a) { return of.imports[a.first].from == from; });
    if (!known && ahead > static_cast<int64_t>(window_))
      return wrong("too many micro-batches at once with what it sent");
    Arriving fresh;
    std::vector<Buffer>& free = free_[import->bytes];
    if (!free.empty()) {
      fresh.buffer = std::move(free.back());
      free.pop_back();
    } else {
      fresh.buffer = Buffer(import->bytes);
    }
    at = arriving_.try_emplace({place, m.micro_batch}).first;
    at->second.emplace(i, std::move(fresh));
  }
  Arriving& value = at->second.at(i);
  const size_t left = import->bytes - value.filled;
  if (value.filled != m.piece * kPiece || left == 0 || payload.size() != std::min(left, kPiece))
    return wrong(fmt::format("{} bytes", payload.size()));
  std::memcpy(value.buffer.data() + value.filled, payload.data(), payload.size());
  value.filled += payload.size();
  return {};
}

Status StageExchange::on(wire::Rank from, const wire::StageDone& m) {
  const StageLinks& of = links(m.kind);
  if (m.step < 0 || m.micro_batches == 0 || m.micro_batches > of.micro_batches || !readers_of(of).contains(from))
    return fail(ExitCode::kBug,
                fmt::format("task {} says that it is done with {} micro-batches of step {}, of which it "
                            "has nothing",
                            from, m.micro_batches, m.step));
  const std::pair said(Place{m.step, m.kind}, m.micro_batches);
  const auto [at, fresh] = done_by_.try_emplace(from, said);
  if (!fresh) at->second = std::max(at->second, said);
  return {};
}

uint32_t StageExchange::done_by(wire::Rank reader, const Place& place) const {
  const auto at = done_by_.find(reader);
  if (at == done_by_.end() || at->second.first < place) return 0;
  return at->second.first == place ? at->second.second : links(place.kind).micro_batches;
}

void StageExchange::begin(const Work& work) {
  std::lock_guard lock(mutex_);
  const Place place{work.step, work.kind};
  DTRAIN_CHECK(!current_ && (!before_ || *before_ < place), "step {} after a later one", work.step);
  current_ = place;
  done_ = 0;
  arriving_.erase(arriving_.begin(), arriving_.lower_bound({place, 0}));
}

bool StageExchange::may_start(uint32_t micro_batch) const {
  std::lock_guard lock(mutex_);
  for (const wire::Rank reader : readers_of(links(current_->kind)))
    if (micro_batch >= done_by(reader, *current_) + window_) return false;
  if (micro_batch > 0 || !before_) return true;
  // A task that nobody sends anything would run ahead from step to step.
  const StageLinks& of = links(before_->kind);
  return std::ranges::all_of(readers_of(of),
                             [&](wire::Rank reader) { return done_by(reader, *before_) == of.micro_batches; });
}

const void* StageExchange::find(uint32_t micro_batch, size_t i) const {
  std::lock_guard lock(mutex_);
  const auto micro = arriving_.find({*current_, micro_batch});
  if (micro == arriving_.end()) return nullptr;
  const auto value = micro->second.find(static_cast<uint32_t>(i));
  if (value == micro->second.end() || value->second.filled != links(current_->kind).imports[i].bytes) return nullptr;
  return value->second.buffer.data();
}

void StageExchange::send(uint32_t micro_batch, size_t i, ByteSpan bytes) {
  std::lock_guard lock(mutex_);
  const std::shared_ptr<Buffer> copy = pool_->take(bytes.size());
  std::memcpy(copy->data(), bytes.data(), bytes.size());
  const StageLinks::Export& out = links(current_->kind).exports[i];
  wire::StageValue m{.kind = current_->kind, .step = current_->step, .micro_batch = micro_batch, .value = out.value};
  for (size_t at = 0; at < bytes.size(); at += kPiece, ++m.piece)
    for (const wire::Rank to : out.to)
      outbox_.send(to, m, {{copy->data() + at, std::min(kPiece, bytes.size() - at)}, copy});
}

void StageExchange::done(uint32_t micro_batches) {
  std::lock_guard lock(mutex_);
  tell_done(micro_batches);
}

void StageExchange::tell_done(uint32_t micro_batches) {
  done_ = micro_batches;
  const auto end = arriving_.lower_bound({*current_, done_});
  for (auto micro = arriving_.begin(); micro != end; ++micro)
    for (auto& [i, value] : micro->second) {
      const size_t bytes = value.buffer.size();
      free_[bytes].push_back(std::move(value.buffer));
    }
  arriving_.erase(arriving_.begin(), end);
  for (const wire::Rank maker : makers_of(links(current_->kind)))
    outbox_.send(maker, wire::StageDone{.kind = current_->kind, .step = current_->step, .micro_batches = done_});
}

void StageExchange::end() {
  std::lock_guard lock(mutex_);
  const uint32_t all = links(current_->kind).micro_batches;
  before_ = current_;
  // Those that left a work in its middle need not wait for others that did so too.
  const bool whole = done_ == all;
  if (!whole) tell_done(all);
  if (!whole) before_.reset();
  current_.reset();
}

}  // namespace dtrain::worker
