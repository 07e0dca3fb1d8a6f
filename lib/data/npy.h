// NumPy's .npy, versions 1 to 3 (numpy/lib/format.py describes them): "\x93NUMPY", version, length of the header, a
// Python dictionary with descr, fortran_order and shape, the elements. Little-endian integers of 1, 2, 4, 8 bytes and
// floats of 4 and 8, in C order.
//
//   [data.train]
//   format = "npy"
//   inputs = "x.npy"     [N, …]: sample by sample
//   labels = "y.npy"     integers [N]: a class a sample; integers [N, …]: a class a position; floats: values
//   scale = …, mean = […], std = […], limit = …
#pragma once

#include <string>

#include "base/file_system.h"
#include "base/result.h"
#include "data/array.h"

namespace dtrain::data {

// Allocates what the file holds, after having found that it is what its header declares. Errors: ExitCode::kData with
// path and reason.
Result<Array> read_npy(const FileSystem& files, const std::string& path);

}  // namespace dtrain::data
