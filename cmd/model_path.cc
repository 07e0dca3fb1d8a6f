#include "model_path.h"

#include <fmt/format.h>

#include "base/log.h"
#include "checkpoint/checkpoint_folder.h"

namespace dtrain::cmd {

Result<ModelPath> find_model(FileSystem& files, const std::string& path) {
  auto exists = [&](const std::string& at) { return under_code(ExitCode::kCheckpoint, files.exists(at)); };
  DTRAIN_TRY_ASSIGN(const bool there, exists(path));
  if (!there) return fail(ExitCode::kCheckpoint, fmt::format("{}: no such file or folder", path));
  if (!files.list(path)) return ModelPath{path, false};
  DTRAIN_TRY_ASSIGN(const bool itself, exists(path + "/" + checkpoint::Manifest::kFileName));
  if (itself) return ModelPath{path, true};
  DTRAIN_TRY_ASSIGN(const bool run, exists(path + "/checkpoints"));
  NullLog log;
  const checkpoint::CheckpointFolder folder(files, run ? path + "/checkpoints" : path, log);
  DTRAIN_TRY_ASSIGN(const auto newest, folder.newest());
  if (!newest) return fail(ExitCode::kCheckpoint, fmt::format("{} holds no complete checkpoint", path));
  return ModelPath{folder.path_of(newest->step), true};
}

}  // namespace dtrain::cmd
