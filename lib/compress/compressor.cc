#include "compress/compressor.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "tensor/parameter.h"

namespace dtrain::compress {

size_t Encoded::bytes() const {
  size_t sum = 0;
  for (const ByteSpan chunk : chunks) sum += chunk.size();
  return sum;
}

Encoded Compressor::encode(const EncodeContext& context, uint32_t id, std::span<const float> values) {
  const size_t n = values.size(), arrays = method_->state_arrays();
  constexpr auto kChunk = static_cast<size_t>(kChunkElements);
  if (state_.size() <= id) state_.resize(id + 1);
  Buffer& state = state_[id];
  if (state.size() == 0 && arrays > 0) {
    state = Buffer(arrays * n * sizeof(float));
    state.zero();
  }
  DTRAIN_CHECK(state.size() == arrays * n * sizeof(float), "block {} has another size", id);

  size_t most = 0;
  for (size_t first = 0; first < n; first += kChunk) most += method_->most_bytes(std::min(kChunk, n - first));
  if (scratch_.size() < most) scratch_ = Buffer(most);
  std::vector<size_t> sizes;
  size_t used = 0;
  std::vector<float*> at(arrays);
  for (size_t first = 0; first < n; first += kChunk) {
    const size_t m = std::min(kChunk, n - first);
    for (size_t a = 0; a < arrays; ++a) at[a] = state.as<float>().data() + a * n + first;
    sizes.push_back(method_->encode(context, values.subspan(first, m), at.data(),
                                    {scratch_.data() + used, scratch_.size() - used}));
    used += sizes.back();
  }
  auto bytes = std::make_shared<Buffer>(used);
  std::memcpy(bytes->data(), scratch_.data(), used);
  Encoded encoded{method_->codec().id(), {}, bytes};
  const std::byte* from = bytes->data();
  for (const size_t size : sizes) {
    encoded.chunks.emplace_back(from, size);
    from += size;
  }
  return encoded;
}

}  // namespace dtrain::compress
