// The part of a shard server that keeps rows of sparse tables: pulls of rows are answered or wait, pushes are summed
// along the tree. A state machine without I/O, which ShardServer asks whether a step's sum is complete and tells when
// it may be applied: rows and blocks go from version to version together. Not thread-safe.
//
// Every worker pulls from and pushes to every server in every micro-batch, if only nothing: so a root of step t, of
// blocks or of rows, proves that all rows of all servers were at version t (V1 of lib/ARCHITECTURE.md).
#pragma once

#include <atomic>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "base/result.h"
#include "proto-free-wire/message.h"
#include "ps/row_store.h"
#include "ps/row_sum.h"

namespace dtrain::ps {

class RowServer {
 public:
  // What is referred to outlives it. `most_rows`: that a micro-batch can use, of all tables together.
  RowServer(const RowSpace& space, uint32_t server, uint32_t micro_batches, uint64_t most_rows,
            const optim::Optimizer& optimizer, InitialValues initial, wire::Outbox& outbox);

  RowStore& store() { return store_; }
  const RowStore& store() const { return store_; }
  // All rows stand at `version`; what belonged to a step under way is forgotten.
  void start(int64_t version);

  // An error says how the sender breaks the protocol; the state is as before.
  Result<void> on(wire::Rank from, const wire::RowPull& m);
  Result<void> on(wire::Rank from, const wire::RowPush& m, ByteSpan payload);
  void peer_lost(wire::Rank peer);

  int64_t version() const { return store_.version(); }
  // All micro-batches of step version() are there.
  bool complete() const { return sum_.complete(); }
  // Makes the next version. REQUIRES complete(). An answer says why it could not be made.
  std::optional<RowStore::NotFinite> commit(const RowStore::ContextOf& context);

 private:
  // The parts that have come of one sender's micro-batch, until the last one has.
  struct Arriving {
    uint32_t parts = 0, next = 0;
    RowList rows;
  };
  struct Parked {
    wire::Rank from = 0;
    wire::RowPull pull;
  };
  // What waits of one peer: parts of its newest round.
  struct Waiting {
    uint64_t round = 0;
    size_t rows = 0;
    std::set<uint32_t> parts;
  };
  // No honest worker has more parts of a round, or parts of so many micro-batches on their way.
  static constexpr size_t kMostParts = 16'384, kMostArriving = 2;
  // Bytes of answers that a peer need not have read: of so many micro-batches, and this.
  static constexpr size_t kMostAnswers = 16, kAnswersAtLeast = size_t{64} << 20;

  std::string wrong_with(std::span<const uint64_t> rows) const;
  Result<void> park(wire::Rank from, const wire::RowPull& m);
  void answer(wire::Rank to, const wire::RowPull& pull);

  const RowSpace& space_;
  const uint32_t server_, micro_batches_;
  const uint64_t most_rows_;   // of a micro-batch
  const size_t most_answers_;  // bytes
  const optim::Optimizer& optimizer_;
  wire::Outbox& outbox_;
  RowStore store_;
  RowSum sum_;
  std::map<std::pair<wire::Rank, uint32_t>, Arriving> arriving_;  // by micro-batch, of step version()
  std::deque<Parked> parked_;
  std::map<wire::Rank, Waiting> waiting_;  // of parked_
  // Bytes of answers to each peer that are on their way. Who holds one may outlive this.
  std::map<wire::Rank, std::shared_ptr<std::atomic<size_t>>> unread_;
};

}  // namespace dtrain::ps
