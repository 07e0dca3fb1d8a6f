// What a sender keeps to encode one block after the other with one method: of each block what was not sent yet. Not
// thread-safe; one thread may hand it to another between two calls.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "compress/method.h"
#include "tensor/buffer.h"

namespace dtrain::compress {

// A block, chunk by chunk, as it travels.
struct Encoded {
  CodecId codec = CodecId::kNone;
  std::vector<ByteSpan> chunks;
  std::shared_ptr<const Buffer> owner;  // of their bytes

  size_t bytes() const;
};

class Compressor {
 public:
  explicit Compressor(std::shared_ptr<const Method> method) : method_(std::move(method)) {}

  const Method& method() const { return *method_; }
  // Block `id` always has as many elements.
  Encoded encode(const EncodeContext& context, uint32_t id, std::span<const float> values);

 private:
  const std::shared_ptr<const Method> method_;
  std::vector<Buffer> state_;  // by block: its arrays one after the other; empty until it is first encoded
  Buffer scratch_;
};

}  // namespace dtrain::compress
