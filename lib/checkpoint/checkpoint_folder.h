// The folder `checkpoints/` of a run: complete checkpoints `step-00000100/`, and `.tmp-step-00000100/` while one is
// being written. Shard servers, possibly in several processes that share the disk, write their shards into the
// temporary folder; when all have said done, the coordinator commits it: manifest last, then the rename that makes the
// checkpoint exist. Whatever is interrupted, a checkpoint that was complete before stays. Errors:
// ExitCode::kCheckpoint. Borrows its arguments; methods may be called from any thread, but each file has one writer.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/file_system.h"
#include "base/log.h"
#include "checkpoint/manifest.h"
#include "checkpoint/shard.h"

namespace dtrain::checkpoint {

class CheckpointFolder {
 public:
  CheckpointFolder(FileSystem& files, std::string root, Log& log) : files_(files), root_(std::move(root)), log_(log) {}

  // Where the checkpoint of `step` is, or would be.
  std::string path_of(int64_t step) const;

  // A server's part of the snapshot of `step`. May be repeated: the last one counts.
  Result<ManifestFile> write_shard(int64_t step, int64_t server, std::span<const ShardBlock> blocks,
                                   std::span<const ShardRows> rows = {});
  // A shard file that came from elsewhere as bytes, for hosts that share no disk. `bytes` as write_shard wrote them.
  Result<ManifestFile> put_shard(int64_t step, int64_t server, ByteSpan bytes);
  // The coordinator's part, when all servers have written. Where a sound checkpoint of this step is there already it
  // stays and the new one is dropped: a state is determined by its step, so they are the same.
  Status commit(const Manifest& manifest);
  // Forgets what was written for `step` and not committed.
  Status abandon(int64_t step);

  // The steps whose checkpoints have a manifest, ascending; empty where the folder does not exist.
  Result<std::vector<int64_t>> list() const;
  // The manifest, checked in itself; not the files.
  Result<Manifest> load(int64_t step) const;
  // Reads every file and compares size and SHA-256.
  Status verify(const Manifest& manifest) const;
  // The newest that is sound; a damaged one is skipped, the reason logged as a warning. Nothing where no checkpoint was
  // ever completed; an error where there are some and all are damaged.
  Result<std::optional<Manifest>> newest() const;
  // After the commit of step `newest`: of the complete checkpoints up to it all but the last `keep` (at least 1) are
  // removed, and leftovers of steps up to it. Later ones are not touched: where they were skipped as damaged, the
  // replay will replace them.
  Status prune(int64_t keep, int64_t newest);

 private:
  std::string temporary_path(int64_t step) const;

  FileSystem& files_;
  std::string root_;
  Log& log_;
};

// The manifest in a checkpoint's folder, wherever that is; where the folder is called step-<n>, n must be its step.
Result<Manifest> load_manifest(const FileSystem& files, const std::string& folder);

// Reads every file of the checkpoint in `folder`, whatever that is called, and compares size and SHA-256.
Status verify_files(const FileSystem& files, const std::string& folder, const Manifest& manifest);

}  // namespace dtrain::checkpoint
