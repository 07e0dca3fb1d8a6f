// IDX, the format of MNIST: two zero bytes, a type (08 for bytes), the number of axes, each extent as big-endian u32,
// the elements; plain or in gzip, told apart by their first bytes. Only bytes are read, as all such datasets have them.
//
//   [data.train]
//   format = "idx"
//   images = "train-images-idx3-ubyte.gz"    [N, H, W], given as [1, H, W]; or [N, C, H, W]
//   labels = "train-labels-idx1-ubyte.gz"    [N]
//   scale = …, mean = […], std = […], limit = …
#pragma once

#include <string>

#include "base/file_system.h"
#include "base/result.h"
#include "data/array.h"

namespace dtrain::data {

// Never allocates more than the file is long, or in gzip could be at most (1032 times), and no more than its own header
// declares. Errors: ExitCode::kData with path and reason.
Result<Array> read_idx(const FileSystem& files, const std::string& path);

}  // namespace dtrain::data
