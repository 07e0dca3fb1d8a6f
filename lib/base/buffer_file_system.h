// A file system of a few files in memory, for bytes that are made by code which writes files but that go elsewhere. No
// directories: every path stands for itself. One thread.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "base/file_system.h"

namespace dtrain {

class BufferFileSystem final : public FileSystem {
 public:
  // The content of a file that was created, null where there is none. Shares the bytes.
  std::shared_ptr<const std::string> content(const std::string& path) const;

  Result<std::unique_ptr<ReadableFile>> open(const std::string& path) const override;
  Result<std::unique_ptr<WritableFile>> create(const std::string& path) override;
  Status rename(const std::string& from, const std::string& to) override;
  Status sync_directory(const std::string&) override { return {}; }
  Result<std::vector<std::string>> list(const std::string& path) const override;
  Status make_directories(const std::string&) override { return {}; }
  Status remove_tree(const std::string& path) override;
  Result<bool> exists(const std::string& path) const override { return files_.contains(path); }

 private:
  std::map<std::string, std::shared_ptr<std::string>> files_;
};

}  // namespace dtrain
