// What a task says to whoever started its process.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "node/task.h"

namespace dtrain::node {

void Task::say_to_service(Instant now) {
  if (!setup_.service) return;
  setup_.service->beat(now);
  if (setup_.service->wants_status(now)) setup_.service->status(doing(), now);
}

std::string Task::doing() const {
  if (stopped_ || ended_) return "leaving the run";
  if (coordinator_) return coordinator_->doing();
  if (!joined_) {
    std::vector<std::string> missing;
    for (const wire::Rank rank : needed_to_join())
      if (!around_.transport.connected(rank)) missing.push_back(name(rank));
    return fmt::format("waiting for {} to be reached", fmt::join(missing, ", "));
  }
  if (!begun_) return fmt::format("waiting for {} to begin the run", name(coordinator_rank()));
  const int64_t step = around_.counters ? counters().step : -1;
  return step < 0 ? "beginning the run" : fmt::format("step {}", step);
}

}  // namespace dtrain::node
