// Memory that other processes of this host may read too: what is sent to them from there need not be copied.
//
// It lies in regions. A region is a file in memory (memfd) that is mapped here for writing and then sealed: it never
// changes its size, so that whoever maps it cannot fault, and nobody can map it for writing any more. A large buffer
// has a region of its own, smaller ones share regions; an empty region goes back to the system. Thread-safe. Buffers
// keep what they lie in alive.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>

#include "base/bytes.h"
#include "base/result.h"

namespace dtrain {

class SharedMemory {
 public:
  static constexpr size_t kSmallest = 16u << 10;   // what is smaller is copied as fast as it is referred to
  static constexpr size_t kOwnRegion = 16u << 20;  // from here on a buffer has a region of its own
  static constexpr size_t kRegion = 64u << 20;     // of a region that buffers share; untouched memory costs nothing

  struct Region {
    Region(uint32_t id_in, int fd_in, std::byte* data_in, size_t bytes_in)
        : id(id_in), fd(fd_in), data(data_in), bytes(bytes_in) {}
    ~Region();
    Region(const Region&) = delete;
    Region& operator=(const Region&) = delete;

    const uint32_t id;  // never used again
    const int fd;
    std::byte* const data;
    const size_t bytes;
  };
  struct Place {
    std::shared_ptr<const Region> region;
    size_t offset = 0;
  };

  // Error (kUsage): this system has no such memory.
  static Result<std::shared_ptr<SharedMemory>> create();

  // Aligned to a page, not initialised. Null where the system gives no more.
  std::byte* allocate(size_t bytes);
  // REQUIRES what allocate(bytes) gave.
  void release(std::byte* data, size_t bytes);

  // Where these bytes lie; nothing where any of them is elsewhere.
  std::optional<Place> find(ByteSpan bytes) const;
  // How many regions have gone back so far.
  uint64_t retired() const { return retired_.load(std::memory_order_acquire); }

 private:
  struct Room {
    std::shared_ptr<const Region> region;
    std::map<size_t, size_t> free;  // offset → bytes; empty in a region of one buffer
    size_t used = 0;
  };

  SharedMemory() = default;
  Result<Room> make_room(size_t bytes);
  static std::optional<size_t> take(Room& room, size_t bytes);

  mutable std::mutex mutex_;
  std::map<const std::byte*, Room> rooms_;  // by where they begin
  uint32_t next_id_ = 1;
  std::atomic<uint64_t> retired_ = 0;
};

}  // namespace dtrain
