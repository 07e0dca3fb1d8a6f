// Makes the next version of a chunk out of the one before by something small enough to be sent: what it lacks of the
// exact values, encoded. What the code leaves out is still lacking then, and goes with a later version: error feedback
// at the server (DoubleSqueeze: Tang et al. 2019). Whoever holds the version before and decodes the same bytes gets the
// same bits. One thread.
#pragma once

#include <memory>
#include <span>

#include "compress/method.h"
#include "tensor/buffer.h"

namespace dtrain::ps {

class UpdateEncoder {
 public:
  explicit UpdateEncoder(std::shared_ptr<const compress::Method> method) : method_(std::move(method)) {}

  uint8_t codec() const { return static_cast<uint8_t>(method_->codec().id()); }
  // to = before + decoded(what is returned), near to `exact`.
  std::shared_ptr<const Buffer> encode(std::span<const float> exact, const float* before, float* to);

 private:
  const std::shared_ptr<const compress::Method> method_;
  Buffer lacking_, state_, bytes_;
};

}  // namespace dtrain::ps
