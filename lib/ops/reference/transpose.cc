#include "ops/transpose.h"

#include <cstring>
#include <vector>

#include "ops/reference/plain_op.h"
#include "ops/registry.h"

namespace dtrain::ops::reference {
namespace {

void transpose(const Call& call) {
  const std::vector<int>& order = call.request.attributes_as<Transpose>().order;
  const Shape &x = call.in_shape(0), &y = call.out_shape(0);
  const size_t element = size_of(call.request.outputs[0].dtype);
  const auto rank = static_cast<size_t>(y.rank());
  DTRAIN_CHECK(order.size() == rank && x.rank() == y.rank());
  std::vector<int64_t> place(rank);  // in y
  for (int64_t i = 0; i < y.elements(); ++i) {
    int64_t rest = i;
    for (size_t a = rank; a-- > 0; rest /= y.dims()[a]) place[a] = rest % y.dims()[a];
    int64_t from = 0;
    for (size_t k = 0; k < rank; ++k) {
      size_t a = 0;
      while (order[a] != static_cast<int>(k)) ++a;
      DTRAIN_CHECK(x.dims()[k] == y.dims()[a]);
      from = from * x.dims()[k] + place[a];
    }
    std::memcpy(call.out<std::byte>(0) + static_cast<size_t>(i) * element,
                call.in<std::byte>(0) + static_cast<size_t>(from) * element, element);
  }
}

const Registration kTranspose("reference", "transpose", std::make_unique<PlainOp>(transpose));

}  // namespace
}  // namespace dtrain::ops::reference
