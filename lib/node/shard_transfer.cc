#include "node/shard_transfer.h"

#include <algorithm>

#include "ps/block_table.h"

namespace dtrain::node {

void send_shard(wire::Outbox& outbox, wire::Rank to, int64_t version, const std::shared_ptr<const std::string>& file) {
  constexpr size_t kPart = static_cast<size_t>(ps::kChunkElements) * sizeof(float);
  const ByteSpan all = std::as_bytes(std::span(file->data(), file->size()));
  for (size_t at = 0; at < all.size(); at += kPart)
    outbox.send(to, wire::ShardPart{version, at, all.size()},
                {all.subspan(at, std::min(kPart, all.size() - at)), file});
}

Result<std::optional<std::string>> ShardInbox::add(wire::Rank from, const wire::ShardPart& part, ByteSpan payload,
                                                   uint64_t most) {
  if (const auto last = whole_.find(from); last != whole_.end() && last->second == part.version)
    return fail(ExitCode::kPeerLost, "sends a shard twice");
  if (part.offset == 0) arriving_[from] = {part.version, part.total, {}};
  const auto at = arriving_.find(from);
  const bool fits = at != arriving_.end() && part.version == at->second.version && part.total == at->second.total &&
                    part.total > 0 && part.total <= most && part.offset == at->second.bytes.size() &&
                    !payload.empty() && payload.size() <= part.total - part.offset;
  if (!fits) {
    if (at != arriving_.end()) arriving_.erase(at);
    return fail(ExitCode::kPeerLost, "sends a shard in parts that do not fit together");
  }
  std::string& bytes = at->second.bytes;
  bytes.append(reinterpret_cast<const char*>(payload.data()), payload.size());
  if (bytes.size() < part.total) return std::optional<std::string>();
  std::optional<std::string> whole = std::move(bytes);
  arriving_.erase(at);
  whole_[from] = part.version;
  return whole;
}

}  // namespace dtrain::node
