// What a shard server keeps of one of its blocks.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <vector>

#include "proto-free-wire/message.h"
#include "ps/block_table.h"
#include "ps/partial_sum.h"
#include "tensor/buffer.h"

namespace dtrain::ps {

struct OfferKey {
  int64_t step = 0;
  Node node;
  wire::Rank from = 0;
  auto operator<=>(const OfferKey&) const = default;
};

// Bit i is of chunk i.
struct BlockOffer {
  uint32_t asked = 0;       // was asked for and has not come
  uint32_t taken = 0;       // has come
  uint32_t counted = 0;     // of those asked for: has room in the pool,
  uint32_t in_reserve = 0;  // or in the reserve; the others need none
};
using Offers = std::map<OfferKey, BlockOffer>;

struct ParkedPull {
  wire::Rank from = 0;
  int64_t version = 0;
  int64_t held = -1;
};

struct BlockChunk {
  std::unique_ptr<PartialSum> sum;
  uint32_t promised = 0;  // nodes under way that have room in the pool
  size_t reserved = 0;    // bytes of the pool that its partial sums may come to need
  uint32_t measured = 0;  // rounds of norms that it has had its part in
  bool applied = false;
};

// One block's sums of one step.
struct StepSum {
  std::vector<BlockChunk> chunks;
  Buffer root;         // the whole block's root, where it has to wait; allocated when first needed
  uint32_t roots = 0;  // chunks that are complete
};

struct BlockState {
  BlockState() = default;
  BlockState(BlockState&&) = default;

  uint32_t id = 0;
  Block block;
  uint32_t squares_at = 0;  // of its first chunk among this server's trainable chunks

  int64_t version = -1;
  // The newest version, the one before while it is kept, and the one in the making, which takes that one's place. A
  // buffer that is still being sent is not written: a fresh one is made. In place all three are empty.
  std::shared_ptr<Buffer> newest, older, next;
  float* in_place = nullptr;
  // Where pulls are compressed: the values that the versions come near to, and, by chunk, what made the newest version
  // of the one before, and what makes the next. Otherwise empty.
  Buffer exact;
  std::vector<std::shared_ptr<const Buffer>> updates, next_updates;
  std::vector<Buffer> slots;
  std::vector<Buffer> kept;  // vectors of full-batch optimizers, from optim::kFirstKept on
  bool loaded = false;

  std::vector<StepSum> steps;  // of the step that makes the next version, and of those that workers may be ahead
  uint32_t applied = 0;        // chunks of the next version
  Offers waiting, offers;      // unanswered: those of which something is still to be asked for, and the others
  std::deque<OfferKey> queue;  // without lockstep: those that wait, in the order of their coming
  std::map<wire::Rank, int64_t> pushes;  // without lockstep: unanswered offers of each peer
  std::vector<ParkedPull> parked;        // at most one a peer, in the order of their coming
  std::vector<bool> parks;               // by rank: it has one; as long as the highest that ever had
  // What each peer was sent last, where delays are compensated.
  std::map<wire::Rank, std::shared_ptr<Buffer>> read;

  StepSum& front() { return steps.front(); }
  const StepSum& front() const { return steps.front(); }
  bool frozen() const { return block.frozen(); }  // `newest` is its every version, `version` means nothing
  bool trainable() const { return block.kind == ParameterKind::kTrainable; }
  size_t elements() const { return static_cast<size_t>(block.elements); }
  size_t chunk_first(uint32_t chunk) const { return static_cast<size_t>(chunk) * kChunkElements; }
  size_t chunk_elements(uint32_t chunk) const { return static_cast<size_t>(block.chunk_elements(chunk)); }
  const float* values() const { return in_place ? in_place : newest->as<const float>().data(); }
  const float* exact_values() const { return exact.size() > 0 ? exact.as<float>().data() : values(); }
};

}  // namespace dtrain::ps
