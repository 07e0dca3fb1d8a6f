// What one shard server puts into a checkpoint: the blocks that it owns, a block being a contiguous range of a
// parameter's elements with its optimizer slots. In the file a block's values are the flat tensor `<parameter>@<first
// element>`, a slot's are `<parameter>@<first element>#<slot>`; '%', '@' and '#' in names are written %25, %40, %23. Of
// a sparse table it is `<parameter>@rows`, the numbers of the rows that the server keeps, ascending,
// `<parameter>@values` and `<parameter>@values#<slot>`.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "checkpoint/manifest.h"
#include "checkpoint/safetensors.h"

namespace dtrain::checkpoint {

// Borrows the bytes.
struct ShardBlock {
  std::string parameter;
  int64_t first = 0;  // element
  DType dtype = DType::kF32;
  ByteSpan value;
  std::vector<std::pair<std::string, ByteSpan>> slots;  // name and bytes, as many as `value` has
};

// The kept rows of a sparse table. Borrows everything.
struct ShardRows {
  std::string parameter;
  int64_t width = 0;
  std::span<const int64_t> rows;                                      // ascending
  std::span<const float> values;                                      // [rows, width]
  std::vector<std::pair<std::string, std::span<const float>>> slots;  // name and [rows, width]
};

struct ShardTensorName {
  enum class Part { kElements, kRows, kValues };
  std::string parameter;
  int64_t first = 0;  // of kElements
  std::string slot;   // "": the value
  Part part = Part::kElements;

  bool operator==(const ShardTensorName&) const = default;
};
std::string to_string(const ShardTensorName& name);
std::optional<ShardTensorName> shard_tensor_name(std::string_view text);

// Writes `directory`/server-<server>.safetensors, synced and in its place; the digest goes into the manifest.
Result<ManifestFile> write_shard(FileSystem& files, const std::string& directory, int64_t step, int64_t server,
                                 std::span<const ShardBlock> blocks, std::span<const ShardRows> rows = {});

}  // namespace dtrain::checkpoint
