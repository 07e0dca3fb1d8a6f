#include "watch/put_desk.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

namespace dtrain::watch {

Status PutDesk::on(wire::Rank guest, const wire::Put& put) {
  if (put.tensor >= table_.parameters().size())
    return fail(ExitCode::kPeerLost, fmt::format("it wants to put tensor {}, which there is not", put.tensor));
  if (staged_) {
    outbox_.send(guest, wire::PutDone{put.put, -1, "another put is under way; try again"});
    return {};
  }
  Staged staged{guest, put};
  wire::PutRanges ranges{put.put, {}};
  for (const uint32_t id : table_.of_parameter(static_cast<ParameterIndex>(put.tensor))) {
    const ps::Block& b = table_.block(id);
    if (b.server != index_) continue;
    ranges.ranges.insert(ranges.ranges.end(), {b.first, b.elements});
    const uint32_t chunks = b.chunks();
    staged.parts[id] = {Buffer(static_cast<size_t>(b.elements) * sizeof(float)), (1u << chunks) - 1};
    staged.missing += chunks;
  }
  if (staged.missing > 0) staged_ = std::move(staged);
  outbox_.send(guest, std::move(ranges));
  return {};
}

Status PutDesk::on(wire::Rank guest, const wire::PutChunk& chunk, ByteSpan payload) {
  // What was under way when the put was given up.
  if (!staged_ || staged_->put.put != chunk.put || staged_->guest != guest) return {};
  for (auto& [id, part] : staged_->parts) {
    const ps::Block& b = table_.block(id);
    if (chunk.first < b.first) continue;
    const int64_t first = chunk.first - b.first;
    if (first >= b.elements || first % kChunkElements != 0) continue;
    const auto c = static_cast<uint32_t>(first / kChunkElements);
    const auto n = static_cast<size_t>(b.chunk_elements(c));
    if (payload.size() != n * sizeof(float) || !(part.missing & 1u << c)) break;
    float* to = part.values.as<float>().data() + first;
    std::memcpy(to, payload.data(), payload.size());
    if (!std::all_of(to, to + n, [](float x) { return std::isfinite(x); })) {
      outbox_.send(guest, wire::PutDone{chunk.put, -1, "a value is not finite"});
      staged_.reset();
      return {};
    }
    part.missing &= ~(1u << c);
    if (--staged_->missing == 0) outbox_.send(coordinator_, wire::PutStaged{chunk.put, staged_->put.tensor});
    return {};
  }
  return fail(ExitCode::kPeerLost,
              fmt::format("it put {} bytes at element {}, which nobody asked for", payload.size(), chunk.first));
}

void PutDesk::on(const wire::PutOrder& order) {
  if (!staged_ || staged_->put.put != order.put) return;
  if (order.version >= 0 && staged_->missing == 0) {
    for (auto& [id, part] : staged_->parts) due_[id] = {lockstep_ ? order.version : 0, std::move(part.values)};
  }
  staged_.reset();
}

void PutDesk::on_lost(wire::Rank guest) {
  if (staged_ && staged_->guest == guest && staged_->missing > 0) staged_.reset();
}

bool PutDesk::on_commit(uint32_t block, int64_t version, std::span<float> values) {
  const auto due = due_.find(block);
  if (due == due_.end() || version < due->second.version) return false;
  std::memcpy(values.data(), due->second.values.data(), values.size_bytes());
  due_.erase(due);
  return true;
}

}  // namespace dtrain::watch
