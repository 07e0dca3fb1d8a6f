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
  // The next values of chunk `id`, which always has as many elements. Ids are small: chunks are numbered.
  std::shared_ptr<const Buffer> encode(const EncodeContext& context, size_t id, std::span<const float> values);

 private:
  const std::shared_ptr<const Method> method_;
  std::vector<Buffer> state_;  // by chunk: its arrays one after the other; empty until it is first encoded
  Buffer scratch_;
};

}  // namespace dtrain::compress
