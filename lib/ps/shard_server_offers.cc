// Offers: which are taken, and when they are answered.
#include <algorithm>
#include <cstring>

#include "ps/shard_server.h"

namespace dtrain::ps {

BlockOffer* ShardServer::find_offer(BlockState& b, wire::Rank from, int64_t step, const Node& node) {
  const auto at = std::find_if(b.offers.begin(), b.offers.end(),
                               [&](const BlockOffer& o) { return o.from == from && o.step == step && o.node == node; });
  return at == b.offers.end() ? nullptr : &*at;
}

bool ShardServer::known(const BlockState& b, int64_t step, const Node& node) const {
  if (late(b, step)) return true;
  if (!lockstep()) return false;  // every push is another one
  const std::vector<BlockChunk>& chunks = sum_of(b, step).chunks;
  return std::all_of(chunks.begin(), chunks.end(), [&](const BlockChunk& c) { return c.sum->covers(node); });
}

void ShardServer::absorbed(wire::Rank to, int64_t step, const BlockState& b, const Node& node, bool dropped) {
  outbox_.send(to, wire::Absorbed{step, b.id, node.first, node.last, b.version, dropped});
}

// Answers the offers of which all is known. What was asked for is awaited first, though it will be dropped: the answer
// lets the worker write that memory again.
void ShardServer::settle(BlockState& b) {
  std::erase_if(b.offers, [&](const BlockOffer& offer) {
    const bool all = offer.taken == b.block.all_chunks();
    if (offer.asked != 0 || !(all || known(b, offer.step, offer.node))) return false;
    absorbed(offer.from, offer.step, b, offer.node, !all && late(b, offer.step));
    return true;
  });
}

size_t ShardServer::reserve_bytes(const BlockState& b, int64_t step, uint32_t chunk, const Node* extra) const {
  if (b.block.pushed() || pushes_ == 1) return 0;
  std::vector<Node> promised;
  for (const BlockOffer& offer : b.offers)
    if (offer.step == step && (offer.asked & (1u << chunk))) promised.push_back(offer.node);
  if (extra) promised.push_back(*extra);
  return sum_of(b, step).chunks[chunk].sum->need(promised) * b.chunk_elements(chunk) * sizeof(float);
}

void ShardServer::account(BlockState& b, int64_t step, uint32_t chunk) {
  if (pushes_ == 1 || step < b.version) return;
  const size_t bytes = reserve_bytes(b, step, chunk, nullptr);
  size_t& reserved = sum_of(b, step).chunks[chunk].reserved;
  admission_.set_used(reserved, bytes);
  reserved = bytes;
}

// The place of the first block whose sums are not complete and need the pool; blocks_.size() if there is none.
size_t ShardServer::first_unfinished() {
  while (first_unfinished_ < blocks_.size()) {
    const BlockState& b = blocks_[first_unfinished_];
    if (!b.frozen() && !b.block.pushed() && b.version == step_ && b.front().roots < b.block.chunks()) break;
    ++first_unfinished_;
  }
  return first_unfinished_;
}

// Without lockstep a block takes one push at a time, so that all its chunks have had the same ones.
bool ShardServer::held_by_another(const BlockState& b, const BlockOffer& offer) const {
  return !lockstep() && (b.applied > 0 || std::any_of(b.offers.begin(), b.offers.end(), [&](const BlockOffer& other) {
                           return &other != &offer && other.asked != 0;
                         }));
}

// Asks for what is missing of an offered node, as far as there is room. Returns whether nothing is left to ask for.
// `only_free`: only what needs no further memory.
bool ShardServer::take(BlockState& b, BlockOffer& offer, bool only_free) {
  if (late(b, offer.step) || offer.asked == b.block.all_chunks()) return true;
  if (!lockstep() && rates_.empty()) return false;
  if (held_by_another(b, offer)) return offer.asked != 0 || offer.taken != 0;
  const bool first = place_[b.id] == first_unfinished() && offer.step == step_;
  std::vector<BlockChunk>& chunks = sum_of(b, offer.step).chunks;
  uint32_t mask = 0;
  bool all = true;
  for (uint32_t c = 0; c < b.block.chunks(); ++c) {
    BlockChunk& chunk = chunks[c];
    const uint32_t bit = 1u << c;
    if ((offer.asked & bit) || chunk.sum->covers(offer.node)) continue;
    const size_t bytes = reserve_bytes(b, offer.step, c, &offer.node);
    const size_t more = bytes > chunk.reserved ? bytes - chunk.reserved : 0;
    const bool next = first && offer.node.first <= chunk.sum->prefix();
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

// A push that ends in the middle of a block: what has not come of it is zero.
void ShardServer::abandon(BlockState& b) {
  for (uint32_t c = 0; c < b.block.chunks(); ++c) {
    if (b.front().chunks[c].applied) continue;
    float* const to = next_values(b) + b.chunk_first(c);
    const float* const from = b.values() + b.chunk_first(c);
    if (to != from) std::memcpy(to, from, b.chunk_elements(c) * sizeof(float));
  }
  commit(b);
}

void ShardServer::peer_lost(wire::Rank peer) {
  for (BlockState& b : blocks_) {
    b.read.erase(peer);
    std::erase_if(b.parked, [&](const ParkedPull& p) { return p.from == peer; });
    const size_t erased = std::erase_if(b.offers, [&](const BlockOffer& o) { return o.from == peer; });
    if (erased == 0 || !started_ || b.frozen()) continue;
    if (!lockstep()) {
      // A push that is being taken by somebody else holds the block; else it was this peer's.
      const bool held = std::any_of(b.offers.begin(), b.offers.end(), [](const BlockOffer& o) { return o.asked != 0; });
      if (b.applied > 0 && !held) abandon(b);
      continue;
    }
    for (size_t i = 0; i < b.steps.size(); ++i)
      for (uint32_t c = 0; c < b.block.chunks(); ++c) account(b, b.version + static_cast<int64_t>(i) * stride(), c);
  }
  take_waiting(nullptr);
}

}  // namespace dtrain::ps
