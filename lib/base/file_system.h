// Files as the program sees them: the few operations that data readers and checkpoints need, behind an interface, so
// that a test can make any of them fail. Errors carry the operation, the path and the system's reason, under
// ExitCode::kData; a caller for whom a failure means something else says so with under_code(). Implementations are
// thread-safe; a WritableFile belongs to one thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"

namespace dtrain {

// An open file for reading at any offset, by any number of threads at once.
class ReadableFile {
 public:
  virtual ~ReadableFile() = default;
  // The size when it was opened.
  virtual uint64_t size() const = 0;
  // Fills `into` from `offset` on; a file that ends before that is an error.
  virtual Status read(uint64_t offset, MutableByteSpan into) const = 0;
};

// A file being written from front to back. Without sync() nothing is promised to survive a crash. The destructor
// closes.
class WritableFile {
 public:
  virtual ~WritableFile() = default;
  virtual Status write(ByteSpan bytes) = 0;
  // fsync. After a failure the file is to be given up: what a second fsync says is not to be trusted.
  virtual Status sync() = 0;
  virtual Status close() = 0;
};

class FileSystem {
 public:
  virtual ~FileSystem() = default;

  virtual Result<std::unique_ptr<ReadableFile>> open(const std::string& path) const = 0;
  // Creates or empties `path`; mode 0644 under the process's umask.
  virtual Result<std::unique_ptr<WritableFile>> create(const std::string& path) = 0;
  // Replaces a file at `to`; a directory at `to` must be empty.
  virtual Status rename(const std::string& from, const std::string& to) = 0;
  // Makes the names in a directory survive a crash.
  virtual Status sync_directory(const std::string& path) = 0;
  // The names in a directory, sorted, without "." and "..".
  virtual Result<std::vector<std::string>> list(const std::string& path) const = 0;
  // Also the missing parents; it is no error if it exists.
  virtual Status make_directories(const std::string& path) = 0;
  // A file, or a directory with all it holds (links are removed, not followed); it is no error if it does not exist.
  virtual Status remove_tree(const std::string& path) = 0;
  // False for what is not there; an error where that cannot be known.
  virtual Result<bool> exists(const std::string& path) const = 0;

  // The whole file; refused where it has more than `max_bytes`.
  Result<std::string> read_file(const std::string& path, uint64_t max_bytes) const;
  // Creates or replaces `path` so that after a crash the old content or the new is there: written beside, synced,
  // renamed, directory synced.
  Status replace_file(const std::string& path, std::string_view content);
};

class RealFileSystem final : public FileSystem {
 public:
  Result<std::unique_ptr<ReadableFile>> open(const std::string& path) const override;
  Result<std::unique_ptr<WritableFile>> create(const std::string& path) override;
  Status rename(const std::string& from, const std::string& to) override;
  Status sync_directory(const std::string& path) override;
  Result<std::vector<std::string>> list(const std::string& path) const override;
  Status make_directories(const std::string& path) override;
  Status remove_tree(const std::string& path) override;
  Result<bool> exists(const std::string& path) const override;
};

// "a/b" of "a/b/c", "/" of "/c", "." of "c".
std::string parent_path(const std::string& path);

// The same result with another exit code on its error.
template <typename T>
Result<T> under_code(ExitCode code, Result<T> result) {
  if (!result) result.error().code = code;
  return result;
}

}  // namespace dtrain
