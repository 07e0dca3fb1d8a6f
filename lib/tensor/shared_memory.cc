#include "tensor/shared_memory.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <iterator>

#include "base/check.h"

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif
#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U
#endif

namespace dtrain {
namespace {

constexpr size_t kPage = 4096;

size_t rounded(size_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }

// Kernels before 6.3 do not know that flag, and some later ones are set to want it.
int make_file() {
  const int fd = ::memfd_create("dtrain", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_NOEXEC_SEAL);
  return fd >= 0 || errno != EINVAL ? fd : ::memfd_create("dtrain", MFD_CLOEXEC | MFD_ALLOW_SEALING);
}

}  // namespace

SharedMemory::Region::~Region() {
  ::munmap(data, bytes);
  ::close(fd);
}

Result<std::shared_ptr<SharedMemory>> SharedMemory::create() {
  std::shared_ptr<SharedMemory> memory(new SharedMemory);
  DTRAIN_TRY(memory->make_room(kPage));  // to see whether there is such memory
  return memory;
}

Result<SharedMemory::Room> SharedMemory::make_room(size_t bytes) {
  auto failed = [](const char* what) {
    return fail(ExitCode::kUsage,
                fmt::format("no memory that processes of this host can share ({}: {})", what, std::strerror(errno)));
  };
  const int fd = make_file();
  if (fd < 0) return failed("memfd_create");
  void* at = MAP_FAILED;
  const char* what = "ftruncate";
  if (::ftruncate(fd, static_cast<off_t>(bytes)) == 0) {
    what = "mmap";
    at = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
  }
  if (at == MAP_FAILED) {
    const auto error = failed(what);
    ::close(fd);
    return error;
  }
  const auto region = std::make_shared<const Region>(next_id_++, fd, static_cast<std::byte*>(at), bytes);
  if (::fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL) != 0)
    return failed("seals");
  if (bytes >= 4u << 20) ::madvise(at, bytes, MADV_HUGEPAGE);  // where the system has them for such memory
  return Room{region};
}

std::optional<size_t> SharedMemory::take(Room& room, size_t bytes) {
  for (auto at = room.free.begin(); at != room.free.end(); ++at) {
    if (at->second < bytes) continue;
    const size_t offset = at->first, left = at->second - bytes;
    room.free.erase(at);
    if (left > 0) room.free.emplace(offset + bytes, left);
    room.used += bytes;
    return offset;
  }
  return std::nullopt;
}

std::byte* SharedMemory::allocate(size_t bytes) {
  bytes = rounded(bytes);
  const std::lock_guard lock(mutex_);
  const bool own = bytes >= kOwnRegion;
  if (!own) {
    for (auto& [begin, room] : rooms_)
      if (const auto offset = take(room, bytes)) return room.region->data + *offset;
  }
  Result<Room> made = make_room(own ? bytes : kRegion);
  if (!made) return nullptr;
  Room& room = rooms_.emplace(made->region->data, std::move(*made)).first->second;
  if (own) {
    room.used = bytes;
    return room.region->data;
  }
  room.free.emplace(0, kRegion);
  return room.region->data + *take(room, bytes);
}

void SharedMemory::release(std::byte* data, size_t bytes) {
  bytes = rounded(bytes);
  const std::lock_guard lock(mutex_);
  const auto at = std::prev(rooms_.upper_bound(data));
  Room& room = at->second;
  size_t offset = static_cast<size_t>(data - room.region->data);
  DTRAIN_CHECK(offset + bytes <= room.region->bytes && room.used >= bytes);
  room.used -= bytes;
  if (room.used == 0) {
    rooms_.erase(at);
    retired_.fetch_add(1, std::memory_order_release);
    return;
  }
  auto after = room.free.lower_bound(offset);
  if (after != room.free.end() && after->first == offset + bytes) {
    bytes += after->second;
    after = room.free.erase(after);
  }
  if (after != room.free.begin()) {
    const auto before = std::prev(after);
    if (before->first + before->second == offset) {
      before->second += bytes;
      return;
    }
  }
  room.free.emplace(offset, bytes);
}

std::optional<SharedMemory::Place> SharedMemory::find(ByteSpan bytes) const {
  const std::lock_guard lock(mutex_);
  const auto after = rooms_.upper_bound(bytes.data());
  if (after == rooms_.begin()) return std::nullopt;
  const Room& room = std::prev(after)->second;
  const auto offset = static_cast<size_t>(bytes.data() - room.region->data);
  if (offset > room.region->bytes || bytes.size() > room.region->bytes - offset) return std::nullopt;
  return Place{room.region, offset};
}

}  // namespace dtrain
