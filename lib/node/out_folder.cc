#include "node/out_folder.h"

#include <fmt/format.h>

#include "checkpoint/checkpoint_folder.h"
#include "node/snapshot_writer.h"

namespace dtrain::node {

namespace {

// Begun runs have rows or checkpoints; what a start that failed has left is no run.
Result<bool> holds(const FileSystem& files, const OutFolder& out, std::string& what) {
  DTRAIN_TRY_ASSIGN(const bool model, files.exists(out.model()));
  if (model) what = "model.safetensors";
  DTRAIN_TRY_ASSIGN(const bool metrics, files.exists(out.metrics()));
  if (metrics) {
    DTRAIN_TRY_ASSIGN(const auto file, files.open(out.metrics()));
    if (file->size() > 0) what = "metrics.jsonl";
  }
  DTRAIN_TRY_ASSIGN(const bool checkpoints, files.exists(out.checkpoints()));
  if (checkpoints) {
    DTRAIN_TRY_ASSIGN(const auto names, files.list(out.checkpoints()));
    for (const std::string& name : names)
      if (!name.starts_with(".")) what = "checkpoints/" + name;
  }
  return !what.empty();
}

}  // namespace

Status OutFolder::create(FileSystem& files) const {
  std::string what;
  DTRAIN_TRY(under_code(ExitCode::kUsage, files.make_directories(path_)));
  DTRAIN_TRY_ASSIGN(const bool taken, under_code(ExitCode::kUsage, holds(files, *this, what)));
  if (!taken) return {};
  return fail(ExitCode::kUsage,
              fmt::format("{} holds a run already ({}): give another --out, go on with it by --resume, or "
                          "remove it",
                          path_, what));
}

Result<bool> OutFolder::resumes(FileSystem& files, Log& log) const {
  const checkpoint::CheckpointFolder folder(files, checkpoints(), log);
  DTRAIN_TRY_ASSIGN(const auto newest, folder.newest());
  if (newest) return true;
  for (const std::string& path : {metrics(), model(), model_average()})
    DTRAIN_TRY(under_code(ExitCode::kUsage, files.remove_tree(path)));
  return false;
}

Status OutFolder::remove_marks(FileSystem& files) const {
  DTRAIN_TRY_ASSIGN(const auto names, under_code(ExitCode::kCheckpoint, files.list(checkpoints())));
  for (const std::string& name : names)
    if (name.starts_with(".seen-"))
      DTRAIN_TRY(under_code(ExitCode::kCheckpoint, files.remove_tree(checkpoints() + "/" + name)));
  return {};
}

Status OutFolder::mark(FileSystem& files, uint64_t incarnation) const {
  DTRAIN_TRY(under_code(ExitCode::kCheckpoint, files.make_directories(checkpoints())));
  DTRAIN_TRY(remove_marks(files));
  return under_code(ExitCode::kCheckpoint, files.replace_file(disk_mark(checkpoints(), incarnation), ""));
}

}  // namespace dtrain::node
