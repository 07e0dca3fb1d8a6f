// How fast a link is, as people write it.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace dtrain {

// "10Gbps", "1 Gbit/s", "125MB/s", "1.5 GiB/s", in bytes a second. K, M, G, T are powers of 1000, Ki, Mi, Gi, Ti of
// 1024; b or bit is a bit, B or Byte a byte, so that Gb/s and GB/s differ; Gbps are bits. Upper and lower case of the
// prefix do not matter. From 1 bit a second. Errors: kUsage.
Result<double> parse_bandwidth(std::string_view text);

// In bits, as links are sold: "10 Gbit/s", "800 Mbit/s". REQUIRES more than 0 bytes a second.
std::string bandwidth_text(double bytes_a_second);

}  // namespace dtrain
