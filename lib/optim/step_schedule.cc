#include <cmath>

#include "optim/registry.h"

namespace dtrain::optim {
namespace {

// gamma^⌊s / every⌋
class StepSchedule final : public Schedule {
 public:
  StepSchedule(double gamma, int64_t every) : gamma_(gamma), every_(every) {}

 private:
  double after_warmup(int64_t s, int64_t) const override { return std::pow(gamma_, static_cast<double>(s / every_)); }

  double gamma_;
  int64_t every_;
};

std::unique_ptr<Schedule> make(config::TableReader& reader) {
  const double gamma = reader.require_number("gamma", 0.0);
  const int64_t every = reader.require_integer("every", 1);
  return std::make_unique<StepSchedule>(gamma, every);
}

[[maybe_unused]] const bool registered = ScheduleRegistry::instance().add("step", make);

}  // namespace
}  // namespace dtrain::optim
