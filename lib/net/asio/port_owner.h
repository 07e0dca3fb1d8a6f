// Who listens at a port of this host.
#pragma once

#include <cstdint>
#include <string>

namespace dtrain::net {

// "process 1234 (dtrain run a.toml --job_name ps --task_id 0)"; empty where it cannot be found, for instance since it
// belongs to another user.
std::string port_owner(uint16_t port);

}  // namespace dtrain::net
