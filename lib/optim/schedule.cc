#include "optim/schedule.h"

#include <algorithm>

#include "config/table_reader.h"
#include "optim/registry.h"

namespace dtrain::optim {

double Schedule::factor(int64_t step, int64_t total) const {
  if (step < warmup_steps_) return static_cast<double>(step + 1) / static_cast<double>(warmup_steps_);
  return after_warmup(step - warmup_steps_, std::max<int64_t>(1, total - warmup_steps_));
}

std::unique_ptr<Schedule> read_schedule(const config::Value* table, config::Diagnostics& diagnostics) {
  const config::Value none;
  config::TableReader reader(table ? *table : none, diagnostics, "[schedule]");
  std::unique_ptr<Schedule> schedule = ScheduleRegistry::instance().read(reader, "constant");
  schedule->warmup_steps_ = reader.integer("warmup_steps", 0, 0);
  reader.finish();
  return schedule;
}

}  // namespace dtrain::optim
