// bfloat16: the upper half of an fp32 number.
#pragma once

#include <bit>
#include <cstdint>

namespace dtrain {

// The nearest bf16 number, of two the even one; NaN stays NaN.
inline float rounded_to_bf16(float x) {
  if (x != x) return x;
  const auto bits = std::bit_cast<uint32_t>(x);
  return std::bit_cast<float>((bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000u);
}

}  // namespace dtrain
