// The base of the cpu backend's own kernels (those that do not call oneDNN), and how they split work between threads.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "ops/op.h"

namespace dtrain::ops::cpu {

// Starts as a kernel on plain layouts, without BF16; a derived constructor may choose others.
class OwnKernel : public Kernel {
 public:
  explicit OwnKernel(const OpRequest& request) {
    input_layouts.assign(request.inputs.size(), nullptr);
    for (const TensorDesc& i : request.inputs)
      input_types.push_back(i.dtype == DType::kBF16 ? DType::kF32 : i.dtype);
    outputs = request.outputs;
    for (TensorDesc& d : outputs) d.layout = nullptr;
  }
  std::string implementation() const override { return "own"; }
};

// An op whose kernel is K(request), with a static K::unsupported(request).
template <typename K>
class OwnOp final : public Op {
 public:
  std::optional<std::string> unsupported(const OpRequest& request) const override { return K::unsupported(request); }
  Result<std::unique_ptr<Kernel>> plan(const OpRequest& request) const override {
    return std::unique_ptr<Kernel>(std::make_unique<K>(request));
  }
};

// Elements that are worth waking a second thread for.
constexpr int64_t kGrain = 32768;

// Calls f(begin, end) for pieces of [0, n) with `grain` items each, on all threads where there are several pieces.
// Results must not depend on the cut: every item writes its own outputs.
template <typename F>
void for_pieces(int64_t n, int64_t grain, F f) {
  grain = std::max<int64_t>(grain, 1);
  const int64_t pieces = (n + grain - 1) / grain;
#pragma omp parallel for schedule(static) if (pieces > 1)
  for (int64_t p = 0; p < pieces; ++p) f(p * grain, std::min(n, (p + 1) * grain));
}

}  // namespace dtrain::ops::cpu
