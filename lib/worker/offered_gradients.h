// The gradients that a worker has handed in and that servers have not answered yet: offered, taken chunk by chunk,
// absorbed. Values are not copied: their owner is held until the answer, and in every message under way. Compressed, a
// chunk is encoded when it is first taken, since then it counts as sent, and its bytes are kept like the values. One
// thread.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "base/result.h"
#include "compress/compressor.h"
#include "proto-free-wire/message.h"
#include "ps/block_table.h"
#include "worker/work.h"

namespace dtrain::worker {

// How gradients travel.
struct Compression {
  std::shared_ptr<const compress::Method> method;  // null: as they are
  uint32_t micro_batches = 1;                      // K
  double samples = 1;                              // of a micro-batch
  int64_t run_steps = 0, epoch_steps = 0;
};

class OfferedGradients {
 public:
  // The table and the outbox outlive it.
  OfferedGradients(const ps::BlockTable& table, std::vector<wire::Rank> server_ranks, wire::Outbox& outbox,
                   Compression compression = {})
      : table_(table),
        server_ranks_(std::move(server_ranks)),
        outbox_(outbox),
        compression_(compression),
        compressor_(compression.method) {}

  // One block's part of a sum: `values` are all its elements. `step` and `node` are what the servers are told. Of a
  // work that was left and is computed again some may be unanswered: these values take the place of those, and the
  // server, which knows the offer, is told nothing.
  void offer(const Work& work, int64_t step, const ps::Node& node, uint32_t block, const float* values,
             std::shared_ptr<const void> owner);

  // Errors: the server does not hold the block, or the chunks do not exist.
  Status on(wire::Rank from, const wire::Take& m);
  // The work that the answered offer belonged to; nothing where it was not known.
  Result<std::optional<Work>> on(wire::Rank from, const wire::Absorbed& m);

  // How many blocks of this work wait for their answer.
  size_t unanswered(const Work& work) const;
  // How many works of this step or later ones have blocks that do.
  size_t open_works(int64_t step) const;

 private:
  struct Key {
    int64_t step = 0;
    ps::Node node;
    uint32_t block = 0;
    auto operator<=>(const Key&) const = default;
  };
  struct Offered {
    Work work;
    const float* values = nullptr;
    std::shared_ptr<const void> owner;
    std::vector<std::shared_ptr<const Buffer>> encoded = {};  // by chunk, once taken
  };
  Status check(wire::Rank from, uint32_t block, const char* message) const;
  void send_chunks(const Key& key, Offered& offered, uint32_t chunks);
  std::shared_ptr<const Buffer> encoded(const Key& key, Offered& offered, uint32_t chunk,
                                        std::span<const float> values);

  const ps::BlockTable& table_;
  const std::vector<wire::Rank> server_ranks_;
  wire::Outbox& outbox_;
  const Compression compression_;
  compress::Compressor compressor_;
  std::map<Key, Offered> offers_;
  std::map<Work, size_t> open_;
};

}  // namespace dtrain::worker
