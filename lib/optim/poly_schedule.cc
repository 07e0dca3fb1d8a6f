#include <cmath>

#include "optim/registry.h"

namespace dtrain::optim {
namespace {

// (1 − s / span)^power, as Caffe's policy "poly": down to 0 at the end of the run.
class PolySchedule final : public Schedule {
 public:
  explicit PolySchedule(double power) : power_(power) {}

 private:
  double after_warmup(int64_t s, int64_t span) const override {
    return std::pow(1 - static_cast<double>(s) / static_cast<double>(span), power_);
  }

  double power_;
};

[[maybe_unused]] const bool registered =
    ScheduleRegistry::instance().add("poly", [](config::TableReader& reader) -> std::unique_ptr<Schedule> {
      return std::make_unique<PolySchedule>(reader.number("power", 1.0, 0.0));
    });

}  // namespace
}  // namespace dtrain::optim
