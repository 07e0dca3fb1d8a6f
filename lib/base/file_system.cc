#include "base/file_system.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include <algorithm>

namespace dtrain {
namespace {

// Linux transfers at most 0x7ffff000 bytes a call; smaller pieces cost nothing.
constexpr size_t kTransfer = size_t{1} << 30;

tl::unexpected<Error> failed(std::string_view operation, const std::string& path, int error) {
  return fail(ExitCode::kData,
              fmt::format("cannot {} '{}': {}", operation, path, std::generic_category().message(error)));
}

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&&) = delete;
  int get() const { return fd_; }
  int release() { return std::exchange(fd_, -1); }

 private:
  int fd_;
};

int open_retrying(const std::string& path, int flags, mode_t mode = 0) {
  int fd;
  do fd = ::open(path.c_str(), flags | O_CLOEXEC, mode);
  while (fd < 0 && errno == EINTR);
  return fd;
}

class RealReadableFile final : public ReadableFile {
 public:
  RealReadableFile(std::string path, Descriptor file, uint64_t size)
      : path_(std::move(path)), file_(std::move(file)), size_(size) {}

  uint64_t size() const override { return size_; }

  Status read(uint64_t offset, MutableByteSpan into) const override {
    while (!into.empty()) {
      const ssize_t n = ::pread(file_.get(), into.data(), std::min(into.size(), kTransfer), static_cast<off_t>(offset));
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return failed("read", path_, errno);
      if (n == 0)
        return fail(ExitCode::kData, fmt::format("cannot read '{}': it ends at byte {}, {} more were expected", path_,
                                                 offset, into.size()));
      offset += static_cast<uint64_t>(n);
      into = into.subspan(static_cast<size_t>(n));
    }
    return {};
  }

 private:
  std::string path_;
  Descriptor file_;
  uint64_t size_;
};

class RealWritableFile final : public WritableFile {
 public:
  RealWritableFile(std::string path, Descriptor file) : path_(std::move(path)), file_(std::move(file)) {}

  Status write(ByteSpan bytes) override {
    while (!bytes.empty()) {
      const ssize_t n = ::write(file_.get(), bytes.data(), std::min(bytes.size(), kTransfer));
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return failed("write", path_, errno);
      bytes = bytes.subspan(static_cast<size_t>(n));
    }
    return {};
  }

  Status sync() override {
    if (::fsync(file_.get()) != 0) return failed("fsync", path_, errno);
    return {};
  }

  Status close() override {
    // After EINTR Linux has closed the descriptor all the same.
    if (::close(file_.release()) != 0 && errno != EINTR) return failed("close", path_, errno);
    return {};
  }

 private:
  std::string path_;
  Descriptor file_;
};

}  // namespace

Result<std::string> FileSystem::read_file(const std::string& path, uint64_t max_bytes) const {
  DTRAIN_TRY_ASSIGN(auto file, open(path));
  if (file->size() > max_bytes)
    return fail(ExitCode::kData, fmt::format("cannot read '{}': it has {} bytes, more than the {} that are allowed",
                                             path, file->size(), max_bytes));
  std::string content(file->size(), '\0');
  DTRAIN_TRY(file->read(0, std::as_writable_bytes(std::span(content.data(), content.size()))));
  return content;
}

Status FileSystem::replace_file(const std::string& path, std::string_view content) {
  const std::string beside = path + ".tmp";
  {
    DTRAIN_TRY_ASSIGN(auto file, create(beside));
    Status written = file->write(std::as_bytes(std::span(content.data(), content.size())));
    if (written) written = file->sync();
    if (written) written = file->close();
    if (!written) {
      file.reset();
      (void)remove_tree(beside);  // the first error is the one to tell
      return written;
    }
  }
  DTRAIN_TRY(rename(beside, path));
  return sync_directory(parent_path(path));
}

Result<std::unique_ptr<ReadableFile>> RealFileSystem::open(const std::string& path) const {
  // O_NONBLOCK: a named pipe must not hold us up; it has no effect on files.
  Descriptor file(open_retrying(path, O_RDONLY | O_NONBLOCK));
  if (file.get() < 0) return failed("open", path, errno);
  struct stat info {};
  if (::fstat(file.get(), &info) != 0) return failed("open", path, errno);
  if (S_ISDIR(info.st_mode)) return failed("open", path, EISDIR);
  if (!S_ISREG(info.st_mode))
    return fail(ExitCode::kData, fmt::format("cannot open '{}': it is not a regular file", path));
  return std::make_unique<RealReadableFile>(path, std::move(file), static_cast<uint64_t>(info.st_size));
}

Result<std::unique_ptr<WritableFile>> RealFileSystem::create(const std::string& path) {
  Descriptor file(open_retrying(path, O_WRONLY | O_CREAT | O_TRUNC, 0644));
  if (file.get() < 0) return failed("create", path, errno);
  return std::make_unique<RealWritableFile>(path, std::move(file));
}

Status RealFileSystem::rename(const std::string& from, const std::string& to) {
  if (::rename(from.c_str(), to.c_str()) != 0) return failed("rename", fmt::format("{}' to '{}", from, to), errno);
  return {};
}

Status RealFileSystem::sync_directory(const std::string& path) {
  Descriptor directory(open_retrying(path, O_RDONLY | O_DIRECTORY));
  if (directory.get() < 0) return failed("open", path, errno);
  // Some network file systems cannot sync a directory and say EINVAL: they keep names by themselves.
  if (::fsync(directory.get()) != 0 && errno != EINVAL) return failed("fsync", path, errno);
  return {};
}

Result<std::vector<std::string>> RealFileSystem::list(const std::string& path) const {
  std::error_code error;
  std::vector<std::string> names;
  std::filesystem::directory_iterator entry(path, error), end;
  while (!error && entry != end) {
    names.push_back(entry->path().filename().string());
    entry.increment(error);
  }
  if (error) return failed("list", path, error.value());
  std::sort(names.begin(), names.end());
  return names;
}

Status RealFileSystem::make_directories(const std::string& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error) return failed("make directory", path, error.value());
  return {};
}

Status RealFileSystem::remove_tree(const std::string& path) {
  std::error_code error;
  std::filesystem::remove_all(path, error);
  if (error) return failed("remove", path, error.value());
  return {};
}

Result<bool> RealFileSystem::exists(const std::string& path) const {
  struct stat info {};
  if (::lstat(path.c_str(), &info) == 0) return true;
  if (errno == ENOENT || errno == ENOTDIR) return false;
  return failed("look for", path, errno);
}

std::string parent_path(const std::string& path) {
  const size_t slash = path.find_last_of('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

}  // namespace dtrain
