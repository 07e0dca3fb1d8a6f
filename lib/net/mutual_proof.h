// How two sides prove to each other that they hold the same secret, without showing it: the part of the handshake that
// comes before anything else. State machines of one connection, without I/O; FORMAT.md, "The secret of a run", says
// what is signed and why.
//
//     dials      Hello or Guest, with a nonce   →
//                                               ←   Challenge     accepts: shows first that it is no stranger
//                Proof                          →
//                                               ←   Welcome or Refuse
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "base/run_secret.h"
#include "proto-free-wire/message.h"

namespace dtrain::net {

// What a task or a guest proves itself with.
struct ProofMeans {
  std::shared_ptr<const RunSecret> secret;  // null: it has none, and asks nobody for a proof
  std::function<Digest()> nonce;            // random bytes, never the same twice; needed where there is a secret
};

// The side that dials.
class DiallerProof {
 public:
  // `greeting`: the Hello or Guest that it sends, with its nonce; `wanted`: the only rank that may answer, if that
  // matters.
  DiallerProof(std::shared_ptr<const RunSecret> secret, wire::Message greeting, std::optional<wire::Rank> wanted);

  // The answer to a good Challenge. Nothing where the other side has not proven itself, or was asked before.
  std::optional<wire::Proof> answer(const wire::Challenge& challenge);
  // The other side holds the secret; until then nothing that it says counts.
  bool proven() const { return proven_; }
  // The rank of who has proven itself and is another one than was wanted.
  std::optional<wire::Rank> another_rank() const { return another_rank_; }

 private:
  std::shared_ptr<const RunSecret> secret_;
  wire::Message greeting_;
  std::optional<wire::Rank> wanted_, another_rank_;
  bool proven_ = false;
};

// The side that accepts.
class AcceptorProof {
 public:
  // `greeting`: the Hello or Guest that came; `self`: this task. Draws one nonce.
  AcceptorProof(const ProofMeans& means, wire::Message greeting, wire::Rank self);

  const wire::Challenge& challenge() const { return challenge_; }
  const wire::Message& greeting() const { return greeting_; }
  // Whether this is the other side's proof.
  bool holds(const wire::Proof& proof) const;

 private:
  std::shared_ptr<const RunSecret> secret_;
  wire::Message greeting_;
  wire::Challenge challenge_;
};

}  // namespace dtrain::net
