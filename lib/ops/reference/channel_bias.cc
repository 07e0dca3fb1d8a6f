#include "ops/channel_bias.h"

#include <vector>

#include "ops/reference/activation_function.h"
#include "ops/reference/plain_op.h"
#include "ops/registry.h"

namespace dtrain::ops::reference {
namespace {

int64_t channel_of(int64_t i, const Shape& shape) { return i / (shape[2] * shape[3]) % shape[1]; }

void forward(const Call& call) {
  const auto& a = call.request.attributes_as<ChannelBias>();
  const Shape& x = call.in_shape(0);
  for (int64_t i = 0; i < x.elements(); ++i) {
    const double sum = static_cast<double>(call.in(0)[i]) + call.in(1)[channel_of(i, x)];
    call.out(0)[i] = static_cast<float>(activate(a.activation, sum));
  }
}

void backward(const Call& call) {
  const Shape& dy = call.in_shape(0);
  std::vector<double> sums(static_cast<size_t>(dy[1]));
  for (int64_t i = 0; i < dy.elements(); ++i) sums[static_cast<size_t>(channel_of(i, dy))] += call.in(0)[i];
  for (size_t c = 0; c < sums.size(); ++c) call.out(0)[c] = static_cast<float>(sums[c]);
}

const Registration kForward("reference", "channel_bias", std::make_unique<PlainOp>(forward));
const Registration kBackward("reference", "channel_bias.backward", std::make_unique<PlainOp>(backward));

}  // namespace
}  // namespace dtrain::ops::reference
