#include "checkpoint/shard.h"

#include <fmt/format.h>

#include <charconv>
#include <map>

#include "base/check.h"

namespace dtrain::checkpoint {
namespace {

std::string escaped(std::string_view name) {
  std::string out;
  for (char c : name) {
    if (c == '%' || c == '@' || c == '#')
      out += fmt::format("%{:02x}", static_cast<unsigned char>(c));
    else
      out += c;
  }
  return out;
}

std::optional<std::string> unescaped(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '@' || text[i] == '#') return std::nullopt;
    if (text[i] != '%') {
      out += text[i];
      continue;
    }
    const std::string_view code = text.substr(i, 3);
    if (code != "%25" && code != "%40" && code != "%23") return std::nullopt;
    out += code == "%25" ? '%' : code == "%40" ? '@' : '#';
    i += 2;
  }
  return out;
}

}  // namespace

std::string to_string(const ShardTensorName& name) {
  const bool elements = name.part == ShardTensorName::Part::kElements;
  std::string text = fmt::format(
      "{}@{}", escaped(name.parameter),
      elements ? std::to_string(name.first) : (name.part == ShardTensorName::Part::kRows ? "rows" : "values"));
  if (!name.slot.empty()) text += "#" + escaped(name.slot);
  return text;
}

std::optional<ShardTensorName> shard_tensor_name(std::string_view text) {
  const size_t at = text.find('@');
  if (at == std::string_view::npos) return std::nullopt;
  std::string_view place = text.substr(at + 1), slot;
  const size_t hash = place.find('#');
  if (hash != std::string_view::npos) {
    slot = place.substr(hash + 1);
    place = place.substr(0, hash);
    if (slot.empty()) return std::nullopt;
  }
  std::optional<std::string> parameter = unescaped(text.substr(0, at)), slot_name = unescaped(slot);
  ShardTensorName name;
  if (place == "rows" || place == "values") {
    if (!parameter || !slot_name || (place == "rows" && !slot.empty())) return std::nullopt;
    name.part = place == "rows" ? ShardTensorName::Part::kRows : ShardTensorName::Part::kValues;
    name.parameter = std::move(*parameter);
    name.slot = std::move(*slot_name);
    return name;
  }
  const auto [end, error] = std::from_chars(place.data(), place.data() + place.size(), name.first);
  if (!parameter || !slot_name || error != std::errc() || end != place.data() + place.size() || name.first < 0)
    return std::nullopt;
  name.parameter = std::move(*parameter);
  name.slot = std::move(*slot_name);
  return name;
}

Result<ManifestFile> write_shard(FileSystem& files, const std::string& directory, int64_t step, int64_t server,
                                 std::span<const ShardBlock> blocks, std::span<const ShardRows> rows) {
  std::vector<TensorDeclaration> tensors;
  std::map<std::string, ByteSpan> bytes;
  const auto add = [&](const ShardBlock& block, const std::string& slot, ByteSpan content) {
    DTRAIN_CHECK(content.size() == block.value.size(), "'{}' slot '{}'", block.parameter, slot);
    DTRAIN_CHECK(content.size() % size_of(block.dtype) == 0, "'{}'", block.parameter);
    std::string name = to_string(ShardTensorName{block.parameter, block.first, slot});
    tensors.push_back({name, block.dtype, Shape{static_cast<int64_t>(content.size() / size_of(block.dtype))}});
    bytes[std::move(name)] = content;
  };
  for (const ShardBlock& block : blocks) {
    add(block, "", block.value);
    for (const auto& [slot, content] : block.slots) add(block, slot, content);
  }
  for (const ShardRows& table : rows) {
    const auto add_rows = [&](ShardTensorName name, DType dtype, Shape shape, ByteSpan content) {
      name.parameter = table.parameter;
      DTRAIN_CHECK(content.size() == *bytes_of(dtype, shape), "'{}' slot '{}'", name.parameter, name.slot);
      std::string text = to_string(name);
      tensors.push_back({text, dtype, std::move(shape)});
      bytes[std::move(text)] = content;
    };
    const auto n = static_cast<int64_t>(table.rows.size());
    add_rows({.part = ShardTensorName::Part::kRows}, DType::kI64, Shape{n}, std::as_bytes(table.rows));
    add_rows({.part = ShardTensorName::Part::kValues}, DType::kF32, Shape{n, table.width}, std::as_bytes(table.values));
    for (const auto& [slot, values] : table.slots)
      add_rows({.slot = slot, .part = ShardTensorName::Part::kValues}, DType::kF32, Shape{n, table.width},
               std::as_bytes(values));
  }
  const std::string name = shard_file_name(server);
  const Metadata metadata = {
      {"format", "dtrain-shard"}, {"step", std::to_string(step)}, {"server", std::to_string(server)}};
  DTRAIN_TRY_ASSIGN(auto writer,
                    SafetensorsWriter::create(files, directory + "/" + name, std::move(tensors), metadata));
  for (const auto& [tensor, content] : bytes) DTRAIN_TRY(writer.write(tensor, content));
  DTRAIN_TRY_ASSIGN(const FileDigest digest, writer.finish());
  return ManifestFile{name, digest.bytes, digest.sha256};
}

}  // namespace dtrain::checkpoint
