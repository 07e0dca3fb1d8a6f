// A product of two fp32 matrices as a part of a larger kernel: oneDNN's matmul, planned once and run on pointers.
//
// Internal to this folder; run by one thread at a time, like the kernel that owns it.
#pragma once

#include <optional>
#include <string>

#include "ops/cpu/onednn.h"

namespace dtrain::ops::cpu {

// A row-major matrix whose rows lie `stride` elements apart; its transpose.
dnnl::memory::desc matrix(int64_t rows, int64_t columns, int64_t stride);
inline dnnl::memory::desc matrix(int64_t rows, int64_t columns) { return matrix(rows, columns, columns); }
dnnl::memory::desc transposed(const dnnl::memory::desc& matrix);

class MatrixProduct {
 public:
  enum class Adds { kNothing, kBias, kResult };  // to the product: a row to every row, or what c holds already

  // c = a·b. Where b is any(…) it is laid out as b() says. May throw dnnl::error.
  MatrixProduct(const dnnl::memory::desc& a, const dnnl::memory::desc& b, const dnnl::memory::desc& c,
                Adds adds = Adds::kNothing);

  const dnnl::memory::desc& b() const { return b_; }
  size_t scratch_bytes() const { return kernel_->scratch_bytes; }
  std::string implementation() const { return kernel_->implementation(); }

  void run(const float* a, const void* b, float* c, void* scratch, const float* bias = nullptr);

 private:
  dnnl::memory::desc b_;
  std::unique_ptr<PrimitiveKernel> kernel_;
};

}  // namespace dtrain::ops::cpu
