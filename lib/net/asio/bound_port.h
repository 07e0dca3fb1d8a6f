// Sockets of TCP that are bound to one port and do not listen yet. A launcher binds free ports, tells all tasks the
// numbers, and lets each child inherit its own: nobody can take the port in between, and who dials too early is refused
// at once rather than left waiting.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/log.h"
#include "base/result.h"
#include "net/asio/unique_fd.h"

namespace dtrain::net {

struct BoundPort {
  std::string host;
  uint16_t port = 0;
  std::vector<UniqueFd> sockets;  // one for each address of `host` on this host; close-on-exec
};

// Binds every address of `host` that belongs to this host; port 0: a free one. Never another address than asked for.
// Errors (kUsage): the name does not resolve, no address of it is here, the port is taken (and by whom).
Result<BoundPort> bind_port(const std::string& host, uint16_t port, Log& log);

// Takes over sockets that a parent has bound. Errors (kUsage): not open, not bound, not TCP.
Result<BoundPort> adopt_port(const std::vector<int>& fds);

// "port 2500 of 127.0.0.1 is in use by process …"
Error port_in_use(const std::string& host, uint16_t port);

}  // namespace dtrain::net
