#include "checkpoint/logical_reader.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/nearest.h"
#include "checkpoint/checkpoint_folder.h"
#include "checkpoint/shard.h"

namespace dtrain::checkpoint {
namespace {

std::string describe(std::string_view parameter, std::string_view slot) {
  return slot.empty() ? fmt::format("'{}'", parameter) : fmt::format("'{}' slot '{}'", parameter, slot);
}

}  // namespace

Result<LogicalReader> LogicalReader::open(const FileSystem& files, const std::string& folder) {
  LogicalReader reader;
  reader.folder_ = folder;
  DTRAIN_TRY_ASSIGN(reader.manifest_, load_manifest(files, folder));
  for (const ManifestFile& entry : reader.manifest_.files) DTRAIN_TRY(reader.add_file(files, entry));
  for (auto& [key, pieces] : reader.pieces_)
    std::sort(pieces.begin(), pieces.end(),
              [](const Piece& a, const Piece& b) { return std::pair(a.first, a.count) < std::pair(b.first, b.count); });
  DTRAIN_TRY(reader.check_complete());
  return reader;
}

Status LogicalReader::add_file(const FileSystem& files, const ManifestFile& entry) {
  DTRAIN_TRY_ASSIGN(auto opened, SafetensorsReader::open(files, folder_ + "/" + entry.name));
  readers_.push_back(std::make_unique<SafetensorsReader>(std::move(opened)));
  const SafetensorsReader& file = *readers_.back();
  const auto step = file.metadata().find("step");
  if (step == file.metadata().end() || step->second != std::to_string(manifest_.step))
    return fail(ExitCode::kCheckpoint,
                fmt::format("'{}' is of step {}, the manifest beside it of step {}: the folder mixes checkpoints",
                            file.path(), step == file.metadata().end() ? "nothing" : step->second, manifest_.step));
  for (const TensorInfo& tensor : file.tensors()) {
    const std::optional<ShardTensorName> name = shard_tensor_name(tensor.name);
    const ManifestParameter* parameter = name ? manifest_.find(name->parameter) : nullptr;
    const bool slot_known =
        name && (name->slot.empty() || std::binary_search(manifest_.slots.begin(), manifest_.slots.end(), name->slot));
    if (!parameter || !slot_known)
      return fail(ExitCode::kCheckpoint,
                  fmt::format("'{}' holds '{}', which the manifest does not list", file.path(), tensor.name));
    if (tensor.dtype != parameter->dtype || tensor.shape.rank() != 1)
      return fail(ExitCode::kCheckpoint,
                  fmt::format("'{}': '{}' has type {} and shape {}, a flat list of {} is expected", file.path(),
                              tensor.name, name_of(tensor.dtype), to_string(tensor.shape), name_of(parameter->dtype)));
    pieces_[{name->parameter, name->slot}].push_back({name->first, tensor.shape[0], &file, &tensor});
  }
  return {};
}

Status LogicalReader::check_complete() const {
  for (const ManifestParameter& p : manifest_.parameters) {
    DTRAIN_TRY(check_covered(p, ""));
    for (const std::string& slot : manifest_.slots) {
      if (p.kind == ParameterKind::kParameter) {
        DTRAIN_TRY(check_covered(p, slot));
      } else if (pieces_.contains({p.name, slot})) {
        return fail(ExitCode::kCheckpoint,
                    fmt::format("'{}' holds {}, but {} have no slots", folder_, describe(p.name, slot),
                                p.kind == ParameterKind::kStatistic ? "statistics" : "frozen parameters"));
      }
    }
  }
  return {};
}

Status LogicalReader::check_covered(const ManifestParameter& parameter, const std::string& slot) const {
  const auto found = pieces_.find({parameter.name, slot});
  int64_t at = 0;
  if (found != pieces_.end()) {
    for (const Piece& piece : found->second) {
      if (piece.first != at)
        return fail(ExitCode::kCheckpoint,
                    fmt::format("'{}': of {} {} at element {}", folder_, describe(parameter.name, slot),
                                piece.first < at ? "something is held twice" : "something is missing",
                                std::min(piece.first, at)));
      if (piece.count > parameter.shape.elements() - at)
        return fail(ExitCode::kCheckpoint, fmt::format("'{}': {} has more than its {} elements", folder_,
                                                       describe(parameter.name, slot), parameter.shape.elements()));
      at += piece.count;
    }
  }
  if (at != parameter.shape.elements())
    return fail(ExitCode::kCheckpoint, fmt::format("'{}' holds {} of the {} elements of {}", folder_, at,
                                                   parameter.shape.elements(), describe(parameter.name, slot)));
  return {};
}

Status LogicalReader::read(std::string_view parameter, std::string_view slot, int64_t first,
                           MutableByteSpan into) const {
  const ManifestParameter* known = manifest_.find(parameter);
  if (!known) {
    std::vector<std::string> names;
    for (const ManifestParameter& p : manifest_.parameters) names.push_back(p.name);
    return fail(ExitCode::kCheckpoint,
                fmt::format("'{}' holds no parameter '{}'{}", folder_, parameter, suggestion(parameter, names)));
  }
  const auto size = static_cast<int64_t>(size_of(known->dtype));
  const auto count = static_cast<int64_t>(into.size()) / size;
  if (static_cast<int64_t>(into.size()) % size != 0 || first < 0 || count > known->shape.elements() ||
      first > known->shape.elements() - count)
    return fail(ExitCode::kCheckpoint, fmt::format("'{}': {} has {} elements, {} from {} on were asked for", folder_,
                                                   describe(parameter, slot), known->shape.elements(), count, first));
  if (count == 0) return {};
  const auto found = pieces_.find({std::string(parameter), std::string(slot)});
  if (found == pieces_.end())
    return fail(ExitCode::kCheckpoint, fmt::format("'{}' holds no {}{}", folder_, describe(parameter, slot),
                                                   suggestion(slot, manifest_.slots)));
  const std::vector<Piece>& pieces = found->second;
  auto piece =
      std::upper_bound(pieces.begin(), pieces.end(), first, [](int64_t f, const Piece& p) { return f < p.first; });
  --piece;
  while (!into.empty()) {
    const int64_t skip = first - piece->first,
                  take = std::min(piece->count - skip, static_cast<int64_t>(into.size()) / size);
    const auto bytes = static_cast<size_t>(take * size);
    DTRAIN_TRY(piece->file->read(*piece->tensor, static_cast<uint64_t>(skip * size), into.first(bytes)));
    into = into.subspan(bytes);
    first += take;
    ++piece;
  }
  return {};
}

}  // namespace dtrain::checkpoint
