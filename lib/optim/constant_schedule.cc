#include "optim/registry.h"

namespace dtrain::optim {
namespace {

class ConstantSchedule final : public Schedule {
  double after_warmup(int64_t, int64_t) const override { return 1.0; }
};

[[maybe_unused]] const bool registered = ScheduleRegistry::instance().add(
    "constant", [](config::TableReader&) -> std::unique_ptr<Schedule> { return std::make_unique<ConstantSchedule>(); });

}  // namespace
}  // namespace dtrain::optim
