// What lstm and gru of the cpu backend share. Inside, values are ordered by step, then sample: a step's samples are one
// matrix, and the steps together another, so that the products with x and those for the gradients of the weights are
// one call for all steps. Only the product with the state is one a step.
//
// Internal to this folder.
#pragma once

#include <cstddef>

#include "ops/cpu/matrix_product.h"
#include "ops/cpu/own_kernel.h"
#include "ops/recurrent.h"

namespace dtrain::ops::cpu {

struct Recurrence {
  // x, w_ih and w_hh are the first three inputs of every op.
  explicit Recurrence(const OpRequest& request);

  int64_t samples, steps, inputs, units;
  int64_t gates;  // values of all gates: 4H or 3H
  bool reverse;
  bool all_states;  // y has the state after every step, else the last one alone

  int64_t rows() const { return steps * samples; }
  int64_t place(int64_t sample, int64_t step) const { return sample * steps + (reverse ? steps - 1 - step : step); }
  // The row of y that is the state after `step`; −1 where there is none.
  int64_t state_row(int64_t sample, int64_t step) const {
    if (all_states) return place(sample, step);
    return step == steps - 1 ? sample : -1;
  }
  // x[N,T,I] by step, and back.
  void to_steps(const float* x, float* by_step) const;
  void from_steps(const float* by_step, float* x) const;
  // Samples of one step that are worth a second thread.
  int64_t grain() const { return kGrain / (8 * units); }
};

// Consecutive arrays of floats in one buffer, each on a cache line of its own.
class FloatArrays {
 public:
  size_t add(int64_t elements) {
    const size_t at = bytes_;
    bytes_ += (static_cast<size_t>(elements) * sizeof(float) + 63) / 64 * 64;
    return at;
  }
  size_t bytes() const { return bytes_; }
  static float* at(void* buffer, size_t offset) {
    return reinterpret_cast<float*>(static_cast<std::byte*>(buffer) + offset);
  }
  static const float* at(const void* buffer, size_t offset) {
    return reinterpret_cast<const float*>(static_cast<const std::byte*>(buffer) + offset);
  }

 private:
  size_t bytes_ = 0;
};

// From the gradients of all steps' gates to those of weights, biases and x.
class GateGradients {
 public:
  explicit GateGradients(const Recurrence& r, bool with_dx);

  // Elements between the rows of the gradients: not a multiple of pages, or a column's elements, which the products for
  // the weights read together, would all lie in one set of the cache.
  int64_t stride() const { return stride_; }
  int64_t by_step_elements() const { return r_.rows() * r_.inputs; }
  size_t scratch_bytes() const;

  // of_x and of_h: gradients of w_ih·x + b_ih and of w_hh·h + b_hh (they may be the same array). `by_step`: room for x
  // or dx by step.
  void run(const float* of_x, const float* of_h, const float* states, std::span<const void* const> in,
           std::span<void* const> out, float* by_step, void* scratch);

 private:
  Recurrence r_;
  int64_t stride_;
  MatrixProduct dw_ih_;
  std::optional<MatrixProduct> dw_hh_, dx_;
};

// The layout of weights [rows, columns] for a product that takes them transposed, as it chose.
LayoutPtr transposed_layout(const MatrixProduct& product);

// An op whose kernel is K(request), made of oneDNN's primitives.
template <typename K>
class RecurrentOp final : public Op {
 public:
  std::optional<std::string> unsupported(const OpRequest&) const override { return std::nullopt; }
  Result<std::unique_ptr<Kernel>> plan(const OpRequest& request) const override {
    try {
      return std::unique_ptr<Kernel>(std::make_unique<K>(request));
    } catch (const dnnl::error& e) {
      return fail(ExitCode::kBug, fmt::format("{}: oneDNN: {}", request.op, e.message));
    }
  }
};

}  // namespace dtrain::ops::cpu
