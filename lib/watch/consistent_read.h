// The guest's half of reading tensors from all shard servers at one version, though each of them goes on meanwhile. It
// asks where all stand, and reads the lowest of these versions: servers keep the one before their newest, so that this
// succeeds where steps are longer than a message takes. Where a version is gone it asks for one ahead, twice as far
// each time; servers answer when they come to it. A run that stands still would never come to it: so it asks again
// where all stand, now and then.
//
// State machine without I/O; servers are numbered from 0. Memory: the tensors that are read.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "proto-free-wire/message.h"
#include "tensor/buffer.h"

namespace dtrain::watch {

class ConsistentRead {
 public:
  using Send = std::function<void(size_t server, wire::Message message)>;
  struct Wanted {
    uint32_t tensor = 0;
    std::string name;
    int64_t elements = 0;
  };
  struct Options {
    std::vector<Wanted> wanted;
    size_t servers = 0;
    bool gradient = false;
    std::optional<int64_t> version;  // this one and no other; of a gradient the step. Nothing: whichever can be had
  };

  // Sends the first questions.
  ConsistentRead(Options options, Send send, Instant now);

  // What a server says; an error ends the reading, and is for the user.
  Status on_message(size_t server, const wire::Message& message, ByteSpan payload, Instant now);
  // Often.
  void on_tick(Instant now);

  bool done() const { return done_; }
  // Of all values; −1 where blocks have versions of their own. REQUIRES done().
  int64_t version() const { return target_; }
  // In the order of what was wanted. REQUIRES done().
  std::span<const float> values(size_t i) const { return values_[i].as<const float>(); }
  // For who gives up: "it stands at version 12".
  std::string situation() const;

 private:
  enum class Phase { kStanding, kReading };
  struct Server {
    std::optional<wire::Standing> standing;
    std::optional<wire::ReadDone> done;
    int64_t received = 0;  // elements
  };

  void ask_standing(Instant now);
  Status choose(Instant now);
  void read(int64_t version, Instant now);
  Status on(size_t server, const wire::TensorChunk& chunk, ByteSpan payload);
  Status on(size_t server, const wire::ReadDone& done, Instant now);
  Status look_if_complete();
  int64_t lowest() const;
  int64_t highest() const;

  const Options options_;
  const Send send_;
  std::vector<Server> servers_;
  std::vector<Buffer> values_;
  std::vector<int64_t> filled_;  // elements, by tensor
  uint32_t request_ = 0;         // of the read under way
  uint32_t standing_request_ = 0;
  int64_t target_ = -1;
  int64_t ahead_ = 0;           // versions beyond the highest; 0: the lowest of all
  int64_t stood_at_ = -1;       // the lowest, when it was last asked
  bool looking_again_ = false;  // asks where all stand while a read is under way
  Phase phase_ = Phase::kStanding;
  Instant asked_at_ = 0;
  bool done_ = false;
};

}  // namespace dtrain::watch
