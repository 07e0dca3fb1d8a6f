// The extents of a tensor, outermost first, row-major: {batch, channels, height, width} for images.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

namespace dtrain {

class Shape {
 public:
  Shape() = default;  // a scalar
  Shape(std::initializer_list<int64_t> dims) : dims_(dims) {}
  explicit Shape(std::vector<int64_t> dims) : dims_(std::move(dims)) {}

  int rank() const { return static_cast<int>(dims_.size()); }
  int64_t operator[](int axis) const { return dims_[static_cast<size_t>(axis)]; }
  int64_t& operator[](int axis) { return dims_[static_cast<size_t>(axis)]; }
  // Negative axes count from the end: at(-1) is the innermost extent.
  int64_t at(int axis) const { return dims_[static_cast<size_t>(axis < 0 ? axis + rank() : axis)]; }
  const std::vector<int64_t>& dims() const { return dims_; }
  int64_t elements() const {
    int64_t n = 1;
    for (int64_t d : dims_) n *= d;
    return n;
  }
  bool operator==(const Shape&) const = default;

 private:
  std::vector<int64_t> dims_;
};

std::string to_string(const Shape& shape);  // "[64, 3, 32, 32]"

}  // namespace dtrain
