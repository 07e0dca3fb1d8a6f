#include "worker/engine/op_profile.h"

namespace dtrain::worker {

Nanoseconds OpProfile::lap() {
  const Instant now = clock_.now();
  const Nanoseconds passed = now - last_;
  last_ = now;
  return passed;
}

void OpProfile::begin(const graph::Executable& program) {
  if (ops_.empty()) {
    for (size_t i = 0; i < program.steps().size(); ++i) {
      const graph::PlanStep& step = program.steps()[i];
      ops_.push_back({.name = step.op,
                      .implementation = step.kernel->implementation(),
                      .layer = step.layer,
                      .flops = step.kernel->flops,
                      .bytes = static_cast<double>(program.bytes_moved(static_cast<int>(i)))});
    }
  }
  const Nanoseconds passed = lap();
  if (counts_) between_ += passed;
  counts_ = warmup_-- <= 0;
  if (counts_) ++runs_;
}

void OpProfile::computed(int op) {
  const Nanoseconds passed = lap();
  if (!counts_) return;
  ops_[static_cast<size_t>(op)].compute += passed;
  ++ops_[static_cast<size_t>(op)].runs;
}

void OpProfile::done(int op) {
  const Nanoseconds passed = lap();
  if (counts_) ops_[static_cast<size_t>(op)].hand_over += passed;
}

void OpProfile::end() { (void)lap(); }

}  // namespace dtrain::worker
