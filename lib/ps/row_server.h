// The part of a shard server that keeps rows of sparse tables: pulls of rows are answered or wait, pushes are summed
// along the tree. A state machine without I/O, which ShardServer asks whether a step's sum is complete and tells when
// it may be applied: rows and blocks go from version to version together. Not thread-safe.
//
// Every worker pulls from and pushes to every server in every micro-batch, if only nothing: so a root of step t, of
// blocks or of rows, proves that all rows of all servers were at version t (V1 of lib/ARCHITECTURE.md).
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "base/result.h"
#include "proto-free-wire/message.h"
#include "ps/row_store.h"
#include "ps/row_sum.h"

namespace dtrain::ps {

class RowServer {
 public:
  // What is referred to outlives it.
  RowServer(const RowSpace& space, uint32_t server, uint32_t micro_batches, const optim::Optimizer& optimizer,
            InitialValues initial, wire::Outbox& outbox);

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
  // Of pulls that wait: no honest worker has more parts of a round.
  static constexpr size_t kMostParked = 16'384;

  std::string wrong_with(std::span<const uint64_t> rows) const;
  void answer(wire::Rank to, const wire::RowPull& pull);

  const RowSpace& space_;
  const uint32_t server_, micro_batches_;
  const optim::Optimizer& optimizer_;
  wire::Outbox& outbox_;
  RowStore store_;
  RowSum sum_;
  std::map<std::pair<wire::Rank, uint32_t>, Arriving> arriving_;  // by micro-batch, of step version()
  std::deque<Parked> parked_;
};

}  // namespace dtrain::ps
