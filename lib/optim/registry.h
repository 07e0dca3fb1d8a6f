// The optimizers and the schedules, by name.
#pragma once

#include "config/registry.h"
#include "optim/optimizer.h"
#include "optim/schedule.h"

namespace dtrain::optim {

using OptimizerRegistry = config::Registry<Optimizer>;
using ScheduleRegistry = config::Registry<Schedule>;

}  // namespace dtrain::optim
