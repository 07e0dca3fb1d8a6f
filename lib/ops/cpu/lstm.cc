// lstm and lstm.backward: products by oneDNN, what happens at the gates by own loops.
#include <algorithm>

#include "base/vectorize.h"
#include "ops/cpu/recurrence.h"
#include "ops/cpu/vector_math.h"
#include "ops/registry.h"

namespace dtrain::ops::cpu {
namespace {

// The workspace, by step and sample: i, f, g, o beside each other; the cells; their tanh; the states.
struct Workspace {
  explicit Workspace(const Recurrence& r) {
    FloatArrays arrays;
    gates = arrays.add(r.rows() * r.gates);
    cells = arrays.add(r.rows() * r.units);
    tanhs = arrays.add(r.rows() * r.units);
    states = arrays.add(r.rows() * r.units);
    bytes = arrays.bytes();
  }
  size_t gates, cells, tanhs, states, bytes;
};

// One sample's step: from the sums at the gates to the gates themselves, and to cell and state.
DTRAIN_CLONES
void step(float* gates, const float* cell_before, float* cell, float* tanh_cell, float* state, int64_t units) {
  float *const is = gates, *const fs = is + units, *const gs = fs + units, *const os = gs + units;
#pragma omp simd
  for (int64_t u = 0; u < units; ++u) {
    const float i = sigmoid(is[u]), f = sigmoid(fs[u]), g = hyperbolic_tangent(gs[u]), o = sigmoid(os[u]);
    const float c = f * cell_before[u] + i * g, t = hyperbolic_tangent(c);
    is[u] = i;
    fs[u] = f;
    gs[u] = g;
    os[u] = o;
    cell[u] = c;
    tanh_cell[u] = t;
    state[u] = o * t;
  }
}

// One sample's step backwards: from the gradients of the state (dy + dh) and of the cell after the step to those of the
// sums at the gates and, in dc, of the cell before it.
DTRAIN_CLONES
void step_back(const float* gates, const float* cell_before, const float* tanh_cell, const float* dy, const float* dh,
               float* dc, float* d, int64_t units) {
  const float *const is = gates, *const fs = is + units, *const gs = fs + units, *const os = gs + units;
#pragma omp simd
  for (int64_t u = 0; u < units; ++u) {
    const float i = is[u], f = fs[u], g = gs[u], o = os[u], t = tanh_cell[u];
    const float of_h = dy[u] + dh[u];
    const float of_c = dc[u] + of_h * o * (1.0f - t * t);
    d[u] = of_c * g * i * (1.0f - i);
    d[units + u] = of_c * cell_before[u] * f * (1.0f - f);
    d[2 * units + u] = of_c * i * (1.0f - g * g);
    d[3 * units + u] = of_h * t * o * (1.0f - o);
    dc[u] = of_c * f;
  }
}

class Forward final : public Kernel {
 public:
  explicit Forward(const OpRequest& request)
      : r_(request),
        workspace_(r_),
        from_x_(matrix(r_.rows(), r_.inputs), transposed(matrix(r_.gates, r_.inputs)), matrix(r_.rows(), r_.gates),
                MatrixProduct::Adds::kBias),
        from_state_(matrix(r_.samples, r_.units), any({r_.units, r_.gates}), matrix(r_.samples, r_.gates),
                    MatrixProduct::Adds::kResult) {
    // Weights that every step reads again are laid out for that once.
    input_layouts = {nullptr, nullptr, transposed_layout(from_state_), nullptr, nullptr};
    outputs = request.outputs;
    outputs[0].layout = nullptr;
    FloatArrays arrays;
    by_step_ = arrays.add(r_.rows() * r_.inputs);
    bias_ = arrays.add(r_.gates);
    zeros_ = arrays.add(r_.units);
    if (outputs.size() > 1)
      outputs[1] = {Shape{static_cast<int64_t>(workspace_.bytes)}, DType::kU8, nullptr};
    else
      own_workspace_ = arrays.add(static_cast<int64_t>(workspace_.bytes / sizeof(float)));
    products_ = arrays.bytes();
    scratch_bytes = products_ + std::max(from_x_.scratch_bytes(), from_state_.scratch_bytes());
  }

  std::string implementation() const override { return from_state_.implementation(); }

  void run(std::span<const void* const> in, std::span<void* const> out, void* scratch, const RunContext&) override {
    const auto floats = [&](size_t i) { return static_cast<const float*>(in[i]); };
    void* workspace = out.size() > 1 ? out[1] : FloatArrays::at(scratch, own_workspace_);
    float* gates = FloatArrays::at(workspace, workspace_.gates);
    float* cells = FloatArrays::at(workspace, workspace_.cells);
    float* tanhs = FloatArrays::at(workspace, workspace_.tanhs);
    float* states = FloatArrays::at(workspace, workspace_.states);
    float *by_step = FloatArrays::at(scratch, by_step_), *bias = FloatArrays::at(scratch, bias_);
    float* zeros = FloatArrays::at(scratch, zeros_);
    void* products = FloatArrays::at(scratch, products_);

    std::fill_n(zeros, r_.units, 0.0f);
    for (int64_t g = 0; g < r_.gates; ++g) bias[g] = floats(3)[g] + floats(4)[g];
    r_.to_steps(floats(0), by_step);
    from_x_.run(by_step, in[1], gates, products, bias);
    for (int64_t s = 0; s < r_.steps; ++s) {
      const int64_t first = s * r_.samples;
      if (s > 0) from_state_.run(states + (first - r_.samples) * r_.units, in[2], gates + first * r_.gates, products);
      for_pieces(r_.samples, r_.grain(), [&](int64_t begin, int64_t end) {
        for (int64_t n = begin; n < end; ++n) {
          const int64_t row = first + n;
          float* state = states + row * r_.units;
          step(gates + row * r_.gates, s > 0 ? cells + (row - r_.samples) * r_.units : zeros, cells + row * r_.units,
               tanhs + row * r_.units, state, r_.units);
          const int64_t at = r_.state_row(n, s);
          if (at >= 0) std::copy_n(state, r_.units, static_cast<float*>(out[0]) + at * r_.units);
        }
      });
    }
  }

 private:
  Recurrence r_;
  Workspace workspace_;
  MatrixProduct from_x_, from_state_;
  size_t by_step_, bias_, zeros_, own_workspace_ = 0, products_;
};

class Backward final : public Kernel {
 public:
  explicit Backward(const OpRequest& request)
      : r_(request),
        workspace_(r_),
        gradients_(r_, request.outputs.size() > 4),
        to_state_(matrix(r_.samples, r_.gates, gradients_.stride()), matrix(r_.gates, r_.units),
                  matrix(r_.samples, r_.units)) {
    input_layouts.assign(request.inputs.size(), nullptr);
    outputs = request.outputs;
    for (TensorDesc& d : outputs) d.layout = nullptr;
    FloatArrays arrays;
    d_ = arrays.add(r_.rows() * gradients_.stride());
    dc_ = arrays.add(r_.samples * r_.units);
    dh_ = arrays.add(r_.samples * r_.units);
    by_step_ = arrays.add(gradients_.by_step_elements());
    zeros_ = arrays.add(r_.units);
    products_ = arrays.bytes();
    scratch_bytes = products_ + std::max(to_state_.scratch_bytes(), gradients_.scratch_bytes());
  }

  std::string implementation() const override { return to_state_.implementation(); }

  void run(std::span<const void* const> in, std::span<void* const> out, void* scratch, const RunContext&) override {
    const float* gates = FloatArrays::at(in[4], workspace_.gates);
    const float* cells = FloatArrays::at(in[4], workspace_.cells);
    const float* tanhs = FloatArrays::at(in[4], workspace_.tanhs);
    float *all_d = FloatArrays::at(scratch, d_), *zeros = FloatArrays::at(scratch, zeros_);
    float *dc = FloatArrays::at(scratch, dc_), *dh = FloatArrays::at(scratch, dh_);
    void* products = FloatArrays::at(scratch, products_);

    std::fill_n(zeros, r_.units, 0.0f);
    std::fill_n(dc, r_.samples * r_.units, 0.0f);
    std::fill_n(dh, r_.samples * r_.units, 0.0f);
    for (int64_t s = r_.steps - 1; s >= 0; --s) {
      const int64_t first = s * r_.samples;
      float* d = all_d + first * gradients_.stride();
      for_pieces(r_.samples, r_.grain(), [&](int64_t begin, int64_t end) {
        for (int64_t n = begin; n < end; ++n) {
          const int64_t row = first + n, at = r_.state_row(n, s);
          const float* dy = at >= 0 ? static_cast<const float*>(in[3]) + at * r_.units : zeros;
          step_back(gates + row * r_.gates, s > 0 ? cells + (row - r_.samples) * r_.units : zeros,
                    tanhs + row * r_.units, dy, dh + n * r_.units, dc + n * r_.units, d + n * gradients_.stride(),
                    r_.units);
        }
      });
      if (s > 0) to_state_.run(d, in[2], dh, products);
    }
    gradients_.run(all_d, all_d, FloatArrays::at(in[4], workspace_.states), in, out, FloatArrays::at(scratch, by_step_),
                   products);
  }

 private:
  Recurrence r_;
  Workspace workspace_;
  GateGradients gradients_;
  MatrixProduct to_state_;
  size_t d_, dc_, dh_, by_step_, zeros_, products_;
};

const Registration kForward("cpu", "lstm", std::make_unique<RecurrentOp<Forward>>());
const Registration kBackward("cpu", "lstm.backward", std::make_unique<RecurrentOp<Backward>>());

}  // namespace
}  // namespace dtrain::ops::cpu
