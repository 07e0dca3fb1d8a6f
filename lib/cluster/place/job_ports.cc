#include "cluster/place/job_ports.h"

#include <fmt/format.h>

namespace dtrain::cluster {
namespace {

constexpr int kFirst = 10'000, kEnd = 32'000, kLastPort = 65'535;

// FNV-1a (Fowler, Noll, Vo) of 64 bits, and then MurmurHash3's last mixing: names that differ in one digit lie far
// apart.
uint64_t hash(std::string_view text) {
  uint64_t h = 0xcbf29ce484222325;
  for (const char c : text) h = (h ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  h = (h ^ h >> 33) * 0xff51afd7ed558ccd;
  h = (h ^ h >> 33) * 0xc4ceb9fe1a85ec53;
  return h ^ h >> 33;
}

}  // namespace

Result<uint16_t> first_port(std::string_view job, int count, std::optional<int> base) {
  if (base) {
    if (*base + count - 1 > kLastPort)
      return fail(ExitCode::kUsage, fmt::format("--port_base {}: {} tasks on one host need the ports up to {}, and the "
                                                "last one is {}",
                                                *base, count, *base + count - 1, kLastPort));
    return static_cast<uint16_t>(*base);
  }
  if (count >= kEnd - kFirst)
    return fail(ExitCode::kUsage, fmt::format("{} tasks on one host are more than there are ports for them", count));
  return static_cast<uint16_t>(kFirst + static_cast<int>(hash(job) % static_cast<uint64_t>(kEnd - kFirst - count)));
}

}  // namespace dtrain::cluster
