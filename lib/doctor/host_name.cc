// What this host's name means to itself, which is what a task that is listed by that name listens at.
#include <fmt/format.h>
#include <unistd.h>

#include "doctor/check.h"
#include "net/asio/socket_address.h"

namespace dtrain::doctor {
namespace {

void look(const Surroundings&, Findings& findings) {
  char buffer[256] = {};
  ::gethostname(buffer, sizeof(buffer) - 1);
  const std::string name = buffer;
  const std::string others = "the addresses of this host: " + net::local_addresses();
  const auto addresses = net::resolve(name, 0);
  if (!addresses || addresses->empty())
    return findings.note(fmt::format("the name '{}' of this host has no address here; {}", name, others),
                         "list its tasks by an address, or give the name one in /etc/hosts or DNS");
  const net::SocketAddress& first = addresses->front();
  if (first.is_loopback())
    return findings.note(
        fmt::format("the name '{}' of this host means {} here{}; {}", name, first.host(),
                    first.host() == "127.0.1.1" ? " (a line in /etc/hosts that Debian's installer writes)" : "",
                    others),
        "a task that is listed by this name would listen where no other host can reach it: list it by an address of "
        "the network, or correct /etc/hosts");
  findings.ok(fmt::format("the name '{}' of this host means {}; {}", name, first.host(), others));
}

}  // namespace

const Check kHostName{"host name", look};

}  // namespace dtrain::doctor
