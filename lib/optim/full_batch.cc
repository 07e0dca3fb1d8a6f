// The optimizer "lbfgs" as a run file names it. The arithmetic is in lbfgs.cc; it needs all parameters at once.
#include "base/check.h"
#include "optim/lbfgs.h"
#include "optim/registry.h"

namespace dtrain::optim {
namespace {

class FullBatch final : public Optimizer {
 public:
  explicit FullBatch(LbfgsOptions options) : options_(options) {}

  // The pairs, the oldest first; zeros where there are fewer.
  std::vector<std::string> slot_names() const override {
    std::vector<std::string> names;
    for (int64_t i = 0; i < options_.history; ++i) {
      names.push_back(fmt::format("s{}", i));
      names.push_back(fmt::format("y{}", i));
    }
    return names;
  }
  const LbfgsOptions* full_batch() const override { return &options_; }
  void update(const UpdateContext&, size_t, const float*, const float*, float*, float* const*) const override {
    DTRAIN_CHECK(false, "L-BFGS moves no element by itself");
  }

 private:
  const LbfgsOptions options_;
};

std::unique_ptr<Optimizer> make(config::TableReader& reader) {
  LbfgsOptions options;
  options.history = reader.integer("history", options.history, 1, 1000);
  options.tolerance = reader.number("tolerance", options.tolerance, 0.0);
  return std::make_unique<FullBatch>(options);
}

[[maybe_unused]] const bool registered = OptimizerRegistry::instance().add("lbfgs", make);

}  // namespace
}  // namespace dtrain::optim
