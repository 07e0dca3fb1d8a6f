// The arithmetic of a shard server on one chunk, each one pass over memory. Pure functions; the same bits on every
// instruction set. Spans of one call are of one size; they are equal or do not overlap.
#pragma once

#include <span>

namespace dtrain::ps {

void add(std::span<float> into, std::span<const float> other);                            // into += other
void add(std::span<float> out, std::span<const float> a, std::span<const float> b);       // out = a + b
void subtract(std::span<float> out, std::span<const float> a, std::span<const float> b);  // out = a − b
void scale(std::span<float> values, float by);                                            // values *= by
void divide(std::span<float> out, std::span<const float> values, float by);               // out = values / by
// out = g + lambda · g ⊙ g ⊙ (now − then).
void compensate(std::span<float> out, std::span<const float> g, std::span<const float> now, std::span<const float> then,
                float lambda);
bool all_finite(std::span<const float> values);
// In fp64, as sum_of_squares.
double dot(std::span<const float> a, std::span<const float> b);
double sum_of_magnitudes(std::span<const float> values);
// out = Σ factors[i] · vectors[i], in fp64 from left to right, rounded once. `out` may be one of them.
void combine(std::span<float> out, std::span<const double> factors, std::span<const float* const> vectors);
// In fp64: element i joins lane i mod 16, and the lanes are added pairwise.
double sum_of_squares(std::span<const float> values);

}  // namespace dtrain::ps
