#include "ops/elementwise.h"
#include "ops/reference/plain_op.h"
#include "ops/registry.h"

namespace dtrain::ops::reference {
namespace {

void mul(const Call& call) {
  for (int64_t i = 0, n = call.out_shape(0).elements(); i < n; ++i) {
    double product = 1;
    for (size_t k = 0; k < call.in_count(); ++k) product *= call.in(k)[i];
    call.out(0)[i] = static_cast<float>(product);
  }
}

const Registration kMul("reference", "mul", std::make_unique<PlainOp>(mul));

}  // namespace
}  // namespace dtrain::ops::reference
