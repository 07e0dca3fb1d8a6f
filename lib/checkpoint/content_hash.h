// One SHA-256 over the logical content of a set of tensors: names, types, shapes and bytes, whatever files they lie in.
// For each tensor, in the order of names: u64 length and bytes of the name, the same of the type's name, u64 rank, u64
// extents, u64 length and the bytes; all little-endian. Every part carries its length, so that different contents never
// make the same stream.
#pragma once

#include "base/sha256.h"
#include "tensor/dtype.h"
#include "tensor/shape.h"

namespace dtrain::checkpoint {

class ContentHash {
 public:
  // Ends the tensor before. Names must rise strictly (a bug otherwise).
  void begin(std::string_view name, DType dtype, const Shape& shape);
  // The next bytes of the tensor begun.
  void update(ByteSpan bytes);
  Digest finish();

 private:
  void number(uint64_t value);
  void text(std::string_view value);
  void end();

  Sha256 hash_;
  std::string last_;
  bool any_ = false;
  uint64_t missing_ = 0;  // bytes of the tensor begun that have not come
};

}  // namespace dtrain::checkpoint
