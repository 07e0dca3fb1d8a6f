#include "compress/compressor.h"

#include <cstring>

#include "base/check.h"

namespace dtrain::compress {

std::shared_ptr<const Buffer> Compressor::encode(const EncodeContext& context, size_t id,
                                                 std::span<const float> values) {
  const size_t n = values.size(), arrays = method_->state_arrays();
  if (state_.size() <= id) state_.resize(id + 1);
  Buffer& state = state_[id];
  if (state.size() == 0 && arrays > 0) {
    state = Buffer(arrays * n * sizeof(float));
    state.zero();
  }
  DTRAIN_CHECK(state.size() == arrays * n * sizeof(float), "chunk {} has another size", id);
  std::vector<float*> at(arrays);
  for (size_t a = 0; a < arrays; ++a) at[a] = state.as<float>().data() + a * n;
  if (scratch_.size() < method_->most_bytes(n)) scratch_ = Buffer(method_->most_bytes(n));
  const size_t bytes = method_->encode(context, values, at.data(), {scratch_.data(), scratch_.size()});
  auto encoded = std::make_shared<Buffer>(bytes);
  std::memcpy(encoded->data(), scratch_.data(), bytes);
  return encoded;
}

}  // namespace dtrain::compress
