// Memory of a process at the other end of a Unix-domain socket, mapped here for reading. What the peer says is
// untrusted: a descriptor must be sealed so that it cannot shrink, and a reference must lie within its region. One
// thread.
#pragma once

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "net/asio/unique_fd.h"
#include "proto-free-wire/frame.h"

namespace dtrain::net {

class PeerMemory {
 public:
  PeerMemory() = default;
  ~PeerMemory();
  PeerMemory(const PeerMemory&) = delete;
  PeerMemory& operator=(const PeerMemory&) = delete;

  // Maps a region. False where this process cannot: it is then told what lies there byte by byte. Errors (kPeerLost):
  // no memory, not as large as announced, could shrink or be written by others, an id that is taken.
  Result<bool> add(const wire::MemoryOffered& offered, UniqueFd descriptor);
  // The peer refers to it no more.
  Status remove(const wire::MemoryGone& gone);
  // Error (kPeerLost): an unknown region, beyond its end, not aligned.
  Result<ByteSpan> at(const wire::MemoryReference& reference) const;

 private:
  struct Region {
    uint32_t id = 0;
    const std::byte* data = nullptr;
    size_t bytes = 0;
  };
  std::vector<Region> regions_;
};

}  // namespace dtrain::net
