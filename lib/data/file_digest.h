// What a file holds, as far as it takes to tell two data sets apart without reading hundreds of gigabytes before a run:
// of a file up to kWhole all of it, of a larger one its size and kPieces pieces, evenly spaced, the first and the last
// among them.
#pragma once

#include <functional>

#include "base/file_system.h"
#include "base/result.h"
#include "base/sha256.h"

namespace dtrain::data {

constexpr uint64_t kDigestPiece = 1u << 20;
constexpr uint64_t kDigestPieces = 256;
constexpr uint64_t kDigestWhole = kDigestPiece * kDigestPieces;

// Shows each piece to `look` as well, which may refuse it; offsets are multiples of 8.
using LookAtPiece = std::function<Status(uint64_t offset, ByteSpan piece)>;
Result<Digest> file_digest(const ReadableFile& file, const LookAtPiece& look);

}  // namespace dtrain::data
