#include "net/asio/peer_memory.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif

namespace dtrain::net {
namespace {

constexpr size_t kMostRegions = 4096;

}  // namespace

PeerMemory::~PeerMemory() {
  for (const Region& region : regions_) ::munmap(const_cast<std::byte*>(region.data), region.bytes);
}

Result<bool> PeerMemory::add(const wire::MemoryOffered& offered, UniqueFd descriptor) {
  auto broken = [&](const char* what) {
    return fail(ExitCode::kPeerLost, fmt::format("it offers region {} of its memory {}", offered.region, what));
  };
  if (!descriptor.valid()) return false;  // this process has too many open
  const int seals = ::fcntl(descriptor.get(), F_GET_SEALS);
  if (seals < 0 || !(seals & F_SEAL_SHRINK)) return broken("which could shrink");
  if (!(seals & (F_SEAL_FUTURE_WRITE | F_SEAL_WRITE))) return broken("which others could write");
  struct stat file {};
  if (::fstat(descriptor.get(), &file) != 0 || static_cast<uint64_t>(file.st_size) != offered.bytes ||
      offered.bytes == 0)
    return broken("with another size than it has");
  for (const Region& region : regions_)
    if (region.id == offered.region) return broken("a second time");
  if (regions_.size() >= kMostRegions) return false;
  void* at = ::mmap(nullptr, offered.bytes, PROT_READ, MAP_SHARED | MAP_NORESERVE, descriptor.get(), 0);
  if (at == MAP_FAILED) return false;
  ::madvise(at, offered.bytes, MADV_DONTDUMP);
  regions_.push_back({offered.region, static_cast<const std::byte*>(at), offered.bytes});
  return true;
}

// One that could not be mapped is not here.
Status PeerMemory::remove(const wire::MemoryGone& gone) {
  const auto at =
      std::find_if(regions_.begin(), regions_.end(), [&](const Region& region) { return region.id == gone.region; });
  if (at == regions_.end()) return {};
  ::munmap(const_cast<std::byte*>(at->data), at->bytes);
  regions_.erase(at);
  return {};
}

Result<ByteSpan> PeerMemory::at(const wire::MemoryReference& reference) const {
  for (const Region& region : regions_) {
    if (region.id != reference.region) continue;
    if (reference.offset > region.bytes || reference.bytes > region.bytes - reference.offset)
      return fail(ExitCode::kPeerLost, fmt::format("it refers to {} bytes at {} of a region of {} bytes",
                                                   reference.bytes, reference.offset, region.bytes));
    if (reference.offset % wire::kReferenceAlignment != 0)
      return fail(ExitCode::kPeerLost,
                  fmt::format("it refers to a tensor at {}, which is not aligned", reference.offset));
    return ByteSpan(region.data + reference.offset, reference.bytes);
  }
  return fail(ExitCode::kPeerLost, fmt::format("it refers to region {}, which it has not shared", reference.region));
}

}  // namespace dtrain::net
