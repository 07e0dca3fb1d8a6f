// Who runs the worker role of a task: on the loop thread itself (one process) or on a thread beside it (a cluster).
// Called on the loop thread.
#pragma once

#include <memory>

#include "node/worker_side.h"

namespace dtrain::node {

class WorkerDriver {
 public:
  // How the driver reports; on the loop thread, never from within a call to the driver.
  class Listener {
   public:
    virtual ~Listener() = default;
    virtual void worker_prepared() = 0;
    virtual void worker_failed(const Error& error) = 0;
  };

  virtual ~WorkerDriver() = default;
  // Prepares the worker, then reports, then works whenever there is work. `listener` outlives stop().
  virtual void begin(std::unique_ptr<WorkerSide> worker, Listener& listener) = 0;
  // A message for the worker's protocol; its error is the peer's fault.
  virtual Status deliver(wire::Rank from, const wire::Message& message, ByteSpan payload) = 0;
  // Returns when nothing is computed any more.
  virtual void stop() = 0;
};

}  // namespace dtrain::node
