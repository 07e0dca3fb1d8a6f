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

std::vector<bool> held_of(std::span<const ParameterInfo> parameters, ParameterStorage::Of of) {
  std::vector<bool> held;
  for (const ParameterInfo& p : parameters) held.push_back(holds(of, p));
  return held;
}

}  // namespace

size_t ParameterStorage::bytes(std::span<const ParameterInfo> parameters, const std::vector<bool>& held) {
  size_t bytes = 0;
  for (size_t p = 0; p < parameters.size(); ++p)
    if (held[p]) bytes += aligned_bytes(parameters[p]);
  return bytes;
}

size_t ParameterStorage::bytes(std::span<const ParameterInfo> parameters, Of of) {
  return bytes(parameters, held_of(parameters, of));
}

ParameterStorage::ParameterStorage(std::span<const ParameterInfo> parameters, Of of,
                                   const std::shared_ptr<SharedMemory>& memory)
    : ParameterStorage(parameters, held_of(parameters, of), memory) {}

ParameterStorage::ParameterStorage(std::span<const ParameterInfo> parameters, const std::vector<bool>& held,
                                   const std::shared_ptr<SharedMemory>& memory)
    : buffer_(bytes(parameters, held), memory) {
  buffer_.zero();
  std::byte* at = buffer_.data();
  for (size_t p = 0; p < parameters.size(); ++p) {
    pointers_.push_back(held[p] ? reinterpret_cast<float*>(at) : nullptr);
    if (held[p]) at += aligned_bytes(parameters[p]);
  }
}

}  // namespace dtrain::worker
