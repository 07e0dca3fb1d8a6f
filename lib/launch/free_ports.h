// Ports for tasks on this machine that nobody can take in between: sockets that are bound and listening already, to be
// inherited by the tasks.
#pragma once

#include <cstdint>
#include <vector>

#include "base/result.h"

namespace dtrain::launch {

struct ReservedPort {
  int fd = -1;  // listening on 127.0.0.1, owned by the caller; close-on-exec: each is for one task alone
  uint16_t port = 0;
};

Result<std::vector<ReservedPort>> reserve_ports(size_t count);

}  // namespace dtrain::launch
