#include "cluster/place/source.h"

namespace dtrain::cluster {

// Those that say most go first: what says addresses, then what says where rank 0 is. mpirun inside a Slurm job
// starts its own tasks, whose SLURM variables are those of mpirun's helpers.
std::span<const Source* const> sources() {
  static const Source* const kSources[] = {&kTfConfig, &kTorchrun, &kOpenMpi, &kSlurm};
  return kSources;
}

}  // namespace dtrain::cluster
