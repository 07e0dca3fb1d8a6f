// The secret of a run: bytes that all its tasks hold and nobody else does. It signs, and that is all it does: it cannot
// be printed, copied or compared, and its bytes are overwritten when it is destroyed. (Launchers hold it as text, to hand
// it on.) Any thread.
#pragma once

#include <memory>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "base/sha256.h"

namespace dtrain {

class RunSecret {
 public:
  static constexpr size_t kShortest = 16, kLongest = 4096;

  // The bytes as they are, text or not, but for one line break at the end. `bytes` is overwritten. Error (kUsage): too
  // few or too many; the message names `origin`.
  static Result<std::shared_ptr<const RunSecret>> make(std::vector<std::byte> bytes, const std::string& origin);
  ~RunSecret();
  RunSecret(const RunSecret&) = delete;
  RunSecret& operator=(const RunSecret&) = delete;

  // HMAC-SHA256 (RFC 2104, by OpenSSL).
  Digest sign(ByteSpan message) const;
  // In a time that does not depend on where the signature is wrong.
  bool signed_by_this(ByteSpan message, const Digest& signature) const;

 private:
  explicit RunSecret(std::vector<std::byte> bytes) : bytes_(std::move(bytes)) {}

  std::vector<std::byte> bytes_;
};

// Overwrites memory in a way that no compiler leaves out.
void wipe(MutableByteSpan bytes);

}  // namespace dtrain
