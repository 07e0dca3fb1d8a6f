#include "worker/engine/parameter_storage.h"

namespace dtrain::worker {
namespace {

size_t aligned_bytes(const ParameterInfo& p) {
  const size_t bytes = static_cast<size_t>(p.shape.elements()) * sizeof(float);
  return (bytes + Buffer::kAlignment - 1) / Buffer::kAlignment * Buffer::kAlignment;
}

}  // namespace

size_t ParameterStorage::bytes(std::span<const ParameterInfo> parameters) {
  size_t bytes = 0;
  for (const ParameterInfo& p : parameters) bytes += aligned_bytes(p);
  return bytes;
}

ParameterStorage::ParameterStorage(std::span<const ParameterInfo> parameters) : buffer_(bytes(parameters)) {
  buffer_.zero();
  std::byte* at = buffer_.data();
  for (const ParameterInfo& p : parameters) {
    pointers_.push_back(reinterpret_cast<float*>(at));
    at += aligned_bytes(p);
  }
}

}  // namespace dtrain::worker
