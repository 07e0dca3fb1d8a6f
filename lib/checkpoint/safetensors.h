// The safetensors format: u64 little-endian length of a JSON header, the header, the tensors' bytes. The header maps
// each name to {"dtype", "shape", "data_offsets": [begin, end]}, offsets counting from the header's end; "__metadata__"
// maps strings to strings. The reader believes nothing: every byte of the data belongs to exactly one tensor, or the
// file is refused with ExitCode::kCheckpoint, the path and the reason. Reader: const methods are thread-safe. Writer:
// one thread.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/file_system.h"
#include "base/sha256.h"
#include "tensor/dtype.h"
#include "tensor/shape.h"

namespace dtrain::checkpoint {

using Metadata = std::map<std::string, std::string>;

struct TensorDeclaration {
  std::string name;
  DType dtype = DType::kF32;
  Shape shape;
};

struct TensorInfo : TensorDeclaration {
  uint64_t begin = 0;  // within the data
  uint64_t bytes = 0;
};

// What a header says, without the file around it.
struct SafetensorsHeader {
  std::vector<TensorInfo> tensors;  // sorted by name
  Metadata metadata;
};

// `data_bytes` is what follows the header in the file. The error is the bare reason.
Result<SafetensorsHeader> parse_safetensors_header(std::string_view json, uint64_t data_bytes);

class SafetensorsReader {
 public:
  static constexpr uint64_t kMaxHeader = 100'000'000;

  static Result<SafetensorsReader> open(const FileSystem& files, const std::string& path);

  const std::string& path() const { return path_; }
  const std::vector<TensorInfo>& tensors() const { return header_.tensors; }
  const Metadata& metadata() const { return header_.metadata; }
  const TensorInfo* find(std::string_view name) const;  // nullptr where there is none
  // Fills `into` with a tensor's bytes from `first_byte` on.
  Status read(const TensorInfo& tensor, uint64_t first_byte, MutableByteSpan into) const;

 private:
  std::string path_;
  std::unique_ptr<ReadableFile> file_;
  uint64_t data_begin_ = 0;
  SafetensorsHeader header_;
};

// What a finished file is.
struct FileDigest {
  uint64_t bytes = 0;
  Digest sha256{};
};

// Declares all tensors, then takes their bytes in the order of their names, and puts the file in its place at the end:
// before finish() nothing is at `path`, and an object that goes without it leaves nothing behind.
class SafetensorsWriter {
 public:
  static Result<SafetensorsWriter> create(FileSystem& files, const std::string& path,
                                          std::vector<TensorDeclaration> tensors, const Metadata& metadata);
  SafetensorsWriter(SafetensorsWriter&&) noexcept = default;
  SafetensorsWriter& operator=(SafetensorsWriter&&) = delete;
  ~SafetensorsWriter();

  // In the order in which tensors must be written: by name.
  const std::vector<TensorDeclaration>& tensors() const { return tensors_; }
  // The next bytes of `name`, which must be the next unfinished tensor (a bug otherwise); a tensor may come in pieces.
  Status write(std::string_view name, ByteSpan bytes);
  // fsync, rename, fsync of the directory.
  Result<FileDigest> finish();

 private:
  SafetensorsWriter() = default;
  Status append(ByteSpan bytes);
  void skip_empty();

  FileSystem* files_ = nullptr;
  std::string path_, beside_;
  std::unique_ptr<WritableFile> file_;
  std::unique_ptr<Sha256> hash_;
  std::vector<TensorDeclaration> tensors_;
  size_t next_ = 0;       // the tensor being written
  uint64_t written_ = 0;  // of its bytes
  uint64_t file_bytes_ = 0;
};

// shape × size of dtype; nothing where an extent is negative or the product leaves 63 bits.
std::optional<uint64_t> bytes_of(DType dtype, const Shape& shape);

}  // namespace dtrain::checkpoint
