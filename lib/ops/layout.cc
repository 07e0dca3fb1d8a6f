#include "ops/layout.h"

namespace dtrain::ops {

bool same_layout(const LayoutPtr& a, const LayoutPtr& b) {
  if (a == b) return true;
  return a && b && a->equals(*b);
}

}  // namespace dtrain::ops
