// Where a task of a cluster listens.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace dtrain::cluster {

struct TaskAddress {
  std::string host;  // a name, an IPv4 address, or an IPv6 address without its brackets
  uint16_t port = 0;
  bool operator==(const TaskAddress&) const = default;
};

std::string to_string(const TaskAddress& address);  // "host:2500", "[::1]:2500"

// "host:port", "[v6]:port". The error says what is wrong with it.
Result<TaskAddress> parse_address(std::string_view text);

}  // namespace dtrain::cluster
