#include "worker/worker_protocol.h"

#include "worker/async_protocol.h"
#include "worker/sync_protocol.h"

namespace dtrain::worker {

std::unique_ptr<WorkerProtocol> WorkerProtocol::make(const ps::BlockTable& table, Setup setup, wire::Outbox& outbox) {
  if (!setup.rule || setup.rule->mode().lockstep)
    return std::make_unique<SyncProtocol>(table, std::move(setup), outbox);
  return std::make_unique<AsyncProtocol>(table, std::move(setup), outbox);
}

}  // namespace dtrain::worker
