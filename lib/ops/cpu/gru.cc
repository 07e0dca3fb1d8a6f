// gru and gru.backward: products by oneDNN, what happens at the gates by own loops.
#include <algorithm>

#include "base/vectorize.h"
#include "ops/cpu/recurrence.h"
#include "ops/cpu/vector_math.h"
#include "ops/registry.h"

namespace dtrain::ops::cpu {
namespace {

// The workspace, by step and sample: r, z, n beside each other; what r multiplies; the states.
struct Workspace {
  explicit Workspace(const Recurrence& r) {
    FloatArrays arrays;
    gates = arrays.add(r.rows() * r.gates);
    products = arrays.add(r.rows() * r.units);
    states = arrays.add(r.rows() * r.units);
    bytes = arrays.bytes();
  }
  size_t gates, products, states, bytes;
};

// One sample's step: `gates` holds w_ih·x + b_ih and becomes the gates; `from_state` is w_hh·h + b_hh.
DTRAIN_CLONES
void step(float* gates, const float* from_state, const float* state_before, float* product, float* state,
          int64_t units) {
  float *const rs = gates, *const zs = rs + units, *const ns = zs + units;
#pragma omp simd
  for (int64_t u = 0; u < units; ++u) {
    const float p = from_state[2 * units + u];
    const float r = sigmoid(rs[u] + from_state[u]), z = sigmoid(zs[u] + from_state[units + u]);
    const float n = hyperbolic_tangent(ns[u] + r * p);
    rs[u] = r;
    zs[u] = z;
    ns[u] = n;
    product[u] = p;
    state[u] = (1.0f - z) * n + z * state_before[u];
  }
}

// One sample's step backwards: from the gradient of the state after it (dy + dh) to those of w_ih·x + b_ih (d), of
// w_hh·h + b_hh (e) and, in dh, what goes to the state before it past the products.
DTRAIN_CLONES
void step_back(const float* gates, const float* product, const float* state_before, const float* dy, float* dh,
               float* d, float* e, int64_t units) {
  const float *const rs = gates, *const zs = rs + units, *const ns = zs + units;
#pragma omp simd
  for (int64_t u = 0; u < units; ++u) {
    const float r = rs[u], z = zs[u], n = ns[u], of_h = dy[u] + dh[u];
    const float of_n = of_h * (1.0f - z) * (1.0f - n * n);
    const float of_r = of_n * product[u] * r * (1.0f - r);
    const float of_z = of_h * (state_before[u] - n) * z * (1.0f - z);
    d[u] = of_r;
    d[units + u] = of_z;
    d[2 * units + u] = of_n;
    e[u] = of_r;
    e[units + u] = of_z;
    e[2 * units + u] = of_n * r;
    dh[u] = of_h * z;
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
                    MatrixProduct::Adds::kBias) {
    // Weights that every step reads again are laid out for that once.
    input_layouts = {nullptr, nullptr, transposed_layout(from_state_), nullptr, nullptr};
    outputs = request.outputs;
    outputs[0].layout = nullptr;
    FloatArrays arrays;
    by_step_ = arrays.add(r_.rows() * r_.inputs);
    of_step_ = arrays.add(r_.samples * r_.gates);
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
    float* product = FloatArrays::at(workspace, workspace_.products);
    float* states = FloatArrays::at(workspace, workspace_.states);
    float *by_step = FloatArrays::at(scratch, by_step_), *of_step = FloatArrays::at(scratch, of_step_);
    float* zeros = FloatArrays::at(scratch, zeros_);
    void* products = FloatArrays::at(scratch, products_);

    std::fill_n(zeros, r_.units, 0.0f);
    r_.to_steps(floats(0), by_step);
    from_x_.run(by_step, in[1], gates, products, floats(3));
    for (int64_t s = 0; s < r_.steps; ++s) {
      const int64_t first = s * r_.samples;
      if (s > 0) from_state_.run(states + (first - r_.samples) * r_.units, in[2], of_step, products, floats(4));
      for_pieces(r_.samples, r_.grain(), [&](int64_t begin, int64_t end) {
        for (int64_t n = begin; n < end; ++n) {
          const int64_t row = first + n;
          float* state = states + row * r_.units;
          // A state of zero leaves the bias alone.
          step(gates + row * r_.gates, s > 0 ? of_step + n * r_.gates : floats(4),
               s > 0 ? state - r_.samples * r_.units : zeros, product + row * r_.units, state, r_.units);
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
  size_t by_step_, of_step_, zeros_, own_workspace_ = 0, products_;
};

class Backward final : public Kernel {
 public:
  explicit Backward(const OpRequest& request)
      : r_(request),
        workspace_(r_),
        gradients_(r_, request.outputs.size() > 4),
        to_state_(matrix(r_.samples, r_.gates, gradients_.stride()), matrix(r_.gates, r_.units),
                  matrix(r_.samples, r_.units), MatrixProduct::Adds::kResult) {
    input_layouts.assign(request.inputs.size(), nullptr);
    outputs = request.outputs;
    for (TensorDesc& d : outputs) d.layout = nullptr;
    FloatArrays arrays;
    d_ = arrays.add(r_.rows() * gradients_.stride());
    e_ = arrays.add(r_.rows() * gradients_.stride());
    dh_ = arrays.add(r_.samples * r_.units);
    by_step_ = arrays.add(gradients_.by_step_elements());
    zeros_ = arrays.add(r_.units);
    products_ = arrays.bytes();
    scratch_bytes = products_ + std::max(to_state_.scratch_bytes(), gradients_.scratch_bytes());
  }

  std::string implementation() const override { return to_state_.implementation(); }

  void run(std::span<const void* const> in, std::span<void* const> out, void* scratch, const RunContext&) override {
    const float* gates = FloatArrays::at(in[4], workspace_.gates);
    const float* product = FloatArrays::at(in[4], workspace_.products);
    const float* states = FloatArrays::at(in[4], workspace_.states);
    float *all_d = FloatArrays::at(scratch, d_), *all_e = FloatArrays::at(scratch, e_);
    float *dh = FloatArrays::at(scratch, dh_), *zeros = FloatArrays::at(scratch, zeros_);
    void* products = FloatArrays::at(scratch, products_);
    const int64_t stride = gradients_.stride();

    std::fill_n(zeros, r_.units, 0.0f);
    std::fill_n(dh, r_.samples * r_.units, 0.0f);
    for (int64_t s = r_.steps - 1; s >= 0; --s) {
      const int64_t first = s * r_.samples;
      for_pieces(r_.samples, r_.grain(), [&](int64_t begin, int64_t end) {
        for (int64_t n = begin; n < end; ++n) {
          const int64_t row = first + n, at = r_.state_row(n, s);
          const float* dy = at >= 0 ? static_cast<const float*>(in[3]) + at * r_.units : zeros;
          step_back(gates + row * r_.gates, product + row * r_.units,
                    s > 0 ? states + (row - r_.samples) * r_.units : zeros, dy, dh + n * r_.units, all_d + row * stride,
                    all_e + row * stride, r_.units);
        }
      });
      if (s > 0) to_state_.run(all_e + first * stride, in[2], dh, products);
    }
    gradients_.run(all_d, all_e, states, in, out, FloatArrays::at(scratch, by_step_), products);
  }

 private:
  Recurrence r_;
  Workspace workspace_;
  GateGradients gradients_;
  MatrixProduct to_state_;
  size_t d_, e_, dh_, by_step_, zeros_, products_;
};

const Registration kForward("cpu", "gru", std::make_unique<RecurrentOp<Forward>>());
const Registration kBackward("cpu", "gru.backward", std::make_unique<RecurrentOp<Backward>>());

}  // namespace
}  // namespace dtrain::ops::cpu
