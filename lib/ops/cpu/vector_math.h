// Exponential, sigmoid, tanh and logarithm from basic arithmetic: libm's rounding differs between hosts and its calls
// do not vectorise, these give the same bits everywhere and vectorise inside `omp simd` loops.
#pragma once

#include <bit>
#include <cstdint>
#include <limits>

namespace dtrain::ops::cpu {

// eˣ within 2 ulp, subnormal results included; NaN for NaN. Cody and Waite's reduction x = n·ln 2 + r with |r| ≤ ln 2 /
// 2, then the Taylor polynomial of degree 7, whose remainder 0.347⁸/8! is below a tenth of an ulp.
// Always inline: a call inside a loop would keep it from being vectorised.
[[gnu::always_inline]] inline float exponential(float x) {
  constexpr float kLow = -104.0f, kHigh = 89.0f;  // beyond: 0 and infinity
  constexpr float kRound = 12582912.0f;           // 1.5·2²³: adding it rounds to an integer in the low bits
  constexpr float kLog2E = 1.44269504f;
  constexpr float kLn2High = 0.693359375f;  // ten bits, so that n·kLn2High is exact
  constexpr float kLn2Low = -2.12194440e-4f;
  x = x < kLow ? kLow : x;
  x = x > kHigh ? kHigh : x;
  const float shifted = x * kLog2E + kRound;
  const float n = shifted - kRound;
  const float r = (x - n * kLn2High) - n * kLn2Low;
  float p = 1.0f / 5040;
  p = p * r + 1.0f / 720;
  p = p * r + 1.0f / 120;
  p = p * r + 1.0f / 24;
  p = p * r + 1.0f / 6;
  p = p * r + 0.5f;
  p = p * r + 1.0f;
  p = p * r + 1.0f;
  // 2ⁿ as two factors, since n may lie beyond the exponents of normal numbers.
  const int32_t whole = static_cast<int32_t>(std::bit_cast<uint32_t>(shifted) - std::bit_cast<uint32_t>(kRound));
  const int32_t half = whole >> 1;
  const auto power = [](int32_t e) { return std::bit_cast<float>(static_cast<uint32_t>(e + 127) << 23); };
  return p * power(half) * power(whole - half);
}

// 1/(1 + e⁻ˣ) within 3 ulp where it is normal; NaN for NaN.
[[gnu::always_inline]] inline float sigmoid(float x) { return 1.0f / (1.0f + exponential(-x)); }

// tanh x within 3 ulp, and odd to the bit; NaN for NaN. tanh|x| = e / (e + 2) with e = e^(2|x|) − 1, made without
// cancellation: the reduction of exponential(), and a polynomial for eʳ − 1 in place of one for eʳ.
[[gnu::always_inline]] inline float hyperbolic_tangent(float x) {
  constexpr float kOne = 9.1f;  // from here on it rounds to 1
  constexpr float kRound = 12582912.0f, kLog2E = 1.44269504f, kLn2High = 0.693359375f, kLn2Low = -2.12194440e-4f;
  const uint32_t sign = std::bit_cast<uint32_t>(x) & 0x80000000u;
  float twice = std::bit_cast<float>(std::bit_cast<uint32_t>(x) ^ sign);
  twice = twice > kOne ? kOne : twice;
  twice += twice;
  const float shifted = twice * kLog2E + kRound;
  const float n = shifted - kRound;
  const float r = (twice - n * kLn2High) - n * kLn2Low;
  float p = 1.0f / 5040;
  p = p * r + 1.0f / 720;
  p = p * r + 1.0f / 120;
  p = p * r + 1.0f / 24;
  p = p * r + 1.0f / 6;
  p = p * r + 0.5f;
  p = p * (r * r) + r;
  const float power = std::bit_cast<float>((std::bit_cast<uint32_t>(shifted) + 127u) << 23);  // 2ⁿ
  const float e = power * p + (power - 1.0f);
  return std::bit_cast<float>(std::bit_cast<uint32_t>(e / (e + 2.0f)) | sign);
}

// ln x to about 1e-16 for normal x > 0; x itself for NaN and infinity. x = m·2ᵉ with m in [√½, √2), and
// ln m = 2·atanh((m − 1)/(m + 1)) by its power series.
inline double logarithm(double x) {
  if (!(x < std::numeric_limits<double>::infinity())) return x;
  const auto bits = std::bit_cast<uint64_t>(x);
  auto exponent = static_cast<int64_t>(bits >> 52) - 1023;
  double m = std::bit_cast<double>((bits & 0x000fffffffffffffULL) | 0x3ff0000000000000ULL);
  if (m > 1.4142135623730951) {
    m *= 0.5;
    ++exponent;
  }
  const double s = (m - 1.0) / (m + 1.0), s2 = s * s;
  double sum = 0.0;
  for (int k = 21; k >= 1; k -= 2) sum = sum * s2 + 1.0 / k;
  return 2.0 * s * sum + static_cast<double>(exponent) * 0.6931471805599453;
}

}  // namespace dtrain::ops::cpu
