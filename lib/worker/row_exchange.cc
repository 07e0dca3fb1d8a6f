#include "worker/row_exchange.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <memory>

#include "base/check.h"
#include "tensor/buffer.h"

namespace dtrain::worker {

template <typename T>
std::vector<RowExchange::Share<T>> RowExchange::shares(std::span<const uint64_t> rows,
                                                       std::span<T* const> memory) const {
  DTRAIN_CHECK(memory.size() == space_.tables().size());
  std::vector<Share<T>> shares(server_ranks_.size());
  space_.for_tables(rows, [&](size_t t, size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i) {
      Share<T>& share = shares[space_.server_of(rows[i])];
      share.rows.push_back(rows[i]);
      share.places.push_back(memory[t] + (i - begin) * static_cast<size_t>(space_.tables()[t].width));
    }
  });
  return shares;
}

void RowExchange::pull(int64_t version, std::span<const uint64_t> rows, std::span<float* const> into) {
  ++round_;
  pulled_ = {version, {}, 0};
  std::vector<Share<float>> all = shares(rows, into);
  for (size_t s = 0; s < all.size(); ++s) {
    const std::span<const uint64_t> mine = all[s].rows;
    space_.for_pieces(mine, [&](size_t begin, size_t end) {
      const auto part = static_cast<uint32_t>(pulled_.parts.size());
      Part& out = pulled_.parts.emplace_back();
      out.from = server_ranks_[s];
      space_.for_tables(mine.subspan(begin, end - begin), [&](size_t t, size_t from, size_t to) {
        const auto width = static_cast<uint32_t>(space_.tables()[t].width);
        for (size_t i = from; i < to; ++i) {
          out.runs.emplace_back(all[s].places[begin + i], width);
          out.elements += width;
        }
      });
      outbox_.send(server_ranks_[s], wire::RowPull{round_,
                                                   part,
                                                   version,
                                                   {mine.begin() + static_cast<ptrdiff_t>(begin),
                                                    mine.begin() + static_cast<ptrdiff_t>(end)}});
    });
  }
  pulled_.missing = pulled_.parts.size();
}

void RowExchange::push(const Work& work, uint32_t micro_batch, std::span<const uint64_t> rows,
                       std::span<const float* const> gradients) {
  const std::vector<Share<const float>> all = shares(rows, gradients);
  for (size_t s = 0; s < all.size(); ++s) {
    const std::span<const uint64_t> mine = all[s].rows;
    std::vector<std::pair<size_t, size_t>> pieces;
    space_.for_pieces(mine, [&](size_t begin, size_t end) { pieces.emplace_back(begin, end); });
    for (size_t i = 0; i < pieces.size(); ++i) {
      const auto [begin, end] = pieces[i];
      const auto part = mine.subspan(begin, end - begin);
      auto values = std::make_shared<Buffer>(space_.elements(part) * sizeof(float));
      float* to = values->as<float>().data();
      space_.for_tables(part, [&](size_t t, size_t from, size_t until) {
        const auto width = static_cast<size_t>(space_.tables()[t].width);
        for (size_t r = from; r < until; ++r, to += width) std::copy_n(all[s].places[begin + r], width, to);
      });
      const ByteSpan bytes(values->data(), values->size());
      outbox_.send(server_ranks_[s],
                   wire::RowPush{work.step,
                                 micro_batch,
                                 static_cast<uint32_t>(i),
                                 static_cast<uint32_t>(pieces.size()),
                                 {part.begin(), part.end()}},
                   {bytes, std::move(values)});
    }
    pushed_.push_back({server_ranks_[s], micro_batch, work});
  }
}

size_t RowExchange::unanswered(const Work& work) const {
  return static_cast<size_t>(
      std::count_if(pushed_.begin(), pushed_.end(), [&](const Pushed& p) { return p.work == work; }));
}

Status RowExchange::check_server(wire::Rank from) const {
  if (std::find(server_ranks_.begin(), server_ranks_.end(), from) != server_ranks_.end()) return {};
  return fail(ExitCode::kBug, fmt::format("task {} sends rows, but is no server", from));
}

Status RowExchange::on(wire::Rank from, const wire::Rows& m, ByteSpan payload) {
  DTRAIN_TRY(check_server(from));
  if (m.round != round_ || pulled_.parts.empty()) return {};  // of no use any more
  if (m.part >= pulled_.parts.size() || pulled_.parts[m.part].from != from || m.version != pulled_.version ||
      payload.size() != pulled_.parts[m.part].elements * sizeof(float))
    return fail(ExitCode::kBug,
                fmt::format("task {} sent {} bytes as part {} of rows at version {}, which were not asked "
                            "for",
                            from, payload.size(), m.part, m.version));
  Part& part = pulled_.parts[m.part];
  if (!part.missing) return {};
  const std::byte* at = payload.data();
  for (const auto& [to, elements] : part.runs) {
    std::memcpy(to, at, elements * sizeof(float));
    at += elements * sizeof(float);
  }
  part.missing = false;
  --pulled_.missing;
  return {};
}

Result<std::optional<int64_t>> RowExchange::on(wire::Rank from, const wire::RowsGone& m) {
  DTRAIN_TRY(check_server(from));
  if (m.round != round_ || pulled_.missing == 0) return std::optional<int64_t>();
  if (m.version != pulled_.version || m.newest <= m.version)
    return fail(ExitCode::kBug, fmt::format("task {} says that version {} of the rows is gone, but stands at {}", from,
                                            m.version, m.newest));
  return std::optional(m.newest);
}

// A server answers the pushes of a micro-batch in the order in which they came.
Result<std::optional<Work>> RowExchange::on(wire::Rank from, const wire::RowsTaken& m) {
  DTRAIN_TRY(check_server(from));
  const auto at = std::find_if(pushed_.begin(), pushed_.end(), [&](const Pushed& p) {
    return p.to == from && p.work.step == m.step && p.micro_batch == m.micro_batch;
  });
  if (at == pushed_.end()) return std::optional<Work>();
  const Work work = at->work;
  pushed_.erase(at);
  return std::optional(work);
}

}  // namespace dtrain::worker
