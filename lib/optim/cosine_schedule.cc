#include <cmath>
#include <numbers>

#include "optim/registry.h"

namespace dtrain::optim {
namespace {

// From 1 down to `floor` in half a cosine (Loshchilov and Hutter 2017, without restarts).
class CosineSchedule final : public Schedule {
 public:
  explicit CosineSchedule(double floor) : floor_(floor) {}

 private:
  double after_warmup(int64_t s, int64_t span) const override {
    const double angle = std::numbers::pi * static_cast<double>(s) / static_cast<double>(span);
    return floor_ + (1 - floor_) * 0.5 * (1 + std::cos(angle));
  }

  double floor_;
};

[[maybe_unused]] const bool registered =
    ScheduleRegistry::instance().add("cosine", [](config::TableReader& reader) -> std::unique_ptr<Schedule> {
      return std::make_unique<CosineSchedule>(reader.number("floor", 0.0, 0.0, 1.0));
    });

}  // namespace
}  // namespace dtrain::optim
