#include "net/endpoint.h"

#include <fmt/format.h>

namespace dtrain::net {

std::string to_string(const Endpoint& endpoint) {
  const bool six = endpoint.host.find(':') != std::string::npos;
  return fmt::format("{}{}{}:{}", six ? "[" : "", endpoint.host, six ? "]" : "", endpoint.port);
}

}  // namespace dtrain::net
