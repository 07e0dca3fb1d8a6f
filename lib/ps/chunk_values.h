// The values of a chunk as a message brought them: plain, or encoded by a codec that has found them valid. Borrows
// them.
#pragma once

#include <cstddef>
#include <span>

#include "compress/codec.h"

namespace dtrain::ps {

class ChunkValues {
 public:
  ChunkValues(std::span<const float> plain) : plain_(plain.data()), n_(plain.size()) {}  // NOLINT: is one
  ChunkValues(const compress::Codec& codec, ByteSpan payload, size_t elements)
      : codec_(&codec), payload_(payload), n_(elements) {}

  size_t size() const { return n_; }
  const float* plain() const { return plain_; }  // null where they are encoded
  void copy_to(float* out) const;
  void add_to(float* into) const;                     // into += values
  void sum_to(float* out, const float* other) const;  // out = other + values

 private:
  const compress::Codec* codec_ = nullptr;
  ByteSpan payload_;
  const float* plain_ = nullptr;
  size_t n_ = 0;
};

}  // namespace dtrain::ps
