#include "ps/chunk_values.h"

#include <cstring>

#include "ps/chunk_math.h"

namespace dtrain::ps {

void ChunkValues::copy_to(float* out) const {
  if (codec_) {
    codec_->decode(payload_, {out, n_});
  } else if (n_ > 0) {
    std::memcpy(out, plain_, n_ * sizeof(float));
  }
}

void ChunkValues::add_to(float* into) const {
  if (codec_) {
    codec_->decode_add(payload_, {into, n_});
  } else {
    ps::add({into, n_}, {plain_, n_});
  }
}

void ChunkValues::sum_to(float* out, const float* other) const {
  if (codec_) {
    std::memcpy(out, other, n_ * sizeof(float));
    codec_->decode_add(payload_, {out, n_});
  } else {
    ps::add({out, n_}, {other, n_}, {plain_, n_});
  }
}

}  // namespace dtrain::ps
