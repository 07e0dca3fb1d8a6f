// Memory that the tasks of one host share, through which tensors go between them without a copy.
#include "tensor/shared_memory.h"

#include <fmt/format.h>

#include "doctor/check.h"

namespace dtrain::doctor {
namespace {

void look(const Surroundings&, Findings& findings) {
  const auto memory = SharedMemory::create();
  std::byte* const some = memory ? (*memory)->allocate(SharedMemory::kSmallest) : nullptr;
  if (!some)
    return findings.slow(
        fmt::format("there is no memory that processes can share ({})",
                    memory ? "the system gives none" : memory.error().message),
        "tasks of one host copy tensors through sockets instead; a kernel with memfd_create, and a sandbox that allows "
        "it, spare that");
  (*memory)->release(some, SharedMemory::kSmallest);
  findings.ok("tasks of one host can share tensors (memfd; /dev/shm is not used)");
}

}  // namespace

const Check kSharedMemory{"shared memory", look};

}  // namespace dtrain::doctor
