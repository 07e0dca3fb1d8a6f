#include "ps/update_encoder.h"

#include <cstring>
#include <vector>

#include "ps/chunk_math.h"

namespace dtrain::ps {

std::shared_ptr<const Buffer> UpdateEncoder::encode(std::span<const float> exact, const float* before, float* to) {
  const size_t n = exact.size(), bytes = n * sizeof(float), arrays = method_->state_arrays();
  if (lacking_.size() < bytes) {
    lacking_ = Buffer(bytes);
    state_ = Buffer(arrays * bytes);
    bytes_ = Buffer(method_->most_bytes(n));
  }
  const std::span<float> lacking = lacking_.as<float>().first(n);
  subtract(lacking, exact, {before, n});
  state_.zero();
  std::vector<float*> state(arrays);
  for (size_t a = 0; a < arrays; ++a) state[a] = state_.as<float>().data() + a * n;
  const size_t size = method_->encode({}, lacking, state.data(), {bytes_.data(), bytes_.size()});
  auto encoded = std::make_shared<Buffer>(size);
  std::memcpy(encoded->data(), bytes_.data(), size);
  std::memcpy(to, before, bytes);
  method_->codec().decode_add({encoded->data(), size}, {to, n});
  return encoded;
}

}  // namespace dtrain::ps
