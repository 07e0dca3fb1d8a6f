#include "net/mutual_proof.h"

#include <string_view>
#include <utility>
#include <vector>

#include "base/check.h"
#include "proto-free-wire/codec.h"

namespace dtrain::net {
namespace {

// One for each role: what one side has signed is no proof of the other.
constexpr std::string_view kDials = "dtrain dials  ", kAccepts = "dtrain accepts";

// Every part has a length of its own but the greeting, whose length is said: no two conversations are the same bytes.
std::vector<std::byte> signed_text(std::string_view role, const wire::Message& greeting,
                                   const wire::Challenge& challenge) {
  const std::vector<std::byte> fields = wire::encode(greeting);
  std::vector<std::byte> text;
  const auto add = [&text](ByteSpan bytes) { text.insert(text.end(), bytes.begin(), bytes.end()); };
  const auto add_number = [&](uint32_t number) { add(std::as_bytes(std::span(&number, 1))); };
  add(std::as_bytes(std::span(role)));
  add_number(static_cast<uint32_t>(wire::type_of(greeting)));
  add_number(static_cast<uint32_t>(fields.size()));
  add(fields);
  add_number(challenge.rank);
  add(std::as_bytes(std::span(challenge.nonce)));
  return text;
}

}  // namespace

DiallerProof::DiallerProof(std::shared_ptr<const RunSecret> secret, wire::Message greeting,
                           std::optional<wire::Rank> wanted)
    : secret_(std::move(secret)), greeting_(std::move(greeting)), wanted_(wanted) {}

std::optional<wire::Proof> DiallerProof::answer(const wire::Challenge& challenge) {
  if (proven_ || another_rank_) return std::nullopt;
  if (!secret_->signed_by_this(signed_text(kAccepts, greeting_, challenge), challenge.proof)) return std::nullopt;
  // Also what this task itself has signed, if somebody has shown it its own greeting.
  if (wanted_ && challenge.rank != *wanted_) {
    another_rank_ = challenge.rank;
    return std::nullopt;
  }
  proven_ = true;
  return wire::Proof{secret_->sign(signed_text(kDials, greeting_, challenge))};
}

AcceptorProof::AcceptorProof(const ProofMeans& means, wire::Message greeting, wire::Rank self)
    : secret_(means.secret), greeting_(std::move(greeting)), challenge_{self, means.nonce(), {}} {
  challenge_.proof = secret_->sign(signed_text(kAccepts, greeting_, challenge_));
}

bool AcceptorProof::holds(const wire::Proof& proof) const {
  return secret_->signed_by_this(signed_text(kDials, greeting_, challenge_), proof.proof);
}

}  // namespace dtrain::net
