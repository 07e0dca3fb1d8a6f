// What one shard server puts into a checkpoint: the blocks that it owns, a block being a contiguous range of a
// parameter's elements with its optimizer slots. In the file a block's values are the flat tensor `<parameter>@<first
// element>`, a slot's are `<parameter>@<first element>#<slot>`; '%', '@' and '#' in names are written %25, %40, %23.
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

struct ShardTensorName {
  std::string parameter;
  int64_t first = 0;
  std::string slot;  // "": the value

  bool operator==(const ShardTensorName&) const = default;
};
std::string to_string(const ShardTensorName& name);
std::optional<ShardTensorName> shard_tensor_name(std::string_view text);

// Writes `directory`/server-<server>.safetensors, synced and in its place; the digest goes into the manifest.
Result<ManifestFile> write_shard(FileSystem& files, const std::string& directory, int64_t step, int64_t server,
                                 std::span<const ShardBlock> blocks);

}  // namespace dtrain::checkpoint
