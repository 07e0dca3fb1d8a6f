// CRC-32C (Castagnoli, RFC 3720 appendix B.4), the checksum of frames. Uses SSE4.2 where the processor has it.
#pragma once

#include "base/bytes.h"

namespace dtrain {

// `seed` is the checksum of the bytes before, so that crc32c(b, crc32c(a)) == crc32c(ab).
uint32_t crc32c(ByteSpan bytes, uint32_t seed = 0);
// The table implementation, whatever the processor; for tests and for processors without the instruction.
uint32_t crc32c_portable(ByteSpan bytes, uint32_t seed = 0);

}  // namespace dtrain
