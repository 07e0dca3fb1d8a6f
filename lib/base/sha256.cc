#include "base/sha256.h"

#include <fmt/format.h>
#include <openssl/evp.h>

#include "base/check.h"

namespace dtrain {

struct Sha256::Impl {
  EVP_MD_CTX* context = EVP_MD_CTX_new();
  ~Impl() { EVP_MD_CTX_free(context); }
};

Sha256::Sha256() : impl_(std::make_unique<Impl>()) {
  DTRAIN_CHECK(EVP_DigestInit_ex(impl_->context, EVP_sha256(), nullptr) == 1);
}
Sha256::~Sha256() = default;

void Sha256::update(ByteSpan bytes) { DTRAIN_CHECK(EVP_DigestUpdate(impl_->context, bytes.data(), bytes.size()) == 1); }
void Sha256::update(std::string_view text) { update(std::as_bytes(std::span(text.data(), text.size()))); }

Digest Sha256::finish() {
  Digest digest;
  DTRAIN_CHECK(EVP_DigestFinal_ex(impl_->context, digest.data(), nullptr) == 1);
  return digest;
}

Digest sha256(std::string_view text) {
  Sha256 hash;
  hash.update(text);
  return hash.finish();
}

std::string to_hex(const Digest& digest) {
  std::string hex;
  for (uint8_t b : digest) hex += fmt::format("{:02x}", b);
  return hex;
}

}  // namespace dtrain
