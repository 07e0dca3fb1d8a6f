#include "base/run_secret.h"

#include <fmt/format.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include "base/check.h"

namespace dtrain {

Result<std::shared_ptr<const RunSecret>> RunSecret::make(std::vector<std::byte> bytes, const std::string& origin) {
  size_t size = bytes.size();
  if (size > 0 && bytes[size - 1] == std::byte{'\n'}) --size;
  if (size > 0 && size < bytes.size() && bytes[size - 1] == std::byte{'\r'}) --size;
  // Made first: it overwrites the bytes, also where they are no secret. The line break stays behind the end.
  std::shared_ptr<RunSecret> secret(new RunSecret(std::move(bytes)));
  if (size < kShortest || size > kLongest)
    return fail(ExitCode::kUsage,
                fmt::format("{} holds {} bytes: a secret has {} to {}, drawn at random, as by 'openssl rand -hex 32'",
                            origin, size > kLongest ? fmt::format("more than {}", kLongest) : std::to_string(size),
                            kShortest, kLongest));
  wipe(std::span(secret->bytes_).subspan(size));
  secret->bytes_.resize(size);  // to less: the same memory
  return std::shared_ptr<const RunSecret>(std::move(secret));
}

RunSecret::~RunSecret() { wipe(bytes_); }

Digest RunSecret::sign(ByteSpan message) const {
  Digest signature;
  DTRAIN_CHECK(HMAC(EVP_sha256(), bytes_.data(), static_cast<int>(bytes_.size()),
                    reinterpret_cast<const unsigned char*>(message.data()), message.size(), signature.data(),
                    nullptr) != nullptr);
  return signature;
}

bool RunSecret::signed_by_this(ByteSpan message, const Digest& signature) const {
  const Digest right = sign(message);
  return CRYPTO_memcmp(right.data(), signature.data(), right.size()) == 0;
}

void wipe(MutableByteSpan bytes) { OPENSSL_cleanse(bytes.data(), bytes.size()); }

}  // namespace dtrain
