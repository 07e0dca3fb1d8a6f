// Sixteen (or eight, four, one) floats as one value, in compilers' vector extension: element-wise arithmetic that stays
// in registers, with the same bits on every instruction set. For functions that are compiled for each instruction set
// (base/vectorize.h); everything here must be inlined into them.
#pragma once

#include <cstdint>
#include <cstring>

namespace dtrain::ops::cpu {

template <int W>
struct Lanes {
  typedef float Floats __attribute__((vector_size(4 * W)));
};
template <int W>
using Floats = typename Lanes<W>::Floats;

template <int W>
[[gnu::always_inline]] inline Floats<W> load(const float* from) {
  Floats<W> v;
  std::memcpy(&v, from, sizeof v);
  return v;
}

template <int W>
[[gnu::always_inline]] inline void store(float* to, Floats<W> v) {
  std::memcpy(to, &v, sizeof v);
}

// x below 0 becomes 0; NaN stays.
template <int W>
[[gnu::always_inline]] inline Floats<W> rectified(Floats<W> x) {
  return x < Floats<W>{} ? Floats<W>{} : x;
}

}  // namespace dtrain::ops::cpu
