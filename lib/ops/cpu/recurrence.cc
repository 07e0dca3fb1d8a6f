#include "ops/cpu/recurrence.h"

#include <algorithm>
#include <cstring>

#include "ops/cpu/add_rows.h"

namespace dtrain::ops::cpu {
namespace {

constexpr int64_t kColumns = 256;  // that are summed together

int64_t stride_for(int64_t columns) { return columns % 256 == 0 ? columns + 16 : columns; }

// Sums over the samples of each step, then over the steps: shorter sums of fp32 than one over all rows.
void column_sums(const float* m, int64_t stride, const Recurrence& r, float* sums) {
  for_pieces(r.gates, std::max(kColumns, kGrain / r.rows()), [&](int64_t begin, int64_t end) {
    for (int64_t c = begin; c < end; c += kColumns) {
      const int64_t n = std::min(kColumns, end - c);
      std::fill_n(sums + c, n, 0.0f);
      for (int64_t s = 0; s < r.steps; ++s) {
        float of_step[kColumns] = {};
        add_rows(m + s * r.samples * stride + c, r.samples, stride, of_step, n);
        add_rows(of_step, 1, n, sums + c, n);
      }
    }
  });
}

}  // namespace

Recurrence::Recurrence(const OpRequest& request)
    : samples(request.inputs[0].shape[0]),
      steps(request.inputs[0].shape[1]),
      inputs(request.inputs[0].shape[2]),
      units(request.inputs[2].shape[1]),
      gates(request.inputs[2].shape[0]),
      reverse(request.attributes_as<Recurrent>().reverse) {
  const bool backward = request.op.ends_with(".backward");
  all_states = (backward ? request.inputs[3] : request.outputs[0]).shape.rank() == 3;
}

void Recurrence::to_steps(const float* x, float* by_step) const {
  for_pieces(rows(), kGrain / inputs, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row)
      std::copy_n(x + place(row % samples, row / samples) * inputs, inputs, by_step + row * inputs);
  });
}

void Recurrence::from_steps(const float* by_step, float* x) const {
  for_pieces(rows(), kGrain / inputs, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row)
      std::copy_n(by_step + row * inputs, inputs, x + place(row % samples, row / samples) * inputs);
  });
}

GateGradients::GateGradients(const Recurrence& r, bool with_dx)
    : r_(r),
      stride_(stride_for(r.gates)),
      dw_ih_(transposed(matrix(r.rows(), r.gates, stride_)), matrix(r.rows(), r.inputs), matrix(r.gates, r.inputs)) {
  const int64_t later = r.rows() - r.samples;  // rows of the steps that have a state before them
  if (later > 0)
    dw_hh_.emplace(transposed(matrix(later, r.gates, stride_)), matrix(later, r.units), matrix(r.gates, r.units));
  if (with_dx) dx_.emplace(matrix(r.rows(), r.gates, stride_), matrix(r.gates, r.inputs), matrix(r.rows(), r.inputs));
}

size_t GateGradients::scratch_bytes() const {
  size_t bytes = dw_ih_.scratch_bytes();
  for (const auto* product : {&dw_hh_, &dx_})
    if (*product) bytes = std::max(bytes, (*product)->scratch_bytes());
  return bytes;
}

void GateGradients::run(const float* of_x, const float* of_h, const float* states, std::span<const void* const> in,
                        std::span<void* const> out, float* by_step, void* scratch) {
  const auto floats = [&](size_t i) { return static_cast<float*>(out[i]); };
  r_.to_steps(static_cast<const float*>(in[0]), by_step);
  dw_ih_.run(of_x, by_step, floats(0), scratch);
  if (dw_hh_)
    dw_hh_->run(of_h + r_.samples * stride_, states, floats(1), scratch);
  else
    std::fill_n(floats(1), r_.gates * r_.units, 0.0f);
  column_sums(of_x, stride_, r_, floats(2));
  if (of_h == of_x)
    std::copy_n(floats(2), r_.gates, floats(3));
  else
    column_sums(of_h, stride_, r_, floats(3));
  if (!dx_) return;
  dx_->run(of_x, in[1], by_step, scratch);
  r_.from_steps(by_step, floats(4));
}

LayoutPtr transposed_layout(const MatrixProduct& product) { return layout_of(transposed(product.b())); }

}  // namespace dtrain::ops::cpu
