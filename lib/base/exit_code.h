// The exit codes of every dtrain command: the one table that scripts, launchers and schedulers rely on.
#pragma once

namespace dtrain {

enum class ExitCode : int {
  kDone = 0,
  kBug = 1,             // an invariant of dtrain itself failed
  kUsage = 2,           // command line or configuration
  kData = 3,            // a data file is missing, malformed or out of range
  kPeerLost = 4,        // a task that the run cannot do without is gone, or never came
  kCheckpoint = 5,      // a checkpoint cannot be read or written
  kAuthentication = 6,  // a peer does not belong to this run
  kNotFinite = 7,       // NaN or infinity in a loss or gradient
  kInterrupted = 130,   // SIGINT or SIGTERM
};

}  // namespace dtrain
