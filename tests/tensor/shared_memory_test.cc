#include "tensor/shared_memory.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <random>
#include <utility>
#include <vector>

#include "tensor/buffer.h"

namespace dtrain {
namespace {

std::shared_ptr<SharedMemory> make() {
  auto memory = SharedMemory::create();
  EXPECT_TRUE(memory) << memory.error().message;
  return *memory;
}

ByteSpan bytes_of(const Buffer& buffer) { return {buffer.data(), buffer.size()}; }

TEST(SharedMemory, FindsWhatLiesInIt) {
  const auto memory = make();
  Buffer small(SharedMemory::kSmallest, memory), other(100'000, memory), large(SharedMemory::kOwnRegion, memory);
  const Buffer tiny(SharedMemory::kSmallest - 1, memory), heap(100'000);
  EXPECT_FALSE(memory->find(bytes_of(tiny)));
  EXPECT_FALSE(memory->find(bytes_of(heap)));
  for (const Buffer* buffer : {&small, &other, &large}) {
    const auto place = memory->find(bytes_of(*buffer).subspan(64, 1000));
    ASSERT_TRUE(place);
    EXPECT_EQ(place->region->data + place->offset, buffer->data() + 64);
  }
  EXPECT_EQ(memory->find(bytes_of(small))->region, memory->find(bytes_of(other))->region);
  EXPECT_NE(memory->find(bytes_of(small))->region, memory->find(bytes_of(large))->region);
  // Beyond the end of a region is nowhere.
  EXPECT_FALSE(memory->find({large.data() + large.size() - 8, 16}));
}

TEST(SharedMemory, WhoGetsADescriptorReadsAndCannotWriteOrShrink) {
  const auto memory = make();
  Buffer buffer(SharedMemory::kOwnRegion, memory);
  std::memset(buffer.data(), 7, buffer.size());
  const auto place = memory->find(bytes_of(buffer));
  ASSERT_TRUE(place);
  const int fd = place->region->fd;
  const size_t size = place->region->bytes;
  EXPECT_NE(::ftruncate(fd, 0), 0);
  EXPECT_NE(::ftruncate(fd, static_cast<off_t>(2 * size)), 0);
  EXPECT_EQ(::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0), MAP_FAILED);
  EXPECT_LT(::pwrite(fd, "x", 1, 0), 0);
  EXPECT_NE(::fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE), 0) << "nobody adds seals either";
  void* const read = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, fd, 0);
  ASSERT_NE(read, MAP_FAILED);
  buffer.data()[5] = std::byte{9};
  EXPECT_EQ(std::memcmp(read, buffer.data(), size), 0);
  ::munmap(read, size);
}

TEST(SharedMemory, AnEmptyRegionGoesBack) {
  const auto memory = make();
  std::weak_ptr<const SharedMemory::Region> shared, own;
  {
    Buffer a(1u << 20, memory), b(1u << 20, memory), large(SharedMemory::kOwnRegion, memory);
    shared = memory->find(bytes_of(a))->region;
    own = memory->find(bytes_of(large))->region;
    Buffer moved(std::move(large));
    EXPECT_EQ(large.size(), 0u);  // NOLINT: that it gave everything away is what is tested
    moved = Buffer();
    EXPECT_TRUE(own.expired());
    EXPECT_EQ(memory->retired(), 1u);
    a = Buffer();
    EXPECT_FALSE(shared.expired());
  }
  EXPECT_TRUE(shared.expired());
  EXPECT_EQ(memory->retired(), 2u);
}

// Buffers of all sizes come and go; none overlaps another, and in the end a region's whole room is one piece again.
TEST(SharedMemory, BuffersNeverOverlap) {
  const auto memory = make();
  std::mt19937 random(1);
  const Buffer keeps_the_region(SharedMemory::kSmallest, memory);
  std::vector<std::pair<Buffer, std::byte>> held;
  for (int i = 0; i < 3000; ++i) {
    if (held.size() > 40 || (!held.empty() && random() % 3 == 0)) {
      std::swap(held[random() % held.size()], held.back());
      const auto& [buffer, mark] = held.back();
      EXPECT_EQ(buffer.data()[0], mark);
      EXPECT_EQ(buffer.data()[buffer.size() - 1], mark);
      held.pop_back();
    } else {
      Buffer buffer(SharedMemory::kSmallest + random() % (2u << 20), memory);
      const auto mark = static_cast<std::byte>(i);
      buffer.data()[0] = buffer.data()[buffer.size() - 1] = mark;
      held.emplace_back(std::move(buffer), mark);
    }
  }
  held.clear();
  const auto region = memory->find(bytes_of(keeps_the_region))->region;
  std::vector<Buffer> again;
  for (int i = 0; i < 3; ++i) {
    again.emplace_back(SharedMemory::kOwnRegion - 4096, memory);
    EXPECT_EQ(memory->find(bytes_of(again.back()))->region, region);
  }
}

}  // namespace
}  // namespace dtrain
