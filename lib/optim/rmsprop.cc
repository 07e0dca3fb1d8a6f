#include <cmath>

#include "base/vectorize.h"
#include "optim/registry.h"

namespace dtrain::optim {
namespace {

struct Scalars {
  float scale, rate, alpha, one_minus_alpha, decay, epsilon, momentum;
};

// What a step does beyond the mean of squares.
enum Kind : int { kPlain = 0, kMomentum = 1, kCentered = 2 };

template <int kind>
__attribute__((always_inline)) inline void loop(Scalars k, size_t n, const float* g, const float* from, float* to,
                                                float* square, float* buffer, float* mean) {
  DTRAIN_INDEPENDENT
  for (size_t i = 0; i < n; ++i) {
    const float d = k.scale * g[i] + k.decay * from[i];
    float s = k.alpha * square[i] + k.one_minus_alpha * d * d;
    square[i] = s;
    if constexpr ((kind & kCentered) != 0) {
      const float m = k.alpha * mean[i] + k.one_minus_alpha * d;
      mean[i] = m;
      s -= m * m;
      s = s > 0.0f ? s : 0.0f;  // rounding can make it a little less, of which PyTorch makes NaN
    }
    const float x = d / (std::sqrt(s) + k.epsilon);
    if constexpr ((kind & kMomentum) != 0) {
      const float b = k.momentum * buffer[i] + x;
      buffer[i] = b;
      to[i] = from[i] - k.rate * b;
    } else {
      to[i] = from[i] - k.rate * x;
    }
  }
}

DTRAIN_CLONES void plain(Scalars k, size_t n, const float* g, const float* from, float* to, float* square) {
  loop<kPlain>(k, n, g, from, to, square, nullptr, nullptr);
}

DTRAIN_CLONES void with_momentum(Scalars k, size_t n, const float* g, const float* from, float* to, float* square,
                                 float* buffer) {
  loop<kMomentum>(k, n, g, from, to, square, buffer, nullptr);
}

DTRAIN_CLONES void centered(Scalars k, size_t n, const float* g, const float* from, float* to, float* square,
                            float* mean) {
  loop<kCentered>(k, n, g, from, to, square, nullptr, mean);
}

DTRAIN_CLONES void centered_with_momentum(Scalars k, size_t n, const float* g, const float* from, float* to,
                                          float* square, float* buffer, float* mean) {
  loop<kMomentum | kCentered>(k, n, g, from, to, square, buffer, mean);
}

// torch.optim.RMSprop (Tieleman and Hinton 2012; centered: Graves 2013). Epsilon is added to the root.
class RmsProp final : public Optimizer {
 public:
  RmsProp(double alpha, double momentum, double epsilon, double decay, bool centered)
      : alpha_(alpha), momentum_(momentum), epsilon_(epsilon), decay_(decay), centered_(centered) {}

  std::vector<std::string> slot_names() const override {
    std::vector<std::string> names{"square_avg"};
    if (momentum_ != 0.0) names.push_back("momentum_buffer");
    if (centered_) names.push_back("grad_avg");
    return names;
  }

  void update(const UpdateContext& c, size_t n, const float* gradient, const float* from, float* to,
              float* const* slots) const override {
    Scalars k;
    k.scale = c.scale;
    k.rate = static_cast<float>(c.rate);
    k.alpha = static_cast<float>(alpha_);
    k.one_minus_alpha = static_cast<float>(1 - alpha_);
    k.decay = static_cast<float>(decay_ * c.decay_multiplier);
    k.epsilon = static_cast<float>(epsilon_);
    k.momentum = static_cast<float>(momentum_);
    if (centered_ && momentum_ != 0.0) {
      centered_with_momentum(k, n, gradient, from, to, slots[0], slots[1], slots[2]);
    } else if (centered_) {
      centered(k, n, gradient, from, to, slots[0], slots[1]);
    } else if (momentum_ != 0.0) {
      with_momentum(k, n, gradient, from, to, slots[0], slots[1]);
    } else {
      plain(k, n, gradient, from, to, slots[0]);
    }
  }

 private:
  double alpha_, momentum_, epsilon_, decay_;
  bool centered_;
};

std::unique_ptr<Optimizer> make(config::TableReader& reader) {
  const double alpha = reader.number("decay", 0.99, 0.0, 1.0);
  const double momentum = reader.number("momentum", 0.0, 0.0, 1.0);
  const double epsilon = reader.number("epsilon", 1e-8, 0.0);
  const double decay = reader.number("weight_decay", 0.0, 0.0);
  return std::make_unique<RmsProp>(alpha, momentum, epsilon, decay, reader.boolean("centered", false));
}

[[maybe_unused]] const bool registered = OptimizerRegistry::instance().add("rmsprop", make);

}  // namespace
}  // namespace dtrain::optim
