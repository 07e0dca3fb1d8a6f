// Images enlarged by whole factors (torch.nn.functional.interpolate with align_corners=False).
//
//   upsample            in x[N,C,H,W]     out y[N,C,H·sh,W·sw]
//   upsample.backward   in dy             out dx
//
// Nearest: y[i] = x[⌊i / s⌋]. Bilinear, along each axis: with p = max((i + ½)/s − ½, 0), l = ⌊p⌋ and r = min(l + 1,
// last), y[i] = (1 − (p − l))·x[l] + (p − l)·x[r].
#pragma once

#include <array>
#include <cstdint>

namespace dtrain::ops {

struct Upsample {
  enum class Mode { kNearest, kBilinear };
  Mode mode = Mode::kNearest;
  std::array<int64_t, 2> scale{1, 1};  // {height, width}
};

// What one place along an axis of y is made of: (1 − share)·x[left] + share·x[right]. Of nearest the share is 0.
struct UpsampleTap {
  int64_t left, right;
  float share;
};
inline UpsampleTap upsample_tap(Upsample::Mode mode, int64_t i, int64_t scale, int64_t in) {
  if (mode == Upsample::Mode::kNearest) return {i / scale, i / scale, 0.0f};
  const double p = (static_cast<double>(i) + 0.5) / static_cast<double>(scale) - 0.5;
  const int64_t left = p > 0 ? static_cast<int64_t>(p) : 0;
  const float share = p > 0 ? static_cast<float>(p - static_cast<double>(left)) : 0.0f;
  return {left, left + 1 < in ? left + 1 : left, share};
}

}  // namespace dtrain::ops
