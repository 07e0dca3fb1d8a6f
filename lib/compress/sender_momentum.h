// SGD's momentum, applied by a sender before it chooses what to send. What waits there has had its momentum then, and
// arrives as a whole; momentum at the servers would first begin to act on it when it comes.
#pragma once

#include <optional>
#include <span>

#include "compress/method.h"

namespace dtrain::compress {

class SenderMomentum {
 public:
  SenderMomentum(double momentum, bool nesterov) : momentum_(momentum), nesterov_(nesterov) {}

  // For methods that do without where it is not theirs to apply: empty for parameters, for optimizers without such
  // momentum, and where servers clip the norm of gradients.
  static std::optional<SenderMomentum> of(const MethodSetting& setting);

  // u = m·u + g, moved += u; with Nesterov's u = m·(u + g), moved += u + g, as in the code of Lin et al. 2018. g is
  // scale · gradient. That is what a step does, whatever it is pushed in: c.passed = 0 is another part of the gradient
  // of the step before, which joins that one's, and of more than one step those between had no gradient here.
  void add(const EncodeContext& c, float scale, std::span<const float> gradient, float* u, float* moved) const;

 private:
  double momentum_;
  bool nesterov_;
};

}  // namespace dtrain::compress
