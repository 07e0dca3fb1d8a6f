#include "base/crc32c.h"

#include <array>

#if defined(__x86_64__)
#include <nmmintrin.h>
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
// x^(8·n) mod P applied to a CRC register: advances a checksum over n zero bytes, by squaring. Lets three independent
// streams run in flight, since the instruction has a latency of three cycles and a throughput of one.
uint32_t multiply(uint32_t a, uint32_t b) {
  uint32_t product = 0;
  for (uint32_t m = 1u << 31; m != 0; m >>= 1) {
    if (a & m) product ^= b;
    b = (b & 1) ? (b >> 1) ^ kPolynomial : b >> 1;
  }
  return product;
}

uint32_t power_of_x8(size_t n) {
  uint32_t square = 1u << 23, result = 1u << 31;  // x^8 and x^0, reflected
  for (; n; n >>= 1) {
    if (n & 1) result = multiply(square, result);
    square = multiply(square, square);
  }
  return result;
}

constexpr size_t kStream = 4096;

__attribute__((target("sse4.2"))) uint32_t crc32c_sse42(ByteSpan bytes, uint32_t seed) {
  static const uint32_t shift1 = power_of_x8(kStream), shift2 = power_of_x8(2 * kStream);
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
  if (fast) return crc32c_sse42(bytes, seed);
#endif
  return crc32c_portable(bytes, seed);
}

}  // namespace dtrain
