// Offers: which are taken, and when they are answered. In lockstep, what a message costs here does not grow with the
// number of workers, but for a logarithm.
#include <algorithm>
#include <cstring>

#include "ps/chunk_sum.h"
#include "ps/shard_server.h"

namespace dtrain::ps {

bool ShardServer::known(const BlockState& b, int64_t step, const Node& node) const {
  if (late(b, step)) return true;
  if (!lockstep()) return false;  // every push is another one
  const std::vector<BlockChunk>& chunks = sum_of(b, step).chunks;
  return std::all_of(chunks.begin(), chunks.end(), [&](const BlockChunk& c) { return c.sum->covers(node); });
}

void ShardServer::absorbed(wire::Rank to, int64_t step, const BlockState& b, const Node& node, bool dropped) {
  outbox_.send(to, wire::Absorbed{step, b.id, node.first, node.last, b.version, dropped});
}

// Answers the offers of [first, last) of which all is known. What was asked for is awaited first, though it will be
// dropped: the answer lets the worker write that memory again.
void ShardServer::settle(BlockState& b, Offers& offers, Offers::iterator first, Offers::iterator last) {
  while (first != last) {
    const auto& [key, offer] = *first;
    const bool all = offer.taken == b.block.all_chunks();
    if (offer.asked != 0 || !(all || known(b, key.step, key.node))) {
      ++first;
      continue;
    }
    absorbed(key.from, key.step, b, key.node, !all && late(b, key.step));
    if (!lockstep()) --b.pushes[key.from];
    first = offers.erase(first);
  }
}

void ShardServer::settle_all(BlockState& b) {
  for (Offers* offers : {&b.waiting, &b.offers}) settle(b, *offers, offers->begin(), offers->end());
}

// When a chunk of a node has come: what may be known by that lies inside the node, or is an ancestor that is covered.
void ShardServer::settle_around(BlockState& b, int64_t step, uint32_t c, const Node& node) {
  for (Offers* offers : {&b.waiting, &b.offers}) {
    if (offers->empty()) continue;
    settle(b, *offers, offers->lower_bound({step, {node.first, 0}, 0}), offers->lower_bound({step, {node.last, 0}, 0}));
    if (late(b, step)) continue;
    const auto* sum = dynamic_cast<const ChunkSum*>(sum_of(b, step).chunks[c].sum.get());
    if (!sum || sum->complete()) continue;
    const Node held = sum->holder(node);
    for (Node up = node; up != held;) {
      up = parent(up, options_.micro_batches);
      if (up.first == node.first) continue;  // lies in the range above
      settle(b, *offers, offers->lower_bound({step, up, 0}), offers->upper_bound({step, up, UINT32_MAX}));
    }
  }
}

void ShardServer::account(BlockState& b, int64_t step, uint32_t c) {
  if (b.block.pushed() || pushes_ == 1 || late(b, step)) return;
  BlockChunk& chunk = sum_of(b, step).chunks[c];
  const size_t bytes = chunk.sum->need(chunk.promised) * b.chunk_elements(c) * sizeof(float);
  admission_.set_used(chunk.reserved, bytes);
  chunk.reserved = bytes;
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
  if (lockstep()) return false;
  const auto another = [&](const auto& entry) { return &entry.second != &offer && entry.second.asked != 0; };
  return b.applied > 0 || std::any_of(b.offers.begin(), b.offers.end(), another);
}

// Asks for what is missing of an offered node, as far as there is room. Returns whether nothing is left to ask for.
bool ShardServer::take(BlockState& b, const OfferKey& key, BlockOffer& offer) {
  if (late(b, key.step) || offer.asked == b.block.all_chunks()) return true;
  if (!lockstep() && rates_.empty()) return false;
  if (held_by_another(b, offer)) return offer.asked != 0 || offer.taken != 0;
  const bool first = place_[b.id] == first_unfinished() && key.step == step_;
  std::vector<BlockChunk>& chunks = sum_of(b, key.step).chunks;
  uint32_t mask = 0;
  bool all = true;
  for (uint32_t c = 0; c < b.block.chunks(); ++c) {
    BlockChunk& chunk = chunks[c];
    const uint32_t bit = 1u << c;
    if ((offer.asked & bit) || chunk.sum->covers(key.node)) continue;
    if (b.block.pushed() || pushes_ == 1 || chunk.sum->joins(key.node)) {
      // needs no sum of the pool
    } else if (first && key.node.first <= chunk.sum->prefix()) {
      offer.in_reserve |= bit;
    } else {
      const uint32_t more = chunk.sum->need(chunk.promised + 1) - chunk.sum->need(chunk.promised);
      if (more > 0 && !admission_.admits(more * b.chunk_elements(c) * sizeof(float))) {
        all = false;
        continue;
      }
      offer.counted |= bit;
      ++chunk.promised;
      account(b, key.step, c);
    }
    offer.asked |= bit;
    mask |= bit;
  }
  if (mask != 0) outbox_.send(key.from, wire::Take{key.step, b.id, key.node.first, key.node.last, mask});
  return all;
}

// Takes what it can of one that waits, and goes on to the next. It waits no more when all was asked for.
void ShardServer::take_waiting(BlockState& b, Offers::iterator& at) {
  const auto next = std::next(at);
  if (take(b, at->first, at->second)) b.offers.insert(b.waiting.extract(at));
  at = next;
  if (b.waiting.empty())
    waiting_.erase(place_[b.id]);
  else
    waiting_.insert(place_[b.id]);
}

// Without lockstep: the next push, in the order of their coming.
void ShardServer::take_queued(BlockState& b) {
  while (!b.queue.empty()) {
    auto at = b.waiting.find(b.queue.front());
    if (at != b.waiting.end()) {
      const size_t before = b.waiting.size();
      take_waiting(b, at);
      if (b.waiting.size() == before) return;  // another one is under way, or there is no rate
    }
    b.queue.pop_front();
  }
}

// What the reserve is for: the next nodes of the first unfinished block.
void ShardServer::take_next() {
  const size_t first = first_unfinished();
  if (first == blocks_.size()) return;
  BlockState& b = blocks_[first];
  uint32_t prefix = 0;
  for (const BlockChunk& chunk : b.front().chunks)
    if (!chunk.sum->complete()) prefix = std::max(prefix, chunk.sum->prefix());
  for (auto at = b.waiting.lower_bound({step_, {0, 0}, 0});
       at != b.waiting.end() && at->first.step == step_ && at->first.node.first <= prefix;)
    take_waiting(b, at);
}

// What needs no sum of its own, now that this one is there.
void ShardServer::take_joining(BlockState& b, int64_t step, uint32_t c, const Node& node) {
  const PartialSum& sum = *sum_of(b, step).chunks[c].sum;
  if (b.waiting.empty() || sum.complete()) return;
  OfferKey first{step, {0, 0}, 0}, last{step, {UINT32_MAX, 0}, 0};  // of sums in the order of arrival: whoever comes
  if (const auto* tree = dynamic_cast<const ChunkSum*>(&sum)) {
    const Node other = sibling(tree->holder(node), options_.micro_batches);
    first = {step, other, 0};
    last = {step, other, UINT32_MAX};
  }
  for (auto at = b.waiting.lower_bound(first); at != b.waiting.end() && at->first <= last;) take_waiting(b, at);
}

void ShardServer::take_while_room() {
  for (auto place = waiting_.begin(); place != waiting_.end();) {
    BlockState& b = blocks_[*place++];  // which may leave the set
    for (auto at = b.waiting.begin(); at != b.waiting.end();) {
      const size_t before = b.waiting.size();
      take_waiting(b, at);
      if (b.waiting.size() == before) return;  // no room
    }
  }
}

void ShardServer::take_all() {
  if (lockstep()) {
    take_next();
    take_while_room();
    return;
  }
  for (auto place = waiting_.begin(); place != waiting_.end();) take_queued(blocks_[*place++]);
}

// A push that ends in the middle of a block: what has not come of it is zero.
void ShardServer::abandon(BlockState& b) {
  for (uint32_t c = 0; c < b.block.chunks(); ++c) {
    if (b.front().chunks[c].applied) continue;
    float* const to = next_values(b) + b.chunk_first(c);
    const float* const from = b.values() + b.chunk_first(c);
    if (to != from && !options_.counts_only) std::memcpy(to, from, b.chunk_elements(c) * sizeof(float));
  }
  commit(b);
}

void ShardServer::peer_lost(wire::Rank peer) {
  if (rows_) rows_->peer_lost(peer);
  for (BlockState& b : blocks_) {
    b.read.erase(peer);
    b.pushes.erase(peer);
    if (peer < b.parks.size() && b.parks[peer]) {
      std::erase_if(b.parked, [&](const ParkedPull& p) { return p.from == peer; });
      b.parks[peer] = false;
    }
    size_t erased = 0;
    for (Offers* offers : {&b.waiting, &b.offers})
      erased += std::erase_if(*offers, [&](const auto& entry) {
        const auto& [key, offer] = entry;
        if (key.from != peer) return false;
        if (lockstep() && !late(b, key.step))
          for (uint32_t c = 0; c < b.block.chunks(); ++c)
            if (offer.asked & offer.counted & (1u << c)) --sum_of(b, key.step).chunks[c].promised;
        return true;
      });
    if (erased == 0 || !started_ || b.frozen()) continue;
    if (b.waiting.empty()) waiting_.erase(place_[b.id]);
    if (!lockstep()) {
      // A push that is being taken by somebody else holds the block; else it was this peer's.
      const auto asked = [](const auto& entry) { return entry.second.asked != 0; };
      if (b.applied > 0 && !std::any_of(b.offers.begin(), b.offers.end(), asked)) abandon(b);
      settle_all(b);  // others may be too late now
      if (b.waiting.empty()) waiting_.erase(place_[b.id]);
      continue;
    }
    for (size_t i = 0; i < b.steps.size(); ++i)
      for (uint32_t c = 0; c < b.block.chunks(); ++c) account(b, b.version + static_cast<int64_t>(i) * stride(), c);
  }
  take_all();
}

}  // namespace dtrain::ps
