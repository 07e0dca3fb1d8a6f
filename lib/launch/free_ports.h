// Ports for tasks on this machine that nobody can take in between: sockets that are bound already, to be inherited by
// the tasks. They do not listen yet: who came through before the task is there would have missed its Unix-domain
// socket.
#pragma once

#include "launch/host.h"

namespace dtrain::launch {

// A port of 127.0.0.1 for each task; the sockets are close-on-exec: each is for one task alone.
Reserved reserve_ports(const Preparation& what);

}  // namespace dtrain::launch
