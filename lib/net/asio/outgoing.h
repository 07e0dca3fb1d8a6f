// What waits to be written on one connection, and what the other side of it may be reading.
//
// Control messages are encoded at once into one buffer. Tensors wait as what they are, those of the front of the
// network before those of the back, equals in the order of their coming. A batch is what one write gathers: all control
// there is, then tensors up to one chunk, from where they lie; a payload's checksum is computed just before it is
// written, so that the kernel's copy finds it in the cache.
//
// On one host a tensor that lies in shared memory is not written: a reference to it is, once the other side has mapped
// its region. It is lent until the other side says that it was read, and so much is lent at most that control written
// behind it does not wait long. Nothing is allocated in steady state.
#pragma once

#include <sys/uio.h>

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/result.h"
#include "proto-free-wire/frame.h"
#include "tensor/shared_memory.h"

namespace dtrain::net {

class Outgoing {
 public:
  // From now on references may be written. Null: never.
  void share(std::shared_ptr<SharedMemory> memory) { memory_ = std::move(memory); }

  void add(wire::Message message, wire::Payload payload);

  // Makes the next batch; false where there is nothing that may be written now. REQUIRES that pieces() is empty.
  bool prepare();
  // What is left of the batch, and the descriptors that go with its first byte.
  std::span<iovec> pieces() { return std::span(pieces_).subspan(piece_); }
  const std::vector<int>& descriptors() const { return descriptors_; }
  void written(size_t bytes);

  // What the other side says about memory. An error: it cannot be so.
  Status on(const wire::MemoryShared& m);
  Status on(const wire::MemoryRead& m);

  // Drops all that was not written; what is lent stays.
  void drop();
  // The other side reads no more.
  void take_back() { lent_.clear(); }
  bool lent() const { return !lent_.empty(); }

  size_t control_bytes() const { return control_.size(); }
  size_t tensor_bytes() const { return tensor_bytes_; }
  size_t queued_bytes() const { return control_.size() + tensor_bytes_ + batch_bytes_; }

 private:
  struct Tensor {
    wire::Message message;
    wire::Payload payload;
  };
  // A place in the queue of tensors: a heap, so that the next one is found without moving the tensors.
  struct Turn {
    uint32_t priority = 0;
    uint32_t slot = 0;  // in tensors_
    uint64_t number = 0;
    bool operator<(const Turn& other) const {  // the heap's top is the largest
      return priority != other.priority ? priority > other.priority : number > other.number;
    }
  };
  struct Known {
    std::weak_ptr<const SharedMemory::Region> region;
    uint32_t id = 0;
    enum class State : uint8_t { kAsked, kMapped, kRefused } state = State::kAsked;
  };
  // First in, first out, in one piece of memory.
  class Lent {
   public:
    void push(std::shared_ptr<const void> owner, size_t bytes);
    bool pop();
    void clear();
    bool empty() const { return count_ == 0; }
    size_t count() const { return count_; }
    size_t bytes() const { return bytes_; }

   private:
    struct Loan {
      std::shared_ptr<const void> owner;
      size_t bytes = 0;
    };
    std::vector<Loan> ring_;
    size_t first_ = 0, count_ = 0, bytes_ = 0;
  };

  std::optional<wire::MemoryReference> refer(ByteSpan payload);
  void forget_retired();

  std::shared_ptr<SharedMemory> memory_;
  std::vector<Known> known_;  // regions that the other side was told of, by id
  uint64_t retired_ = 0;
  std::vector<std::shared_ptr<const SharedMemory::Region>> announced_;  // their descriptors go with the next batch

  std::vector<std::byte> control_;  // encoded frames
  std::vector<Tensor> tensors_;     // slots
  std::vector<uint32_t> free_;      // of these
  std::vector<Turn> turns_;
  uint64_t numbers_ = 0;
  size_t tensor_bytes_ = 0;

  // The batch.
  std::vector<std::byte> heads_;
  std::vector<size_t> ends_;             // of the heads that a payload follows
  std::vector<wire::Payload> payloads_;  // one for each of these
  std::vector<iovec> pieces_;
  size_t piece_ = 0;
  size_t batch_bytes_ = 0;
  std::vector<std::shared_ptr<const SharedMemory::Region>> with_batch_;
  std::vector<int> descriptors_;

  Lent lent_;
};

}  // namespace dtrain::net
