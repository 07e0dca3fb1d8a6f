#include "base/crc32c.h"

#include <array>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace dtrain {
namespace {

constexpr uint32_t kPolynomial = 0x82f63b78;  // reflected

constexpr std::array<uint32_t, 256> make_table() {
  std::array<uint32_t, 256> table{};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t c = i;
    for (int k = 0; k < 8; ++k) c = (c & 1) ? (c >> 1) ^ kPolynomial : c >> 1;
    table[i] = c;
  }
  return table;
}
constexpr auto kTable = make_table();

#if defined(__x86_64__)
// x^(8·n) mod P times a CRC register advances it over n zero bytes. Lets three independent
// streams run in flight, since the instruction has a latency of three cycles and a throughput of one.
uint32_t multiply(uint32_t a, uint32_t b) {
  uint32_t product = 0;
  for (uint32_t m = 1u << 31; m != 0; m >>= 1) {
    if (a & m) product ^= b;
    b = (b & 1) ? (b >> 1) ^ kPolynomial : b >> 1;
  }
  return product;
}

// x^n mod P, reflected.
uint32_t power_of_x(size_t n) {
  uint32_t square = 1u << 30, result = 1u << 31;  // x^1 and x^0
  for (; n; n >>= 1) {
    if (n & 1) result = multiply(square, result);
    square = multiply(square, square);
  }
  return result;
}

constexpr size_t kStream = 4096;

__attribute__((target("sse4.2"))) uint32_t crc32c_sse42(ByteSpan bytes, uint32_t seed) {
  static const uint32_t shift1 = power_of_x(8 * kStream), shift2 = power_of_x(16 * kStream);
  uint64_t crc = ~seed;
  const std::byte* p = bytes.data();
  size_t n = bytes.size();
  while (n >= 3 * kStream) {
    uint64_t a = crc, b = 0, c = 0;
    for (size_t i = 0; i < kStream; i += 8) {
      a = _mm_crc32_u64(a, load_le<uint64_t>(p + i));
      b = _mm_crc32_u64(b, load_le<uint64_t>(p + kStream + i));
      c = _mm_crc32_u64(c, load_le<uint64_t>(p + 2 * kStream + i));
    }
    crc = multiply(shift2, static_cast<uint32_t>(a)) ^ multiply(shift1, static_cast<uint32_t>(b)) ^ c;
    p += 3 * kStream;
    n -= 3 * kStream;
  }
  for (; n >= 8; p += 8, n -= 8) crc = _mm_crc32_u64(crc, load_le<uint64_t>(p));
  auto tail = static_cast<uint32_t>(crc);
  for (; n; ++p, --n) tail = _mm_crc32_u8(tail, static_cast<uint8_t>(*p));
  return ~tail;
}

// Carry-less multiplication of 64 bytes at a time, four such lanes in flight ("Fast CRC Computation for Generic
// Polynomials Using PCLMULQDQ Instruction", Gopal et al., Intel 2009). 128 bits X = L·x^64 + H of the message are moved
// n bytes forward as L·x^(8n+64) + H·x^(8n). The product of two reflected operands, of which one is 32 bits in the low
// half of 64, is x^33 times what they stand for: hence the exponents.
struct Fold {
  explicit Fold(size_t bytes) : earlier(power_of_x(8 * bytes + 31)), later(power_of_x(8 * bytes - 33)) {}
  int64_t earlier, later;
};

#define DTRAIN_FOLD_TARGET __attribute__((target("avx512f,avx512vl,vpclmulqdq,pclmul,sse4.2")))

DTRAIN_FOLD_TARGET inline __m512i fold(__m512i x, __m512i by, __m512i next) {
  const __m512i earlier = _mm512_clmulepi64_epi128(x, by, 0x00), later = _mm512_clmulepi64_epi128(x, by, 0x11);
  return _mm512_ternarylogic_epi64(earlier, later, next, 0x96);
}

DTRAIN_FOLD_TARGET uint32_t crc32c_folded(ByteSpan bytes, uint32_t seed) {
  static const Fold by16(16), by64(64), by256(256);
  constexpr size_t kLane = 64, kStride = 4 * kLane;
  const std::byte* p = bytes.data();
  size_t n = bytes.size();
  const __m512i far = _mm512_set4_epi64(by256.later, by256.earlier, by256.later, by256.earlier);
  const __m512i near = _mm512_set4_epi64(by64.later, by64.earlier, by64.later, by64.earlier);
  __m512i lane[4];
  for (size_t i = 0; i < 4; ++i) lane[i] = _mm512_loadu_si512(p + i * kLane);
  lane[0] = _mm512_xor_si512(lane[0], _mm512_zextsi128_si512(_mm_cvtsi32_si128(static_cast<int>(~seed))));
  for (p += kStride, n -= kStride; n >= kStride; p += kStride, n -= kStride)
    for (size_t i = 0; i < 4; ++i) lane[i] = fold(lane[i], far, _mm512_loadu_si512(p + i * kLane));
  __m512i sum = lane[0];
  for (size_t i = 1; i < 4; ++i) sum = fold(sum, near, lane[i]);
  const __m128i step = _mm_set_epi64x(by16.later, by16.earlier);
  alignas(kLane) __m128i quarters[4];
  _mm512_store_si512(quarters, sum);
  __m128i x = quarters[0];
  for (size_t i = 1; i < 4; ++i)
    x = _mm_xor_si128(_mm_xor_si128(_mm_clmulepi64_si128(x, step, 0x00), _mm_clmulepi64_si128(x, step, 0x11)),
                      quarters[i]);
  uint64_t crc = _mm_crc32_u64(0, static_cast<uint64_t>(_mm_cvtsi128_si64(x)));
  crc = _mm_crc32_u64(crc, static_cast<uint64_t>(_mm_extract_epi64(x, 1)));
  return crc32c_sse42({p, n}, ~static_cast<uint32_t>(crc));
}
constexpr size_t kWorthFolding = 512;
#endif

}  // namespace

uint32_t crc32c_portable(ByteSpan bytes, uint32_t seed) {
  uint32_t c = ~seed;
  for (std::byte b : bytes) c = kTable[(c ^ static_cast<uint8_t>(b)) & 0xff] ^ (c >> 8);
  return ~c;
}

uint32_t crc32c(ByteSpan bytes, uint32_t seed) {
#if defined(__x86_64__)
  static const bool fast = __builtin_cpu_supports("sse4.2");
  static const bool folds = fast && __builtin_cpu_supports("vpclmulqdq") && __builtin_cpu_supports("avx512vl") &&
                            __builtin_cpu_supports("pclmul");
  if (folds && bytes.size() >= kWorthFolding) return crc32c_folded(bytes, seed);
  if (fast) return crc32c_sse42(bytes, seed);
#endif
  return crc32c_portable(bytes, seed);
}

}  // namespace dtrain
