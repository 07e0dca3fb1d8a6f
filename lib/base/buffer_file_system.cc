#include "base/buffer_file_system.h"

#include <fmt/format.h>

#include <cstring>

namespace dtrain {
namespace {

class BufferReader final : public ReadableFile {
 public:
  explicit BufferReader(std::shared_ptr<const std::string> content) : content_(std::move(content)) {}
  uint64_t size() const override { return content_->size(); }
  Status read(uint64_t offset, MutableByteSpan into) const override {
    if (offset > content_->size() || into.size() > content_->size() - offset)
      return fail(ExitCode::kData, "the file ends too early");
    std::memcpy(into.data(), content_->data() + offset, into.size());
    return {};
  }

 private:
  std::shared_ptr<const std::string> content_;
};

class BufferWriter final : public WritableFile {
 public:
  explicit BufferWriter(std::shared_ptr<std::string> content) : content_(std::move(content)) {}
  Status write(ByteSpan bytes) override {
    content_->append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    return {};
  }
  Status sync() override { return {}; }
  Status close() override { return {}; }

 private:
  std::shared_ptr<std::string> content_;
};

tl::unexpected<Error> missing(const std::string& path) {
  return fail(ExitCode::kData, fmt::format("there is no '{}'", path));
}

}  // namespace

std::shared_ptr<const std::string> BufferFileSystem::content(const std::string& path) const {
  const auto at = files_.find(path);
  return at == files_.end() ? nullptr : at->second;
}

Result<std::unique_ptr<ReadableFile>> BufferFileSystem::open(const std::string& path) const {
  const auto there = content(path);
  if (!there) return missing(path);
  return std::make_unique<BufferReader>(there);
}

Result<std::unique_ptr<WritableFile>> BufferFileSystem::create(const std::string& path) {
  auto& file = files_[path] = std::make_shared<std::string>();
  return std::make_unique<BufferWriter>(file);
}

Status BufferFileSystem::rename(const std::string& from, const std::string& to) {
  const auto at = files_.find(from);
  if (at == files_.end()) return missing(from);
  auto content = std::move(at->second);
  files_.erase(at);
  files_[to] = std::move(content);
  return {};
}

Result<std::vector<std::string>> BufferFileSystem::list(const std::string& path) const {
  std::vector<std::string> names;
  for (const auto& [name, content] : files_)
    if (parent_path(name) == path) names.push_back(name.substr(path.size() + 1));
  return names;
}

Status BufferFileSystem::remove_tree(const std::string& path) {
  std::erase_if(files_, [&](const auto& file) { return file.first == path || file.first.starts_with(path + "/"); });
  return {};
}

}  // namespace dtrain
