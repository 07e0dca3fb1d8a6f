#include "cluster/task_address.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "base/ascii.h"

namespace dtrain::cluster {
namespace {

bool is_ipv4(std::string_view host) {
  for (int left = 4; left > 0; --left) {
    const std::string_view part = left > 1 ? host.substr(0, host.find('.')) : host;
    int value = 0;
    auto [end, code] = std::from_chars(part.data(), part.data() + part.size(), value);
    if (code != std::errc() || end != part.data() + part.size() || part.size() > 3 || !is_digit(part[0]) || value > 255)
      return false;
    if (left > 1 && part.size() == host.size()) return false;
    host.remove_prefix(left > 1 ? part.size() + 1 : part.size());
  }
  return true;
}

// RFC 4291, section 2.2: eight groups of up to four hexadecimal digits, "::" for some of them, perhaps an IPv4 address
// as the last two. A zone may follow (RFC 4007): fe80::1%eth0.
bool is_ipv6(std::string_view host) {
  if (const size_t zone = host.find('%'); zone != std::string_view::npos) {
    if (zone + 1 == host.size()) return false;
    host = host.substr(0, zone);
  }
  int groups = 0;
  bool gap = false;
  if (host.starts_with("::")) {
    gap = true;
    host.remove_prefix(2);
  } else if (host.starts_with(':')) {
    return false;
  }
  while (!host.empty()) {
    const std::string_view group = host.substr(0, host.find(':'));
    if (group.size() == host.size() && is_ipv4(group)) {
      groups += 2;
      host = {};
      break;
    }
    const bool hex = std::all_of(group.begin(), group.end(), [](char c) {
      return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
    });
    if (group.empty() || group.size() > 4 || !hex) return false;
    ++groups;
    host.remove_prefix(group.size());
    if (host.empty()) break;
    host.remove_prefix(1);
    if (host.empty()) return false;
    if (host.front() == ':') {
      if (gap) return false;
      gap = true;
      host.remove_prefix(1);
    }
  }
  return gap ? groups < 8 : groups == 8;
}

bool is_host_name(std::string_view host) {
  if (host.empty() || host.size() > 253 || !is_alnum(host.front())) return false;
  const bool numeric = std::all_of(host.begin(), host.end(), [](char c) { return is_digit(c) || c == '.'; });
  if (numeric) return is_ipv4(host);
  return std::all_of(host.begin(), host.end(),
                     [](char c) { return is_alnum(c) || c == '-' || c == '_' || c == '.'; }) &&
         host.find("..") == std::string_view::npos;
}

}  // namespace

std::string to_string(const TaskAddress& address) {
  const bool v6 = address.host.find(':') != std::string::npos;
  return v6 ? fmt::format("[{}]:{}", address.host, address.port) : fmt::format("{}:{}", address.host, address.port);
}

Result<TaskAddress> parse_address(std::string_view text) {
  auto bad = [text](std::string_view why) {
    return fail(ExitCode::kUsage, fmt::format("'{}' is no address: {}; expected host:port, such as 10.0.0.1:2500 or "
                                              "[::1]:2500",
                                              text, why));
  };
  std::string_view host, port;
  if (text.starts_with('[')) {
    const size_t end = text.find(']');
    if (end == std::string_view::npos) return bad("the bracket is not closed");
    host = text.substr(1, end - 1);
    if (!is_ipv6(host)) return bad("what stands in brackets is no IPv6 address");
    if (text.substr(end + 1, 1) != ":") return bad("the port is missing");
    port = text.substr(end + 2);
  } else {
    const size_t colon = text.find(':');
    if (colon == std::string_view::npos) return bad("the port is missing");
    if (text.find(':', colon + 1) != std::string_view::npos) return bad("an IPv6 address must stand in brackets");
    host = text.substr(0, colon);
    if (!is_host_name(host)) return bad("the host is neither a name nor an IPv4 address");
    port = text.substr(colon + 1);
  }
  unsigned value = 0;
  auto [end, code] = std::from_chars(port.data(), port.data() + port.size(), value);
  if (code != std::errc() || end != port.data() + port.size() || value < 1 || value > 65535) {
    return bad("the port must be a number from 1 to 65535");
  }
  return TaskAddress{std::string(host), static_cast<uint16_t>(value)};
}

}  // namespace dtrain::cluster
