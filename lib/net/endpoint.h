// Where a task of the cluster spec listens.
#pragma once

#include <cstdint>
#include <string>

namespace dtrain::net {

struct Endpoint {
  std::string name;  // "/job:ps/task:0", for people
  std::string host;  // a name or an address; IPv6 without brackets; "": it listens nowhere
  uint16_t port = 0;
};

// "host:port", "[::1]:2500".
std::string to_string(const Endpoint& endpoint);

}  // namespace dtrain::net
