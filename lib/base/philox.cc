#include "base/philox.h"

#include <bit>
#include <cmath>

namespace dtrain {
namespace {

constexpr uint32_t kMultiplier0 = 0xd2511f53, kMultiplier1 = 0xcd9e8d57;
constexpr uint32_t kWeyl0 = 0x9e3779b9, kWeyl1 = 0xbb67ae85;

// Natural logarithm of a positive normal double by basic arithmetic: x = m·2^e with m in [√½, √2), and
// log m = 2·atanh((m−1)/(m+1)) as a power series. Relative error about 1e-16, the same bits everywhere.
double portable_log(double x) {
  auto bits = std::bit_cast<uint64_t>(x);
  int exponent = static_cast<int>(bits >> 52) - 1023;
  double m = std::bit_cast<double>((bits & 0x000fffffffffffffULL) | 0x3ff0000000000000ULL);
  if (m > 1.4142135623730951) {
    m *= 0.5;
    ++exponent;
  }
  const double s = (m - 1.0) / (m + 1.0), s2 = s * s;
  double sum = 0.0;
  for (int k = 25; k >= 1; k -= 2) sum = sum * s2 + 1.0 / k;
  return 2.0 * s * sum + exponent * 0.6931471805599453;
}

}  // namespace

Philox4 philox4x32(Philox4 c, std::array<uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = static_cast<uint64_t>(kMultiplier0) * c[0];
    const uint64_t p1 = static_cast<uint64_t>(kMultiplier1) * c[2];
    c = {static_cast<uint32_t>(p1 >> 32) ^ c[1] ^ key[0], static_cast<uint32_t>(p1),
         static_cast<uint32_t>(p0 >> 32) ^ c[3] ^ key[1], static_cast<uint32_t>(p0)};
    key[0] += kWeyl0;
    key[1] += kWeyl1;
  }
  return c;
}

uint32_t stream_id(std::string_view name) {
  uint32_t h = 2166136261u;
  for (char ch : name) h = (h ^ static_cast<uint8_t>(ch)) * 16777619u;
  return h;
}

float standard_normal(uint32_t word) {
  const double p = (word + 0.5) * 0x1.0p-32;
  const double q = p - 0.5;
  double value;
  if (std::fabs(q) <= 0.425) {
    const double r = 0.180625 - q * q;
    value = q *
            (((((((2.5090809287301226727e3 * r + 3.3430575583588128105e4) * r + 6.7265770927008700853e4) * r +
                 4.5921953931549871457e4) *
                    r +
                1.3731693765509461125e4) *
                   r +
               1.9715909503065514427e3) *
                  r +
              1.3314166789178437745e2) *
                 r +
             3.3871328727963666080e0) /
            (((((((5.2264952788528545610e3 * r + 2.8729085735721942674e4) * r + 3.9307895800092710610e4) * r +
                 2.1213794301586595867e4) *
                    r +
                5.3941960214247511077e3) *
                   r +
               6.8718700749205790830e2) *
                  r +
              4.2313330701600911252e1) *
                 r +
             1.0);
    return static_cast<float>(value);
  }
  double r = std::sqrt(-portable_log(q < 0 ? p : 1.0 - p));
  if (r <= 5.0) {
    r -= 1.6;
    value = (((((((7.74545014278341407640e-4 * r + 2.27238449892691845833e-2) * r + 2.41780725177450611770e-1) * r +
                 1.27045825245236838258e0) *
                    r +
                3.64784832476320460504e0) *
                   r +
               5.76949722146069140550e0) *
                  r +
              4.63033784615654529590e0) *
                 r +
             1.42343711074968357734e0) /
            (((((((1.05075007164441684324e-9 * r + 5.47593808499534494600e-4) * r + 1.51986665636164571966e-2) * r +
                 1.48103976427480074590e-1) *
                    r +
                6.89767334985100004550e-1) *
                   r +
               1.67638483018380384940e0) *
                  r +
              2.05319162663775882187e0) *
                 r +
             1.0);
  } else {
    r -= 5.0;
    value = (((((((2.01033439929228813265e-7 * r + 2.71155556874348757815e-5) * r + 1.24266094738807843860e-3) * r +
                 2.65321895265761230930e-2) *
                    r +
                2.96560571828504891230e-1) *
                   r +
               1.78482653991729133580e0) *
                  r +
              5.46378491116411436990e0) *
                 r +
             6.65790464350110377720e0) /
            (((((((2.04426310338993978564e-15 * r + 1.42151175831644588870e-7) * r + 1.84631831751005468180e-5) * r +
                 7.86869131145613259100e-4) *
                    r +
                1.48753612908506148525e-2) *
                   r +
               1.36929880922735805310e-1) *
                  r +
              5.99832206555887937690e-1) *
                 r +
             1.0);
  }
  return static_cast<float>(q < 0 ? -value : value);
}

}  // namespace dtrain
