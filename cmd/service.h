// Who started this process and wants to hear of it: a service manager, or the launcher.
#pragma once

#include "base/log.h"
#include "observe/service_notifier.h"

namespace dtrain::cmd {

// By NOTIFY_SOCKET, WATCHDOG_USEC and WATCHDOG_PID of the environment, as sd_notify(3) and sd_watchdog_enabled(3) have
// them; they are taken out of it, since children are not meant. Where nobody asks the notifier says nothing; where the
// address is of no use the log says why.
observe::ServiceNotifier service_of_environment(Log& log);

}  // namespace dtrain::cmd
