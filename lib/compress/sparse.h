// The payload of a few values and their places, which top-k and DGC send, and the choice of the largest.
//
//   payload = count  u32, at most n
//             place* u16, ascending, below n <= 65,536
//             value* f32
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/bytes.h"
#include "compress/codec.h"

namespace dtrain::compress {

constexpr size_t kMostSparseElements = 65'536;

const Codec& sparse_codec();

// ceil(ratio · n), but at least 64, at most n: biases and other small parameters go whole. A share of a thousandth
// would send the ten biases of ten classes one at a time.
size_t sparse_count(size_t n, double ratio);

// The places of the `count` elements of largest |value|, ascending; of equal ones the first. NaN is larger than
// everything. REQUIRES 0 < count <= values.size() <= kMostSparseElements.
std::vector<uint16_t> largest(std::span<const float> values, size_t count);

inline size_t sparse_bytes(size_t count) { return 4 + 6 * count; }
// Returns the bytes written. REQUIRES room for them.
size_t write_sparse(std::span<const uint16_t> places, const float* values, MutableByteSpan out);

}  // namespace dtrain::compress
