// A worker's rows of sparse tables: asked of all servers for one micro-batch at a time, put where the compute side
// wants them, and its gradients of them on their way back. Part of the worker's protocol: messages in, messages out.
// One thread.
//
// Every server is asked and is given something in every micro-batch, if only nothing: so that a gradient proves that
// the rows of all servers had its version (ps/row_server.h).
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/result.h"
#include "proto-free-wire/message.h"
#include "ps/row_space.h"
#include "worker/work.h"

namespace dtrain::worker {

class RowExchange {
 public:
  // Space and outbox outlive it.
  RowExchange(const ps::RowSpace& space, std::vector<wire::Rank> server_ranks, wire::Outbox& outbox)
      : space_(space), server_ranks_(std::move(server_ranks)), outbox_(outbox) {}

  // Asks for ascending rows at a version; what was asked for before is of no use any more. `into` has memory for each
  // table's rows, one behind the other, which is written until all has arrived or forget().
  void pull(int64_t version, std::span<const uint64_t> rows, std::span<float* const> into);
  void forget() { pulled_ = {}; }
  // Whether everything has come that was asked for last.
  bool arrived() const { return pulled_.missing == 0; }

  // Gives all servers the gradient of one micro-batch: `gradients` as `into` above. The values are copied.
  void push(const Work& work, uint32_t micro_batch, std::span<const uint64_t> rows,
            std::span<const float* const> gradients);
  // Of this work, the answers of servers that have not come.
  size_t unanswered(const Work& work) const;
  size_t unanswered() const { return pushed_.size(); }

  // Errors: the peer answers what nobody asked.
  Status on(wire::Rank from, const wire::Rows& m, ByteSpan payload);
  // The newest version there is, where a pull under way is gone.
  Result<std::optional<int64_t>> on(wire::Rank from, const wire::RowsGone& m);
  // The work that the answer is for.
  Result<std::optional<Work>> on(wire::Rank from, const wire::RowsTaken& m);

 private:
  struct Part {
    wire::Rank from = 0;
    std::vector<std::pair<float*, uint32_t>> runs;  // where to, and how many elements
    size_t elements = 0;
    bool missing = true;
  };
  struct Pulled {
    int64_t version = -1;
    std::vector<Part> parts;
    size_t missing = 0;
  };
  struct Pushed {
    wire::Rank to = 0;
    uint32_t micro_batch = 0;
    Work work;
  };
  Status check_server(wire::Rank from) const;
  // Of each server, by index, its rows and where the values of each lie in `memory`.
  template <typename T>
  struct Share {
    std::vector<uint64_t> rows;
    std::vector<T*> places;
  };
  template <typename T>
  std::vector<Share<T>> shares(std::span<const uint64_t> rows, std::span<T* const> memory) const;

  const ps::RowSpace& space_;
  const std::vector<wire::Rank> server_ranks_;
  wire::Outbox& outbox_;
  uint64_t round_ = 0;
  Pulled pulled_;
  std::deque<Pushed> pushed_;  // unanswered, in the order sent
};

}  // namespace dtrain::worker
