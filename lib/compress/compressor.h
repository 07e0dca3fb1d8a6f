// What a sender keeps to encode one chunk after the other with one method: of each chunk what was not sent yet. Not
// thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "compress/method.h"
#include "tensor/buffer.h"

namespace dtrain::compress {

class Compressor {
 public:
  explicit Compressor(std::shared_ptr<const Method> method) : method_(std::move(method)) {}

  CodecId codec() const { return method_->codec().id(); }
  // The next values of chunk `id`, which always has as many elements. Ids are small: chunks are numbered. `version`:
  // the step whose gradient they are part of, as servers count, from which `passed` of the context is made.
  std::shared_ptr<const Buffer> encode(EncodeContext context, int64_t version, size_t id,
                                       std::span<const float> values);

 private:
  const std::shared_ptr<const Method> method_;
  struct Chunk {
    Buffer state;  // its arrays one after the other
    int64_t version = -1;
  };
  std::vector<Chunk> chunks_;  // by id; without state until it is first encoded
  Buffer scratch_;
};

}  // namespace dtrain::compress
