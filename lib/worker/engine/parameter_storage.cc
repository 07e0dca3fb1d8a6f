#include "worker/engine/parameter_storage.h"

namespace dtrain::worker {
namespace {

size_t aligned_bytes(const ParameterInfo& p) {
  const size_t bytes = static_cast<size_t>(p.shape.elements()) * sizeof(float);
  return (bytes + Buffer::kAlignment - 1) / Buffer::kAlignment * Buffer::kAlignment;
}

bool holds(ParameterStorage::Of of, const ParameterInfo& p) {
  if (p.kind == ParameterKind::kSparse) return false;
  return of == ParameterStorage::Of::kAll || p.kind == ParameterKind::kStatistic;
}

}  // namespace

size_t ParameterStorage::bytes(std::span<const ParameterInfo> parameters, Of of) {
  size_t bytes = 0;
  for (const ParameterInfo& p : parameters)
    if (holds(of, p)) bytes += aligned_bytes(p);
  return bytes;
}

ParameterStorage::ParameterStorage(std::span<const ParameterInfo> parameters, Of of,
                                   const std::shared_ptr<SharedMemory>& memory)
    : buffer_(bytes(parameters, of), memory) {
  buffer_.zero();
  std::byte* at = buffer_.data();
  for (const ParameterInfo& p : parameters) {
    pointers_.push_back(holds(of, p) ? reinterpret_cast<float*>(at) : nullptr);
    if (holds(of, p)) at += aligned_bytes(p);
  }
}

}  // namespace dtrain::worker
