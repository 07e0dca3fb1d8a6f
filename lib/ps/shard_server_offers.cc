// Offers: which are taken, and when they are answered.
#include <algorithm>

#include "ps/shard_server.h"

namespace dtrain::ps {

BlockOffer* ShardServer::find_offer(BlockState& b, wire::Rank from, int64_t step, const Node& node) {
  const auto at = std::find_if(b.offers.begin(), b.offers.end(),
                               [&](const BlockOffer& o) { return o.from == from && o.step == step && o.node == node; });
  return at == b.offers.end() ? nullptr : &*at;
}

bool ShardServer::known(const BlockState& b, int64_t step, const Node& node) const {
  return step < b.version ||
         std::all_of(b.chunks.begin(), b.chunks.end(), [&](const BlockChunk& c) { return c.sum.covers(node); });
}

void ShardServer::absorbed(wire::Rank to, int64_t step, const BlockState& b, const Node& node) {
  outbox_.send(to, wire::Absorbed{step, b.id, node.first, node.last});
}

// Answers the offers of which all is known. What was asked for is awaited first, though it will be dropped: the answer
// lets the worker write that memory again.
void ShardServer::settle(BlockState& b) {
  std::erase_if(b.offers, [&](const BlockOffer& offer) {
    if (offer.asked != 0 || !known(b, offer.step, offer.node)) return false;
    absorbed(offer.from, offer.step, b, offer.node);
    return true;
  });
}

size_t ShardServer::reserve_bytes(const BlockState& b, uint32_t chunk, const Node* extra) const {
  if (b.block.pushed() || options_.micro_batches == 1) return 0;
  std::vector<Node> promised;
  for (const BlockOffer& offer : b.offers)
    if (offer.step == b.version && (offer.asked & (1u << chunk))) promised.push_back(offer.node);
  if (extra) promised.push_back(*extra);
  return b.chunks[chunk].sum.need(promised, options_.micro_batches) * b.chunk_elements(chunk) * sizeof(float);
}

void ShardServer::account(BlockState& b, uint32_t chunk) {
  const size_t bytes = reserve_bytes(b, chunk, nullptr);
  admission_.set_used(b.chunks[chunk].reserved, bytes);
  b.chunks[chunk].reserved = bytes;
}

// The place of the first block whose sums are not complete and need the pool; blocks_.size() if there is none.
size_t ShardServer::first_unfinished() {
  while (first_unfinished_ < blocks_.size()) {
    const BlockState& b = blocks_[first_unfinished_];
    if (!b.frozen() && !b.block.pushed() && b.version == step_ && b.roots < b.block.chunks()) break;
    ++first_unfinished_;
  }
  return first_unfinished_;
}

// Asks for what is missing of an offered node, as far as there is room. Returns whether nothing is left to ask for.
// `only_free`: only what needs no further memory.
bool ShardServer::take(BlockState& b, BlockOffer& offer, bool only_free) {
  if (offer.step != b.version) return true;
  const bool first = place_[b.id] == first_unfinished();
  uint32_t mask = 0;
  bool all = true;
  for (uint32_t c = 0; c < b.block.chunks(); ++c) {
    BlockChunk& chunk = b.chunks[c];
    const uint32_t bit = 1u << c;
    if ((offer.asked & bit) || chunk.sum.covers(offer.node)) continue;
    const size_t bytes = reserve_bytes(b, c, &offer.node);
    const size_t more = bytes > chunk.reserved ? bytes - chunk.reserved : 0;
    const bool next = first && offer.node.first <= chunk.sum.prefix();
    if (more > 0 && (only_free || !admission_.admits(more, next))) {
      all = false;
      continue;
    }
    admission_.set_used(chunk.reserved, bytes);
    chunk.reserved = bytes;
    offer.asked |= bit;
    mask |= bit;
  }
  if (mask != 0) outbox_.send(offer.from, wire::Take{offer.step, b.id, offer.node.first, offer.node.last, mask});
  return all;
}

void ShardServer::take_waiting(const BlockState* only) {
  for (const bool only_free : {true, false}) {
    for (auto at = waiting_.begin(); at != waiting_.end();) {
      BlockState& b = blocks_[*at];
      bool all = true;
      if (only && only != &b) {
        ++at;
        continue;
      }
      for (BlockOffer& offer : b.offers) all &= take(b, offer, only_free);
      at = all ? waiting_.erase(at) : std::next(at);
    }
  }
}

void ShardServer::peer_lost(wire::Rank peer) {
  for (BlockState& b : blocks_) {
    std::erase_if(b.parked, [&](const ParkedPull& p) { return p.from == peer; });
    if (std::erase_if(b.offers, [&](const BlockOffer& o) { return o.from == peer; }) > 0)
      for (uint32_t c = 0; c < b.block.chunks(); ++c) account(b, c);
  }
  take_waiting(nullptr);
}

}  // namespace dtrain::ps
