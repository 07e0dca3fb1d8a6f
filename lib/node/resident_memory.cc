#include "node/resident_memory.h"

#include <unistd.h>

#include <fstream>

namespace dtrain::node {

uint64_t resident_bytes() {
  std::ifstream statm("/proc/self/statm");
  uint64_t all = 0, resident = 0;
  if (!(statm >> all >> resident)) return 0;
  return resident * static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
}

}  // namespace dtrain::node
