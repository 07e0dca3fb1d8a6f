// SHA-256 (FIPS 180-4, by OpenSSL): the identity of runs, data, checkpoints and models.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <string_view>

#include "base/bytes.h"

namespace dtrain {

using Digest = std::array<uint8_t, 32>;

class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(const Sha256&) = delete;
  Sha256& operator=(const Sha256&) = delete;

  void update(ByteSpan bytes);
  void update(std::string_view text);
  // Ends the computation; the object must not be used afterwards.
  Digest finish();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

Digest sha256(std::string_view text);
std::string to_hex(const Digest& digest);  // 64 lower-case digits

}  // namespace dtrain
