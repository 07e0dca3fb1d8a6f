#include "compress/codec.h"

#include <array>

#include "base/check.h"

namespace dtrain::compress {
namespace {

std::array<const Codec*, 256>& codecs() {
  static std::array<const Codec*, 256> all{};
  return all;
}

}  // namespace

const Codec* find_codec(uint8_t id) { return codecs()[id]; }

bool register_codec(const Codec& codec) {
  const Codec*& place = codecs()[static_cast<uint8_t>(codec.id())];
  DTRAIN_CHECK(!place && codec.id() != CodecId::kNone, "codec {} registered twice", static_cast<int>(codec.id()));
  place = &codec;
  return true;
}

}  // namespace dtrain::compress
