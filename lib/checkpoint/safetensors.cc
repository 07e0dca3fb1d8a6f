#include "checkpoint/safetensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/check.h"

namespace dtrain::checkpoint {
namespace {

tl::unexpected<Error> bad(const std::string& path, std::string_view reason) {
  return fail(ExitCode::kCheckpoint, fmt::format("'{}' is not a valid safetensors file: {}", path, reason));
}

// The header with its length before it and spaces behind it, so that the data begin at a multiple of 8.
Result<std::string> make_header(const std::vector<TensorDeclaration>& tensors, const Metadata& metadata) {
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  if (!metadata.empty()) header["__metadata__"] = metadata;
  uint64_t at = 0;
  for (const TensorDeclaration& t : tensors) {
    const std::optional<uint64_t> bytes = bytes_of(t.dtype, t.shape);
    DTRAIN_CHECK(bytes.has_value(), "tensor '{}' of shape {}", t.name, to_string(t.shape));
    header[t.name] = {{"dtype", name_of(t.dtype)}, {"shape", t.shape.dims()}, {"data_offsets", {at, at + *bytes}}};
    at += *bytes;
  }
  std::string text;
  try {
    text = header.dump();
  } catch (const nlohmann::json::exception& e) {
    return fail(ExitCode::kCheckpoint, fmt::format("a tensor's name cannot be written: {}", e.what()));
  }
  text.append((8 - text.size() % 8) % 8, ' ');
  if (text.size() > SafetensorsReader::kMaxHeader)
    return fail(ExitCode::kCheckpoint,
                fmt::format("{} tensors make a header of {} bytes, more than the {} that the format allows",
                            tensors.size(), text.size(), SafetensorsReader::kMaxHeader));
  std::string length(8, '\0');
  store_le<uint64_t>(length.data(), text.size());
  return length + text;
}

}  // namespace

Result<SafetensorsReader> SafetensorsReader::open(const FileSystem& files, const std::string& path) {
  SafetensorsReader reader;
  reader.path_ = path;
  DTRAIN_TRY_ASSIGN(reader.file_, under_code(ExitCode::kCheckpoint, files.open(path)));
  const uint64_t size = reader.file_->size();
  std::byte prefix[8];
  if (size < sizeof prefix) return bad(path, fmt::format("it has {} bytes, too few for a header", size));
  DTRAIN_TRY(under_code(ExitCode::kCheckpoint, reader.file_->read(0, prefix)));
  const auto length = load_le<uint64_t>(prefix);
  if (length > kMaxHeader)
    return bad(path, fmt::format("its header has {} bytes, more than the {} allowed", length, kMaxHeader));
  if (length > size - sizeof prefix)
    return bad(path, fmt::format("its header has {} bytes, the file {}: it is cut", length, size));
  std::string json(length, '\0');
  DTRAIN_TRY(under_code(ExitCode::kCheckpoint, reader.file_->read(sizeof prefix, std::as_writable_bytes(std::span(
                                                                                     json.data(), json.size())))));
  reader.data_begin_ = sizeof prefix + length;
  Result<SafetensorsHeader> header = parse_safetensors_header(json, size - reader.data_begin_);
  if (!header) return bad(path, header.error().message);
  reader.header_ = std::move(*header);
  return reader;
}

const TensorInfo* SafetensorsReader::find(std::string_view name) const {
  const auto at = std::lower_bound(tensors().begin(), tensors().end(), name,
                                   [](const TensorInfo& t, std::string_view n) { return t.name < n; });
  return at != tensors().end() && at->name == name ? &*at : nullptr;
}

Status SafetensorsReader::read(const TensorInfo& tensor, uint64_t first_byte, MutableByteSpan into) const {
  DTRAIN_CHECK(first_byte <= tensor.bytes && into.size() <= tensor.bytes - first_byte, "'{}': {} bytes from {} of {}",
               tensor.name, into.size(), first_byte, tensor.bytes);
  return under_code(ExitCode::kCheckpoint, file_->read(data_begin_ + tensor.begin + first_byte, into));
}

Result<SafetensorsWriter> SafetensorsWriter::create(FileSystem& files, const std::string& path,
                                                    std::vector<TensorDeclaration> tensors, const Metadata& metadata) {
  std::sort(tensors.begin(), tensors.end(),
            [](const TensorDeclaration& a, const TensorDeclaration& b) { return a.name < b.name; });
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (i > 0 && tensors[i].name == tensors[i - 1].name)
      return fail(ExitCode::kCheckpoint,
                  fmt::format("cannot write '{}': tensor '{}' is there twice", path, tensors[i].name));
    if (tensors[i].name == "__metadata__")
      return fail(ExitCode::kCheckpoint,
                  fmt::format("cannot write '{}': no tensor can be called '__metadata__'", path));
  }
  DTRAIN_TRY_ASSIGN(const std::string header, make_header(tensors, metadata));
  SafetensorsWriter writer;
  writer.path_ = path;
  writer.tensors_ = std::move(tensors);
  writer.hash_ = std::make_unique<Sha256>();
  writer.beside_ = path + ".tmp";
  DTRAIN_TRY_ASSIGN(writer.file_, under_code(ExitCode::kCheckpoint, files.create(writer.beside_)));
  writer.files_ = &files;
  DTRAIN_TRY(writer.append(std::as_bytes(std::span(header.data(), header.size()))));
  writer.skip_empty();
  return writer;
}

SafetensorsWriter::~SafetensorsWriter() {
  if (!file_) return;
  file_.reset();
  (void)files_->remove_tree(beside_);  // what made it fail has been told already
}

void SafetensorsWriter::skip_empty() {
  while (next_ < tensors_.size() && written_ == *bytes_of(tensors_[next_].dtype, tensors_[next_].shape)) {
    ++next_;
    written_ = 0;
  }
}

Status SafetensorsWriter::append(ByteSpan bytes) {
  hash_->update(bytes);
  file_bytes_ += bytes.size();
  return under_code(ExitCode::kCheckpoint, file_->write(bytes));
}

Status SafetensorsWriter::write(std::string_view name, ByteSpan bytes) {
  if (bytes.empty()) return {};
  DTRAIN_CHECK(next_ < tensors_.size() && tensors_[next_].name == name, "tensor '{}' is written out of turn", name);
  const TensorDeclaration& tensor = tensors_[next_];
  DTRAIN_CHECK(bytes.size() <= *bytes_of(tensor.dtype, tensor.shape) - written_, "tensor '{}' gets too many bytes",
               name);
  DTRAIN_TRY(append(bytes));
  written_ += bytes.size();
  skip_empty();
  return {};
}

Result<FileDigest> SafetensorsWriter::finish() {
  DTRAIN_CHECK(next_ == tensors_.size(), "tensor '{}' is not finished", tensors_[next_].name);
  DTRAIN_TRY(under_code(ExitCode::kCheckpoint, file_->sync()));
  DTRAIN_TRY(under_code(ExitCode::kCheckpoint, file_->close()));
  DTRAIN_TRY(under_code(ExitCode::kCheckpoint, files_->rename(beside_, path_)));
  file_.reset();
  DTRAIN_TRY(under_code(ExitCode::kCheckpoint, files_->sync_directory(parent_path(path_))));
  return FileDigest{file_bytes_, hash_->finish()};
}

}  // namespace dtrain::checkpoint
