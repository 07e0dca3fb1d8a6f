// The folder that a run writes into (--out): metrics.jsonl, checkpoints/, model.safetensors. The coordinator alone
// makes it; a folder that already holds a run is refused unless the run is resumed.
#pragma once

#include <string>

#include "base/file_system.h"
#include "base/log.h"
#include "base/result.h"

namespace dtrain::node {

class OutFolder {
 public:
  explicit OutFolder(std::string path) : path_(std::move(path)) {}

  const std::string& path() const { return path_; }
  std::string metrics() const { return path_ + "/metrics.jsonl"; }
  std::string checkpoints() const { return path_ + "/checkpoints"; }
  std::string model() const { return path_ + "/model.safetensors"; }
  std::string model_average() const { return path_ + "/model-ema.safetensors"; }

  // Makes the folder for a new run; an error where one is there already.
  Status create(FileSystem& files) const;
  // For a run that goes on where it can (--auto_resume): true where there is a checkpoint to go on from. Where there is
  // none, what an earlier try has left without one is removed, so that the run can begin anew.
  Result<bool> resumes(FileSystem& files, Log& log) const;
  // Leaves the mark by which servers of other processes know that they see this disk; removes those of earlier lives.
  Status mark(FileSystem& files, uint64_t incarnation) const;
  Status remove_marks(FileSystem& files) const;

 private:
  std::string path_;
};

}  // namespace dtrain::node
