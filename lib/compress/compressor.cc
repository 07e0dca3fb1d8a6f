#include "compress/compressor.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"

namespace dtrain::compress {

std::shared_ptr<const Buffer> Compressor::encode(EncodeContext context, int64_t version, size_t id,
                                                 std::span<const float> values) {
  const size_t n = values.size(), arrays = method_->state_arrays();
  if (chunks_.size() <= id) chunks_.resize(id + 1);
  Buffer& state = chunks_[id].state;
  if (state.size() == 0 && arrays > 0) {
    state = Buffer(arrays * n * sizeof(float));
    state.zero();
  }
  DTRAIN_CHECK(state.size() == arrays * n * sizeof(float), "chunk {} has another size", id);
  // What somebody lost had computed comes later, and counts as of the newest step.
  int64_t& last = chunks_[id].version;
  context.passed = last < 0 ? 1 : std::max<int64_t>(version - last, 0);
  last = std::max(last, version);
  std::vector<float*> at(arrays);
  for (size_t a = 0; a < arrays; ++a) at[a] = state.as<float>().data() + a * n;
  if (scratch_.size() < method_->most_bytes(n)) scratch_ = Buffer(method_->most_bytes(n));
  const size_t bytes = method_->encode(context, values, at.data(), {scratch_.data(), scratch_.size()});
  auto encoded = std::make_shared<Buffer>(bytes);
  std::memcpy(encoded->data(), scratch_.data(), bytes);
  return encoded;
}

}  // namespace dtrain::compress
