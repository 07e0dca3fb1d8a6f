// Writes NumPy's .npy, version 1.0 (numpy/lib/format.py): little-endian floats in C order.
#pragma once

#include <span>
#include <string>

#include "base/file_system.h"
#include "base/result.h"
#include "tensor/shape.h"

namespace dtrain::watch {

// Creates or replaces `path`. Errors: ExitCode::kData.
Status write_npy(FileSystem& files, const std::string& path, const Shape& shape, std::span<const float> values);

}  // namespace dtrain::watch
