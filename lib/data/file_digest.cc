#include "data/file_digest.h"

#include <fmt/format.h>

#include <algorithm>

#include "tensor/buffer.h"

namespace dtrain::data {

Result<Digest> file_digest(const ReadableFile& file, const LookAtPiece& look) {
  const uint64_t size = file.size();
  const bool whole = size <= kDigestWhole;
  const uint64_t pieces = whole ? (size + kDigestPiece - 1) / kDigestPiece : kDigestPieces;
  Buffer buffer(std::min(size, kDigestPiece + 8));
  Sha256 hash;
  hash.update(fmt::format("file {} ", size));
  for (uint64_t i = 0; i < pieces; ++i) {
    const uint64_t offset = whole ? i * kDigestPiece : (size - kDigestPiece) / (pieces - 1) * i / 8 * 8;
    const bool last = i + 1 == pieces;
    const uint64_t begin = last && !whole ? (size - kDigestPiece) / 8 * 8 : offset;
    const MutableByteSpan piece(buffer.data(), last ? size - begin : kDigestPiece);
    DTRAIN_TRY(file.read(begin, piece));
    DTRAIN_TRY(look(begin, piece));
    hash.update(piece);
  }
  return hash.finish();
}

}  // namespace dtrain::data
