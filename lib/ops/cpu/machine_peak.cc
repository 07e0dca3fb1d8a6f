#include "ops/cpu/machine_peak.h"

#include <omp.h>

#include <algorithm>
#include <chrono>

#include "base/vectorize.h"
#include "ops/cpu/onednn.h"
#include "ops/cpu/own_kernel.h"
#include "tensor/buffer.h"

namespace dtrain::ops::cpu {
namespace {

using dnnl::memory;

template <typename F>
double fastest_seconds(int tries, F f) {
  double best = 1e30;
  for (int i = 0; i < tries; ++i) {
    const auto start = std::chrono::steady_clock::now();
    f();
    best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  return best;
}

// GFLOP/s of [m,k]·[k,n]; 0 where oneDNN has no fast primitive for the type.
double product_rate(int64_t m, int64_t k, int64_t n, memory::data_type type) {
  const auto any = [&](int64_t rows, int64_t columns) {
    return memory::desc({rows, columns}, type, memory::format_tag::any);
  };
  const dnnl::matmul::primitive_desc p({any(m, k), any(k, n), plain({m, n})}, attributes(), engine(), true);
  if (!p || slowness(p) > 1) return 0;
  Buffer a(p.src_desc().get_size()), b(p.weights_desc().get_size()), c(p.dst_desc().get_size());
  Buffer scratch(p.scratchpad_desc().get_size());
  for (Buffer* buffer : {&a, &b, &c}) buffer->zero();
  dnnl::matmul product(p);
  const memory in(p.src_desc(), engine(), a.data()), weights(p.weights_desc(), engine(), b.data()),
      result(p.dst_desc(), engine(), c.data()), space(p.scratchpad_desc(), engine(), scratch.data());
  const dnnl_exec_arg_t arguments[] = {{DNNL_ARG_SRC, in.get()},
                                       {DNNL_ARG_WEIGHTS, weights.get()},
                                       {DNNL_ARG_DST, result.get()},
                                       {DNNL_ARG_SCRATCHPAD, space.get()}};
  const double seconds =
      fastest_seconds(8, [&] { dnnl_primitive_execute(product.get(), stream().get(), 4, arguments); });
  return 2e-9 * static_cast<double>(m) * static_cast<double>(k) * static_cast<double>(n) / seconds;
}

double best_product_rate(memory::data_type type) {
  const int64_t threads = omp_get_max_threads();
  double best = 0;
  for (const auto& [m, k, n] : {std::array<int64_t, 3>{512, 512, 512}, {1024, 512, 1024}, {1024, 1024, 1024}}) {
    try {
      best = std::max(best, product_rate(m * threads, k, n, type));
    } catch (const dnnl::error&) {
      continue;  // no primitive for the type on this processor
    }
  }
  return best;
}

DTRAIN_CLONES
void scale_and_add(const float* x, float* y, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) y[i] = 0.5f * x[i] + y[i];
}

double memory_rate() {
  constexpr int64_t kElements = 16 << 20;  // 64 MiB each
  Buffer x(kElements * sizeof(float)), y(kElements * sizeof(float));
  x.zero();
  y.zero();
  const double seconds = fastest_seconds(5, [&] {
    for_pieces(kElements, kElements / 256, [&](int64_t begin, int64_t end) {
      scale_and_add(x.as<float>().data() + begin, y.as<float>().data() + begin, end - begin);
    });
  });
  return 3e-9 * sizeof(float) * kElements / seconds;
}

}  // namespace

MachinePeak measure_peak() {
  MachinePeak peak;
  peak.gflops = best_product_rate(memory::data_type::f32);
  peak.bf16_gflops = best_product_rate(memory::data_type::bf16);
  peak.gbytes = memory_rate();
  return peak;
}

}  // namespace dtrain::ops::cpu
