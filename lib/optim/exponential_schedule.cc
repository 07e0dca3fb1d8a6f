#include <cmath>

#include "optim/registry.h"

namespace dtrain::optim {
namespace {

// gamma^s: torch.optim.lr_scheduler.ExponentialLR, in steps.
class ExponentialSchedule final : public Schedule {
 public:
  explicit ExponentialSchedule(double gamma) : gamma_(gamma) {}

 private:
  double after_warmup(int64_t s, int64_t) const override { return std::pow(gamma_, static_cast<double>(s)); }

  double gamma_;
};

[[maybe_unused]] const bool registered =
    ScheduleRegistry::instance().add("exponential", [](config::TableReader& reader) -> std::unique_ptr<Schedule> {
      return std::make_unique<ExponentialSchedule>(reader.require_number("gamma", 0.0, 1.0));
    });

}  // namespace
}  // namespace dtrain::optim
