// What a user may name as a model: a model file, the folder of a checkpoint, or of a run (its newest complete
// checkpoint).
#pragma once

#include <string>

#include "base/file_system.h"
#include "base/result.h"

namespace dtrain::cmd {

struct ModelPath {
  std::string path;
  bool checkpoint = false;  // path is a checkpoint's folder, else a model file
};

// The error (kCheckpoint) says what is missing.
Result<ModelPath> find_model(FileSystem& files, const std::string& path);

}  // namespace dtrain::cmd
