// What decides the bits that this backend computes: part of a task's arithmetic fingerprint. Tasks whose fingerprints
// differ would train different weights from the same data.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace dtrain::ops::cpu {

// Names that set_isa() takes, the weakest first: "sse41", "avx", "avx2", "avx512_core", …
std::vector<std::string> isa_names();

// Lets oneDNN use no instructions beyond `name`, so that hosts with different CPUs compute the same bits. Must come
// before anything is planned; an error (kUsage) where it comes too late, the name is unknown or the CPU has not got
// them.
Status set_isa(std::string_view name);

// The instructions that oneDNN makes use of, by such a name.
std::string isa_in_use();
std::string onednn_version();  // of the library that is loaded: "2.6.3"

// Whether convolutions may be computed by Winograd's algorithm; they may unless this says no, before anything is
// planned. Its sums are rounded about five times as coarsely as direct ones.
void set_winograd(bool allowed);
bool winograd_allowed();

// Whether products of BF16 numbers have instructions here (AVX512_BF16 or AMX), and set_isa() leaves them.
bool has_bf16();

// "onednn 2.6.3, isa avx512_core, probe 8c1f…": the last is the SHA-256 of the result of a small fixed convolution and
// product, forward and backward, under the number of OpenMP threads in force. From now on set_isa() is too late.
Result<std::string> fingerprint();

}  // namespace dtrain::ops::cpu
