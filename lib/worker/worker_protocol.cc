#include "worker/worker_protocol.h"

#include "base/check.h"
#include "worker/async_protocol.h"
#include "worker/sync_protocol.h"

namespace dtrain::worker {

std::unique_ptr<WorkerProtocol> WorkerProtocol::make(const ps::BlockTable& table, Setup setup, wire::Outbox& outbox) {
  if (!setup.rule || setup.rule->mode().lockstep)
    return std::make_unique<SyncProtocol>(table, std::move(setup), outbox);
  return std::make_unique<AsyncProtocol>(table, std::move(setup), outbox);
}

void WorkerProtocol::pull_rows(const Work&, std::span<const uint64_t>, std::span<float* const>) {
  DTRAIN_CHECK(false, "this protocol knows no sparse tables");
}

bool WorkerProtocol::rows_ready() const { return true; }

void WorkerProtocol::push_rows(const Work&, uint32_t, std::span<const uint64_t>, std::span<const float* const>) {
  DTRAIN_CHECK(false, "this protocol knows no sparse tables");
}

}  // namespace dtrain::worker
