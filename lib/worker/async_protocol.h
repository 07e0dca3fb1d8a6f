// The worker's protocol without lockstep: micro-batches are leased one after the other, parameters are fetched in their
// newest version every so many, gradients pushed when they are there. Metrics leave when all servers have taken the
// push, with how far it was behind.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "worker/known_rates.h"
#include "worker/offered_gradients.h"
#include "worker/worker_protocol.h"

namespace dtrain::worker {

class AsyncProtocol final : public WorkerProtocol {
 public:
  AsyncProtocol(const ps::BlockTable& table, Setup setup, wire::Outbox& outbox);

  Status on_message(wire::Rank from, const wire::Message& message, ByteSpan payload = {}) override;
  std::optional<Work> next_work() const override;
  bool parameter_ready(ParameterIndex parameter, int64_t step) const override;
  bool cancelled(const Work& work) const override { return !current_ || *current_ != work; }
  void started(const Work& work) override;
  void metrics(const Work& work, const Metrics& metrics) override;
  void gradient(const Work& work, const Sum& sum, std::shared_ptr<const void> owner) override;
  void finished(const Work& work) override;
  size_t unanswered(const Work& work) const override { return offers_.unanswered(work); }
  double rate(int64_t step) const override { return rates_.at(step); }
  int64_t step() const override;

 private:
  struct Held {
    int64_t version = -1;  // that is there, or on its way
    uint32_t missing = 0;  // chunks that have not come
  };
  // A push under way, and the micro-batches that it is the sum of.
  struct Push {
    std::vector<wire::MetricNode> metrics;
    uint32_t lag = 0;
    bool dropped = false, finished = false;
  };

  Status on(wire::Rank from, const wire::Assign& m);
  Status on(wire::Rank from, const wire::WorkerRates& m);
  Status on(wire::Rank from, const wire::Absorbed& m);
  Status on(wire::Rank from, const wire::ParameterChunk& m, ByteSpan payload);
  int64_t first_step() const;               // of what it has been leased
  uint32_t number(const Work& work) const;  // of its micro-batch in the run, as far as it fits
  void fetch();
  void fetch_if_due();
  void send_metrics(const Work& work);

  const ps::BlockTable& table_;
  const Setup setup_;
  wire::Outbox& outbox_;
  OfferedGradients offers_;
  KnownRates rates_;
  struct Leased {
    int64_t first = 0, last = 0;
  };
  std::deque<Leased> leases_;     // micro-batches [first, last) of the run; the first is worked on
  std::deque<Work> evaluations_;  // nodes
  std::optional<Work> current_;
  bool fetched_ = false;     // for the next work
  int64_t since_fetch_ = 0;  // works
  std::vector<Held> held_;
  std::vector<wire::MetricNode> waiting_;  // of works before a push
  std::map<Work, Push> pushes_;
};

}  // namespace dtrain::worker
