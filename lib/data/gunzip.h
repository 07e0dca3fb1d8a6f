// Reads a gzip file (RFC 1952, also of several members) front to back from memory, in pieces of the caller's size.
#pragma once

#include <memory>

#include "base/bytes.h"
#include "base/result.h"

namespace dtrain::data {

class Gunzip {
 public:
  // Deflate cannot expand more than this.
  static constexpr uint64_t kMaxRatio = 1032;

  // Borrows the compressed bytes.
  explicit Gunzip(ByteSpan compressed);
  ~Gunzip();
  static bool is_gzip(ByteSpan bytes);

  // Fills `into` as far as there is something; fewer bytes mean the end. The error is the bare reason
  // (ExitCode::kData).
  Result<size_t> read(MutableByteSpan into);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace dtrain::data
