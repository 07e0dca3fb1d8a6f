// How the elements of a value lie in memory. The graph never looks inside: a backend's kernels say which layout they
// want for each input and which they give to each output, and the planner compares layouts and puts reorders between.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "tensor/dtype.h"
#include "tensor/shape.h"

namespace dtrain::ops {

// Immutable. Implemented by backends whose kernels use other than row-major order.
class Layout {
 public:
  virtual ~Layout() = default;
  virtual size_t bytes() const = 0;  // of the whole value, with any padding
  virtual bool equals(const Layout& other) const = 0;
  virtual std::string describe() const = 0;  // "nChw16c"
};

// nullptr is the plain layout: row-major, dense.
using LayoutPtr = std::shared_ptr<const Layout>;

bool same_layout(const LayoutPtr& a, const LayoutPtr& b);

struct TensorDesc {
  Shape shape;
  DType dtype = DType::kF32;
  LayoutPtr layout;

  size_t bytes() const { return layout ? layout->bytes() : static_cast<size_t>(shape.elements()) * size_of(dtype); }
};

}  // namespace dtrain::ops
