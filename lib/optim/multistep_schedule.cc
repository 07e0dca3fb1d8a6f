#include <algorithm>
#include <cmath>

#include "optim/registry.h"

namespace dtrain::optim {
namespace {

// gamma for each milestone that is reached: torch.optim.lr_scheduler.MultiStepLR, in steps.
class MultistepSchedule final : public Schedule {
 public:
  MultistepSchedule(double gamma, std::vector<int64_t> milestones)
      : gamma_(gamma), milestones_(std::move(milestones)) {}

 private:
  double after_warmup(int64_t s, int64_t) const override {
    const auto reached = std::ranges::count_if(milestones_, [s](int64_t m) { return s >= m; });
    return std::pow(gamma_, static_cast<double>(reached));
  }

  double gamma_;
  std::vector<int64_t> milestones_;
};

std::unique_ptr<Schedule> make(config::TableReader& reader) {
  const double gamma = reader.require_number("gamma", 0.0);
  std::vector<int64_t> milestones = reader.require_integers("milestones", 1);
  if (!std::ranges::is_sorted(milestones)) reader.error("milestones", "'milestones' in [schedule] must not fall");
  return std::make_unique<MultistepSchedule>(gamma, std::move(milestones));
}

[[maybe_unused]] const bool registered = ScheduleRegistry::instance().add("multistep", make);

}  // namespace
}  // namespace dtrain::optim
