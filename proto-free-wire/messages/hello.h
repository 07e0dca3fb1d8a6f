// First message of a connection, from the side that dials: who I am and what I run. All of it must agree with the
// other side; the first field that does not is named in Refuse.
#pragma once

#include <cstdint>
#include <string>

#include "base/sha256.h"
#include "proto-free-wire/message_type.h"

namespace dtrain::wire {

struct Hello {
  static constexpr MessageType kType = MessageType::kHello;

  uint16_t protocol = 0;     // version of this protocol
  std::string program;       // "0.1.0"
  uint32_t rank = 0;         // of the sender in the cluster spec
  uint32_t wanted_rank = 0;  // whom the sender believes to have reached
  uint64_t incarnation = 0;  // random; one life of one process
  Digest run_digest{};       // effective configuration, but for what may differ
  Digest data_digest{};      // training and test data; zero where the sender reads none
  Digest cluster_digest{};   // the cluster spec
  Digest init_digest{};      // of the model that parameters begin with; zero where the sender knows of none
  std::string fingerprint;   // arithmetic: library, instruction set, probe; empty where the sender computes nothing
  Digest nonce{};            // random, never used before; zero where the sender has no secret to prove

  template <typename Self, typename Visitor>
  static void fields(Self& m, Visitor&& v) {
    v("protocol", m.protocol);
    v("program", m.program);
    v("rank", m.rank);
    v("wanted_rank", m.wanted_rank);
    v("incarnation", m.incarnation);
    v("run_digest", m.run_digest);
    v("data_digest", m.data_digest);
    v("cluster_digest", m.cluster_digest);
    v("init_digest", m.init_digest);
    v("fingerprint", m.fingerprint);
    v("nonce", m.nonce);
  }
  bool operator==(const Hello&) const = default;
};

}  // namespace dtrain::wire
