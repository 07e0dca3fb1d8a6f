// A file system that fails on demand, over a real one: the n-th operation gives an error (half of a write is done
// before it), and, where the fault is a crash, so does everything after it, as for a killed process. It knows what was
// synced, and can take away the rest, as a power cut may; it never syncs really, which makes tests quick. For one
// thread.
#pragma once

#include <filesystem>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/file_system.h"

namespace dtrain::checkpoint {

class FaultyFileSystem final : public FileSystem {
 public:
  static constexpr int64_t kNever = std::numeric_limits<int64_t>::max();

  explicit FaultyFileSystem(FileSystem& real, int64_t fail_at = kNever, bool crash = false)
      : real_(real), fail_at_(fail_at), crash_(crash) {}

  int64_t operations() const { return operations_; }

  // What a power cut may do: names that no directory sync has made last go back, files lose what was not synced.
  void lose_unsynced() {
    for (auto r = renames_.rbegin(); r != renames_.rend(); ++r) {
      if (std::filesystem::exists(r->first)) continue;
      std::filesystem::rename(r->second, r->first);
      rekey(r->second, r->first);
    }
    for (const auto& [path, size] : synced_)
      if (std::filesystem::exists(path)) std::filesystem::resize_file(path, size);
    for (const std::string& path : created_) std::filesystem::remove_all(path);
  }

  Result<std::unique_ptr<ReadableFile>> open(const std::string& path) const override {
    DTRAIN_TRY(count(path));
    return real_.open(path);
  }
  Result<std::unique_ptr<WritableFile>> create(const std::string& path) override {
    DTRAIN_TRY(count(path));
    DTRAIN_TRY_ASSIGN(auto file, real_.create(path));
    synced_[path] = 0;
    created_.insert(path);
    return std::make_unique<File>(*this, path, std::move(file));
  }
  Status rename(const std::string& from, const std::string& to) override {
    DTRAIN_TRY(count(from));
    DTRAIN_TRY(real_.rename(from, to));
    rekey(from, to);
    renames_.emplace_back(from, to);
    return {};
  }
  Status sync_directory(const std::string& path) override {
    DTRAIN_TRY(count(path));
    std::erase_if(renames_, [&](const auto& r) { return parent_path(r.second) == path; });
    std::erase_if(created_, [&](const auto& c) { return parent_path(c) == path; });
    return {};
  }
  Result<std::vector<std::string>> list(const std::string& path) const override {
    DTRAIN_TRY(count(path));
    return real_.list(path);
  }
  Status make_directories(const std::string& path) override {
    DTRAIN_TRY(count(path));
    return real_.make_directories(path);
  }
  Status remove_tree(const std::string& path) override {
    DTRAIN_TRY(count(path));
    std::erase_if(synced_, [&](const auto& s) { return s.first == path || s.first.starts_with(path + "/"); });
    return real_.remove_tree(path);
  }
  Result<bool> exists(const std::string& path) const override {
    DTRAIN_TRY(count(path));
    return real_.exists(path);
  }

 private:
  class File final : public WritableFile {
   public:
    File(FaultyFileSystem& owner, std::string path, std::unique_ptr<WritableFile> file)
        : owner_(owner), path_(std::move(path)), file_(std::move(file)) {}
    Status write(ByteSpan bytes) override {
      if (Status fine = owner_.count(path_); !fine) {
        if (owner_.operations_ == owner_.fail_at_ + 1) (void)file_->write(bytes.first(bytes.size() / 2));
        return fine;
      }
      size_ += bytes.size();
      return file_->write(bytes);
    }
    Status sync() override {
      DTRAIN_TRY(owner_.count(path_));
      owner_.synced_[path_] = size_;
      return {};
    }
    Status close() override {
      DTRAIN_TRY(owner_.count(path_));
      return file_->close();
    }

   private:
    FaultyFileSystem& owner_;
    std::string path_;
    std::unique_ptr<WritableFile> file_;
    uint64_t size_ = 0;
  };

  Status count(const std::string& path) const {
    const int64_t now = operations_++;
    if (now == fail_at_ || (crash_ && now > fail_at_))
      return fail(ExitCode::kData, "cannot use '" + path + "': No space left on device");
    return {};
  }

  void rekey(const std::string& from, const std::string& to) {
    std::map<std::string, uint64_t> moved;
    for (const auto& [path, size] : synced_)
      moved[path == from || path.starts_with(from + "/") ? to + path.substr(from.size()) : path] = size;
    synced_ = std::move(moved);
    created_.erase(from);
  }

  FileSystem& real_;
  int64_t fail_at_;
  bool crash_;
  mutable int64_t operations_ = 0;
  std::map<std::string, uint64_t> synced_;                    // bytes that last, of files written here
  std::set<std::string> created_;                             // names that no directory sync has made last
  std::vector<std::pair<std::string, std::string>> renames_;  // the same
};

}  // namespace dtrain::checkpoint
