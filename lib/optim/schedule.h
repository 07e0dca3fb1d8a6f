// How the learning rate moves over a run: a factor on the optimizer's lr for every step. Only the coordinator computes
// it, because it needs libm, which may differ between hosts. Immutable.
#pragma once

#include <cstdint>
#include <memory>

#include "config/diagnostics.h"
#include "config/value.h"

namespace dtrain::optim {

class Schedule {
 public:
  virtual ~Schedule() = default;

  // The factor at `step` (from 0) of `total` steps. The first warmup_steps rise linearly from 1 / warmup_steps to 1
  // (Goyal et al. 2017), whatever the type.
  double factor(int64_t step, int64_t total) const;
  int64_t warmup_steps() const { return warmup_steps_; }

 protected:
  // The factor at step `s` after warm-up (from 0), of `span` ≥ 1 steps after warm-up.
  virtual double after_warmup(int64_t s, int64_t span) const = 0;

 private:
  friend std::unique_ptr<Schedule> read_schedule(const config::Value*, config::Diagnostics&);
  int64_t warmup_steps_ = 0;
};

// Reads the table [schedule]; null means that there is none: constant. Mistakes go to `diagnostics`.
std::unique_ptr<Schedule> read_schedule(const config::Value* table, config::Diagnostics& diagnostics);

}  // namespace dtrain::optim
