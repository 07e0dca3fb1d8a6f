// Proofs in one conversation hold; carried to another, changed, cut or sent back they do not.
#include "net/mutual_proof.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "proto-free-wire/codec.h"
#include "proto-free-wire/frame.h"

namespace dtrain::net {
namespace {

// Nonces that are not random, but never the same twice.
ProofMeans means(char secret = 's') {
  auto count = std::make_shared<uint8_t>(0);
  return {*RunSecret::make(std::vector<std::byte>(32, static_cast<std::byte>(secret)), "a test"), [count, secret] {
            Digest nonce{};
            nonce[0] = static_cast<uint8_t>(secret);
            nonce[1] = ++*count;
            return nonce;
          }};
}

wire::Hello hello(const ProofMeans& of, uint32_t rank = 1, uint32_t wanted = 0) {
  wire::Hello hello;
  hello.protocol = wire::kProtocolVersion;
  hello.program = "0.1.0";
  hello.rank = rank;
  hello.wanted_rank = wanted;
  hello.incarnation = 7;
  hello.fingerprint = "avx2";
  hello.nonce = of.nonce();
  return hello;
}

DiallerProof dialler(const ProofMeans& of, const wire::Hello& greeting) {
  return {of.secret, greeting, greeting.wanted_rank};
}

TEST(MutualProof, BothHoldTheSecret) {
  const ProofMeans task = means();
  const wire::Hello greeting = hello(task);
  DiallerProof mine = dialler(task, greeting);
  const AcceptorProof theirs(means(), greeting, 0);
  EXPECT_FALSE(mine.proven());
  const std::optional<wire::Proof> answer = mine.answer(theirs.challenge());
  ASSERT_TRUE(answer);
  EXPECT_TRUE(mine.proven());
  EXPECT_TRUE(theirs.holds(*answer));
  EXPECT_FALSE(mine.answer(theirs.challenge())) << "a proof is given once";
}

TEST(MutualProof, GuestsToo) {
  const ProofMeans guest = means();
  const wire::Guest greeting{"0.1.0", guest.nonce()};
  DiallerProof mine(guest.secret, greeting, std::nullopt);
  const AcceptorProof theirs(means(), greeting, 3);
  const std::optional<wire::Proof> answer = mine.answer(theirs.challenge());
  ASSERT_TRUE(answer);
  EXPECT_TRUE(theirs.holds(*answer));
}

TEST(MutualProof, AnotherSecretProvesNothing) {
  const ProofMeans stranger = means('x');
  const wire::Hello greeting = hello(means());
  DiallerProof mine = dialler(means(), greeting);
  EXPECT_FALSE(mine.answer(AcceptorProof(stranger, greeting, 0).challenge()));
  EXPECT_FALSE(mine.proven());
  const AcceptorProof theirs(means(), greeting, 0);
  DiallerProof other = dialler(stranger, greeting);
  EXPECT_FALSE(other.answer(theirs.challenge()));
  EXPECT_FALSE(theirs.holds({}));
}

TEST(MutualProof, OfAnotherConversationProvesNothing) {
  const ProofMeans task = means(), server = means();
  const wire::Hello before = hello(task), now = hello(task);
  const AcceptorProof then(server, before, 0), theirs(server, now, 0);
  DiallerProof old = dialler(task, before), mine = dialler(task, now);
  EXPECT_FALSE(mine.answer(then.challenge())) << "a recorded challenge";
  const std::optional<wire::Proof> recorded = old.answer(then.challenge());
  ASSERT_TRUE(recorded);
  EXPECT_FALSE(theirs.holds(*recorded)) << "a recorded proof";
  const AcceptorProof again(server, before, 0);  // the same Hello once more, word by word
  EXPECT_FALSE(again.holds(*recorded));
}

TEST(MutualProof, NothingOfTheGreetingCanBeChanged) {
  const ProofMeans task = means();
  const wire::Hello sent = hello(task);
  const auto with = [&](auto change) {
    wire::Hello other = sent;
    change(other);
    return other;
  };
  const std::vector<wire::Hello> changed = {
      with([](wire::Hello& h) { h.rank = 2; }),
      with([](wire::Hello& h) { h.wanted_rank = 5; }),
      with([](wire::Hello& h) { ++h.incarnation; }),
      with([](wire::Hello& h) { h.protocol = 1; }),
      with([](wire::Hello& h) { h.program = "0.1.1"; }),
      with([](wire::Hello& h) { h.run_digest[31] ^= 1; }),
      with([](wire::Hello& h) { h.data_digest[0] ^= 1; }),
      with([](wire::Hello& h) { h.cluster_digest[9] ^= 1; }),
      with([](wire::Hello& h) { h.init_digest[9] ^= 1; }),
      with([](wire::Hello& h) { h.fingerprint += "x"; }),
      with([](wire::Hello& h) { h.nonce[31] ^= 1; }),
  };
  for (const wire::Hello& arrived : changed) {
    const AcceptorProof theirs(means(), arrived, 0);
    DiallerProof mine = dialler(task, sent), forged = dialler(task, arrived);
    EXPECT_FALSE(mine.answer(theirs.challenge())) << wire::print(arrived);
    // Even where the challenge is one for the greeting that was sent.
    const AcceptorProof right(means(), sent, 0);
    ASSERT_TRUE(mine.answer(right.challenge()));
    const std::optional<wire::Proof> answer = dialler(task, sent).answer(right.challenge());
    ASSERT_TRUE(answer);
    EXPECT_FALSE(theirs.holds(*answer)) << wire::print(arrived);
  }
}

TEST(MutualProof, NothingOfTheChallengeCanBeChanged) {
  const ProofMeans task = means();
  const wire::Hello greeting = hello(task);
  const wire::Challenge good = AcceptorProof(means(), greeting, 0).challenge();
  for (size_t i = 0; i < 32; ++i) {
    wire::Challenge other = good;
    other.nonce[i] ^= 0x80;
    EXPECT_FALSE(dialler(task, greeting).answer(other));
    other = good;
    other.proof[i] ^= 1;
    EXPECT_FALSE(dialler(task, greeting).answer(other));
  }
  wire::Challenge other = good;
  other.rank = 2;
  DiallerProof mine = dialler(task, greeting);
  EXPECT_FALSE(mine.answer(other));
  EXPECT_FALSE(mine.another_rank()) << "who lies about its rank has not proven it";
}

// A task that the dialler reached in place of the wanted one: by mistake, or since somebody sent it there.
TEST(MutualProof, AnotherRankIsNotAnswered) {
  const ProofMeans task = means();
  const wire::Hello greeting = hello(task, 2, 0);
  DiallerProof mine = dialler(task, greeting);
  EXPECT_FALSE(mine.answer(AcceptorProof(means(), greeting, 1).challenge()));
  EXPECT_EQ(mine.another_rank(), 1u);
  EXPECT_FALSE(mine.proven());
  EXPECT_FALSE(mine.answer(AcceptorProof(means(), greeting, 0).challenge())) << "it is over";
}

// Somebody without the secret shows a task its own words on another connection.
TEST(MutualProof, WhatATaskSaysItselfIsNoProofForIt) {
  const ProofMeans task = means();
  const wire::Hello greeting = hello(task, 1, 0);
  DiallerProof mine = dialler(task, greeting);
  const AcceptorProof itself(task, greeting, 1);
  EXPECT_FALSE(mine.answer(itself.challenge()));
  EXPECT_FALSE(mine.proven());
  EXPECT_FALSE(itself.holds({itself.challenge().proof})) << "the proof of one role is none of the other";
  // Not even where both ends of the connection are said to be the same task.
  const wire::Hello to_itself = hello(task, 1, 1);
  const AcceptorProof mirror(task, to_itself, 1);
  EXPECT_FALSE(mirror.holds({mirror.challenge().proof}));
}

// The fields of the one can be the fields of the other: their bytes alone do not say which they are.
TEST(MutualProof, AGuestsProofIsNoTasks) {
  const ProofMeans task = means();
  wire::Guest guest{"", task.nonce()};
  DiallerProof mine(task.secret, guest, std::nullopt);
  const wire::Challenge challenge = AcceptorProof(means(), guest, 0).challenge();
  const std::optional<wire::Proof> answer = mine.answer(challenge);
  ASSERT_TRUE(answer);
  wire::Hello as_task = hello(task);
  as_task.nonce = guest.nonce;
  EXPECT_FALSE(AcceptorProof(means(), as_task, 0).holds(*answer));
  EXPECT_FALSE(dialler(task, as_task).answer(challenge));
}

}  // namespace
}  // namespace dtrain::net
