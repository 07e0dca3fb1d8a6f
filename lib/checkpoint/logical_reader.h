// A complete checkpoint as what it means, however many servers wrote it: parameters, running statistics and optimizer
// slots by name, readable in any range of elements. A resume on another number of servers reads just what each of them
// owns now. Borrows nothing after open(); const methods are thread-safe.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/file_system.h"
#include "checkpoint/manifest.h"
#include "checkpoint/safetensors.h"

namespace dtrain::checkpoint {

class LogicalReader {
 public:
  // `folder` is the checkpoint's own (…/step-00000100). Refused (ExitCode::kCheckpoint) unless the files together hold
  // every element of everything that the manifest lists exactly once, and belong to its step. Digests are not compared:
  // CheckpointFolder::verify does that.
  static Result<LogicalReader> open(const FileSystem& files, const std::string& folder);

  const Manifest& manifest() const { return manifest_; }
  const std::string& folder() const { return folder_; }

  // Fills `into` with elements [first, first + into.size() / size of dtype) of a parameter's values (slot "") or of one
  // of its slots. An unknown name or a range outside is an error that names it.
  Status read(std::string_view parameter, std::string_view slot, int64_t first, MutableByteSpan into) const;

 private:
  struct Piece {
    int64_t first = 0, count = 0;  // elements
    const SafetensorsReader* file = nullptr;
    const TensorInfo* tensor = nullptr;
  };
  using Key = std::pair<std::string, std::string>;  // parameter, slot

  Status add_file(const FileSystem& files, const ManifestFile& entry);
  Status check_complete() const;
  Status check_covered(const ManifestParameter& parameter, const std::string& slot) const;

  Manifest manifest_;
  std::string folder_;
  std::vector<std::unique_ptr<SafetensorsReader>> readers_;
  std::map<Key, std::vector<Piece>> pieces_;  // by first element
};

}  // namespace dtrain::checkpoint
