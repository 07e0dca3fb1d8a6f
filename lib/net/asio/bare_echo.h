// Asio with nothing around it: one side sends a message, the other sends it back. What a message's round trip costs at
// least on a kind of socket; `dtrain benchmark wire` compares the transport with it.
#pragma once

#include <cstddef>
#include <vector>

#include "base/clock.h"
#include "base/result.h"

namespace dtrain::net {

// Sends `count` messages of `bytes` over a connected, blocking socket, each when the one before has come back. The time
// of each round trip. Borrows the socket. Errors (kPeerLost): the other side is gone.
Result<std::vector<Nanoseconds>> measure_echo(int fd, size_t bytes, size_t count, const Clock& clock);
// The other side: sends back `count` messages.
Status answer_echo(int fd, size_t bytes, size_t count);

}  // namespace dtrain::net
