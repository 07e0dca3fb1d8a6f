#include "net/handshake.h"

#include <gtest/gtest.h>

namespace dtrain::net {
namespace {

Digest digest(uint8_t byte) {
  Digest d;
  d.fill(byte);
  return d;
}

wire::Hello hello() {
  return {.protocol = 1,
          .program = "0.1.0",
          .rank = 1,
          .wanted_rank = 0,
          .incarnation = 7,
          .run_digest = digest(1),
          .data_digest = digest(2),
          .cluster_digest = digest(3),
          .fingerprint = "avx2"};
}

std::string field_of(const std::optional<wire::Refuse>& refuse) { return refuse ? refuse->field : ""; }

TEST(Handshake, EqualRunsAgreeWhoeverTheyAre) {
  wire::Hello other = hello();
  other.rank = 5;
  other.wanted_rank = 6;
  other.incarnation = 8;
  EXPECT_EQ(field_of(first_difference(hello(), other)), "");
}

TEST(Handshake, NamesTheFieldThatDiffers) {
  const auto changed = [](auto change) {
    wire::Hello other = hello();
    change(other);
    return field_of(first_difference(hello(), other));
  };
  EXPECT_EQ(changed([](wire::Hello& h) { h.protocol = 2; }), "protocol");
  EXPECT_EQ(changed([](wire::Hello& h) { h.program = "0.2.0"; }), "program");
  EXPECT_EQ(changed([](wire::Hello& h) { h.run_digest = digest(9); }), "run_digest");
  EXPECT_EQ(changed([](wire::Hello& h) { h.data_digest = digest(9); }), "data_digest");
  EXPECT_EQ(changed([](wire::Hello& h) { h.cluster_digest = digest(9); }), "cluster_digest");
  EXPECT_EQ(changed([](wire::Hello& h) { h.fingerprint = "avx512"; }), "fingerprint");
}

TEST(Handshake, WhoReadsNoDataOrComputesNothingAgrees) {
  wire::Hello server = hello();
  server.data_digest = Digest{};
  server.fingerprint = "";
  EXPECT_EQ(field_of(first_difference(hello(), server)), "");
  EXPECT_EQ(field_of(first_difference(server, hello())), "");
}

TEST(Handshake, ExplainsWithBothSides) {
  wire::Hello other = hello();
  other.program = "0.2.0";
  EXPECT_EQ(explain(*first_difference(hello(), other), {"/job:ps/task:0", "10.0.0.1", 2500}),
            "/job:ps/task:0 (10.0.0.1:2500) refused this task: program differs: 0.1.0 there, 0.2.0 here");
}

TEST(Endpoint, BracketsIpv6) {
  EXPECT_EQ(to_string(Endpoint{"", "::1", 2500}), "[::1]:2500");
  EXPECT_EQ(to_string(Endpoint{"", "host", 1}), "host:1");
}

}  // namespace
}  // namespace dtrain::net
