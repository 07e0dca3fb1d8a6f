#include "sim/scale/world.h"

#include <sys/mman.h>

#include "base/check.h"

namespace dtrain::sim::scale {

PhantomMemory::PhantomMemory(const std::vector<ParameterInfo>& parameters) {
  constexpr size_t kAlignment = 64;
  std::vector<size_t> offsets;
  for (const ParameterInfo& p : parameters) {
    offsets.push_back(bytes_);
    const size_t bytes = static_cast<size_t>(p.shape.elements()) * sizeof(float);
    bytes_ += (bytes + kAlignment - 1) / kAlignment * kAlignment;
  }
  bytes_ += kAlignment;
  base_ = ::mmap(nullptr, bytes_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  DTRAIN_CHECK(base_ != MAP_FAILED, "no addresses for {} bytes", bytes_);
  for (const size_t offset : offsets)
    pointers_.push_back(reinterpret_cast<float*>(static_cast<std::byte*>(base_) + offset));
}

PhantomMemory::~PhantomMemory() { ::munmap(base_, bytes_); }

}  // namespace dtrain::sim::scale
