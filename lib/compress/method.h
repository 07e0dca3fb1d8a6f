// How a sender turns values into an encoded chunk, and what it remembers of those that it did not send: one value of
// train.compression. Immutable and shared by all chunks; what it remembers lies in arrays of the chunk's size that
// start at zero and belong to whoever encodes. Safe for concurrent use on different chunks.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "compress/codec.h"
#include "config/registry.h"

namespace dtrain::compress {

// What is encoded: the sum over some micro-batches of the mean gradients of their samples, as workers send them.
struct EncodeContext {
  int64_t step = 0;    // of the run
  int64_t passed = 1;  // steps since this chunk was last encoded; 0: another part of that step
  int64_t run_steps = 0, epoch_steps = 0;
  uint32_t micro_batches = 1;  // K
  uint32_t summed = 1;         // how many of them this sum is over
  double samples = 1;          // of each micro-batch
};

class Method {
 public:
  virtual ~Method() = default;
  virtual const Codec& codec() const = 0;
  // Arrays of floats that it remembers of each chunk.
  virtual size_t state_arrays() const { return 0; }
  // It applies the optimizer's momentum before it chooses what to send; the servers must not do it again, nor clip.
  virtual bool takes_momentum() const { return false; }
  // An upper bound of the bytes of n elements, for whatever values at whatever step.
  virtual size_t most_bytes(size_t n) const = 0;
  // The same of what is left when a warm-up is over.
  virtual size_t lasting_bytes(size_t n) const { return most_bytes(n); }
  // Encodes values.size() elements, at least one, and returns how many bytes that took. REQUIRES out.size() >=
  // most_bytes(values.size()). Values that are not finite are sent as such, never kept. The same bits on every
  // instruction set.
  virtual size_t encode(const EncodeContext& context, std::span<const float> values, float* const* state,
                        MutableByteSpan out) const = 0;
};

// What a method's keys depend on beside its own table.
struct MethodSetting {
  enum class Use { kGradients, kParameters };
  Use use = Use::kGradients;
  double momentum = 0;  // of the optimizer, where senders may apply it
  bool nesterov = false;
  bool clip_norm = false;  // servers bound the norm of a step's gradient, which they must have then
};

using MethodRegistry = config::Registry<Method, const MethodSetting&>;

// `value` is that of `key` ("train.compression"): a method's name, or a table with its name as `type` and its keys.
// Null for "none", and where there are mistakes, which go to `diagnostics`.
std::shared_ptr<const Method> read_method(const config::Value& value, const std::string& key,
                                          const MethodSetting& setting, config::Diagnostics& diagnostics);

}  // namespace dtrain::compress
