// The compute side of a simulated worker: takes work from a WorkerProtocol, lets simulated time pass, hands gradients
// in one by one. One life; whoever owns it ends it by destroying it.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "net/memory/memory_network.h"
#include "sim/draw.h"
#include "sim/fake_model.h"
#include "sim/scenario.h"
#include "worker/worker_protocol.h"

namespace dtrain::sim {

class SimWorker {
 public:
  // What it borrows outlives it.
  struct World {
    const Scenario& scenario;
    const ps::BlockTable& table;
    net::MemoryNetwork& network;
    const ManualClock& clock;
    std::function<void(std::string)> fail;  // what must not happen has happened
    std::function<bool()> sabotage_once;    // true: now is the time for the scenario's sabotage
  };
  SimWorker(const World& world, wire::Rank rank, uint64_t life);

  Status on_message(wire::Rank from, const wire::Message& message, ByteSpan payload);
  void freeze(bool frozen) { frozen_ = frozen; }

 private:
  // Goes on with whatever can be done now.
  void pump();
  void later(void (SimWorker::*what)());
  void compute();
  void hand_in();
  void check_memory();
  void leave();
  std::vector<float> sum(ParameterIndex p, float c, ps::Node node);
  bool leased();
  void wake(Instant at);  // pumps

  World world_;
  const wire::Rank rank_;
  Draw draw_;
  Values memory_;
  std::unique_ptr<worker::WorkerProtocol> protocol_;
  std::optional<worker::Work> work_;
  bool computing_ = false;
  Values read_;  // as it was at the start, of what the work still reads
  std::vector<std::shared_ptr<const std::vector<float>>> gradients_;  // still to be handed in, last first
  // Gradient memory is as scarce as an engine's: sets, which come back when nobody holds them. The last ones are those
  // of the work in progress, of which the first will hold its sum.
  struct Sets {
    size_t made = 0, free = 0;
  };
  std::shared_ptr<Sets> sets_ = std::make_shared<Sets>();
  std::vector<std::shared_ptr<const void>> leases_;
  bool frozen_ = false;
  uint64_t task_ = 0;                                       // counts what is scheduled: older ones are void
  std::shared_ptr<char> alive_ = std::make_shared<char>();  // what is scheduled holds it weakly
};

}  // namespace dtrain::sim
