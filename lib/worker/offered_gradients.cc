#include "worker/offered_gradients.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"

namespace dtrain::worker {

void OfferedGradients::offer(const Work& work, int64_t step, const ps::Node& node, uint32_t id, const float* values,
                             std::shared_ptr<const void> owner) {
  const auto [at, fresh] = offers_.try_emplace({step, node, id}, Offered{work, values, owner});
  if (!fresh) {
    DTRAIN_CHECK(at->second.work == work, "block {} of step {} is offered by two works", id, step);
    at->second.values = values;
    at->second.owner = std::move(owner);
    return;
  }
  ++open_[work];
  const ps::Block& block = table_.block(id);
  if (block.pushed()) {
    send_chunks(at->first, at->second, block.all_chunks());
  } else {
    outbox_.send(server_ranks_[block.server],
                 wire::Offer{.step = step, .block = id, .first = node.first, .last = node.last});
  }
}

Status OfferedGradients::check(wire::Rank from, uint32_t block, const char* message) const {
  if (block < table_.blocks().size() && server_ranks_[table_.block(block).server] == from) return {};
  return fail(ExitCode::kBug,
              fmt::format("task {} sent {} for block {}, which it does not hold", from, message, block));
}

Status OfferedGradients::on(wire::Rank from, const wire::Take& m) {
  DTRAIN_TRY(check(from, m.block, "a take"));
  if (m.chunks & ~table_.block(m.block).all_chunks())
    return fail(ExitCode::kBug, fmt::format("task {} takes chunks of block {} that do not exist", from, m.block));
  const auto offer = offers_.find({m.step, {m.first, m.last}, m.block});
  if (offer != offers_.end()) send_chunks(offer->first, offer->second, m.chunks);
  return {};
}

Result<std::optional<Work>> OfferedGradients::on(wire::Rank from, const wire::Absorbed& m) {
  DTRAIN_TRY(check(from, m.block, "absorbed"));
  const auto offer = offers_.find({m.step, {m.first, m.last}, m.block});
  if (offer == offers_.end()) return std::optional<Work>();
  const Work work = offer->second.work;
  offers_.erase(offer);
  const auto open = open_.find(work);
  if (--open->second == 0) open_.erase(open);
  return std::optional<Work>(work);
}

size_t OfferedGradients::unanswered(const Work& work) const {
  const auto open = open_.find(work);
  return open == open_.end() ? 0 : open->second;
}

size_t OfferedGradients::open_works(int64_t step) const {
  return static_cast<size_t>(std::ranges::count_if(open_, [&](const auto& open) { return open.first.step >= step; }));
}

std::shared_ptr<const Buffer> OfferedGradients::encoded(const Key& key, Offered& offered, uint32_t chunk,
                                                        std::span<const float> values) {
  offered.encoded.resize(table_.block(key.block).chunks());
  std::shared_ptr<const Buffer>& encoded = offered.encoded[chunk];
  if (!encoded) {
    const compress::EncodeContext context{.step = offered.work.step,
                                          .run_steps = compression_.run_steps,
                                          .epoch_steps = compression_.epoch_steps,
                                          .micro_batches = compression_.micro_batches,
                                          .summed = key.node.size(),
                                          .samples = compression_.samples};
    encoded = compressor_.encode(context, key.step, size_t{key.block} * kBlockChunks + chunk, values);
  }
  return encoded;
}

void OfferedGradients::send_chunks(const Key& key, Offered& offered, uint32_t chunks) {
  const ps::Block& block = table_.block(key.block);
  for (uint32_t chunk = 0; chunk < block.chunks(); ++chunk) {
    if (!(chunks >> chunk & 1)) continue;
    const std::span<const float> values(offered.values + chunk * ps::kChunkElements,
                                        static_cast<size_t>(block.chunk_elements(chunk)));
    wire::NodeChunk message{
        .step = key.step, .block = key.block, .first = key.node.first, .last = key.node.last, .chunk = chunk};
    if (compression_.method && block.kind == ParameterKind::kTrainable) {
      const auto bytes = encoded(key, offered, chunk, values);
      message.codec = static_cast<uint8_t>(compressor_.codec());
      outbox_.send(server_ranks_[block.server], message, {{bytes->data(), bytes->size()}, bytes});
    } else {
      outbox_.send(server_ranks_[block.server], message, {std::as_bytes(values), offered.owner});
    }
  }
}

}  // namespace dtrain::worker
