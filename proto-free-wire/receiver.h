// Which role of a task a message is for.
#pragma once

#include "proto-free-wire/message_type.h"

namespace dtrain::wire {

enum class Receiver {
  kCoordinator,
  kServer,
  kWorker,
  kDesk,        // of guests, and of how tasks are doing
  kTask,        // the task itself, which has the roles
  kConnection,  // the transport, or a guest or whoever meets one: not handed to a role
};

Receiver receiver(MessageType type);

}  // namespace dtrain::wire
