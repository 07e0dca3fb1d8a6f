// Ports for tasks on this machine that nobody can take in between: sockets that are bound already, to be inherited by
// the tasks. They do not listen yet: who came through before the task is there would have missed its Unix-domain
// socket.
#pragma once

#include <cstdint>
#include <vector>

#include "base/result.h"

namespace dtrain::launch {

struct ReservedPort {
  int fd = -1;  // bound to 127.0.0.1, owned by the caller; close-on-exec: each is for one task alone
  uint16_t port = 0;
};

Result<std::vector<ReservedPort>> reserve_ports(size_t count);

}  // namespace dtrain::launch
