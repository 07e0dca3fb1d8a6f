// Asynchronous: a gradient is applied when it comes (Downpour SGD: Dean et al. 2012, algorithm 7.1; MXNet's
// dist_async), each block by itself. A worker fetches parameters every fetch_every and pushes the sum of its gradients
// every push_every micro-batches, with SGD on its own copy in between. A gradient whose block has gone on by `most_lag`
// pushes or more is dropped (Paddle's bounded asynchrony; 0: none is). delay_compensation is the λ of DC-ASGD (Zheng et
// al. 2017): g + λ·g⊙g⊙(w − w_read).
#include "consistency/registry.h"

namespace dtrain::consistency {
namespace {

class Async final : public AdmissionRule {
 public:
  Async(Mode mode, int64_t most_lag) : AdmissionRule(std::move(mode)), most_lag_(most_lag) {}
  Fate fate(int64_t version, int64_t step) const override {
    if (step > version) return Fate::kEarly;
    return most_lag_ > 0 && version - step >= most_lag_ ? Fate::kLate : Fate::kJoins;
  }
  int64_t oldest(int64_t) const override { return 0; }

 private:
  const int64_t most_lag_;
};

std::unique_ptr<AdmissionRule> make(config::TableReader& reader) {
  constexpr int64_t kMost = 1'000'000;
  Mode mode{.name = "async", .same_bits = false, .lockstep = false, .needed = 1, .newest = true, .single = true};
  mode.fetch_every = reader.integer("fetch_every", 1, 1, kMost);
  mode.push_every = reader.integer("push_every", 1, 1, kMost);
  mode.delay_compensation = reader.number("delay_compensation", 0.0, 0.0, 1e6);
  const int64_t most_lag = reader.integer("most_lag", 0, 0);
  return std::make_unique<Async>(mode, most_lag);
}

[[maybe_unused]] const bool registered = RuleRegistry::instance().add("async", make);

}  // namespace
}  // namespace dtrain::consistency
