// How long a transport waits for what.
#pragma once

#include "base/clock.h"

namespace dtrain::net {

struct Timeouts {
  Nanoseconds handshake = 5 * kSecond;  // from a connection to the end of its handshake; also one attempt to connect
  Nanoseconds heartbeat = 2500 * kMillisecond;  // said after so long without another word
  Nanoseconds peer = 10 * kSecond;              // silence after which a peer is lost
  Nanoseconds start = 300 * kSecond;            // dialling without success
  Nanoseconds refused = 300 * kSecond;          // dialling a host that answers each time that nobody listens there
  Nanoseconds retry_first = 20 * kMillisecond;  // between two attempts; doubles
  Nanoseconds retry_longest = 1 * kSecond;
  Nanoseconds progress = 5 * kSecond;  // between two lines that say who is waited for
};

}  // namespace dtrain::net
