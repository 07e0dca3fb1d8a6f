#include "checkpoint/logical_reader.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"
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
  for (const ManifestParameter& p : reader.manifest_.parameters) {
    if (p.kind != ParameterKind::kSparse) continue;
    RowTable& table = reader.tables_[p.name];
    table.width = p.shape[1];
    DTRAIN_TRY(reader.read_row_numbers(p, table));
  }
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
    if ((parameter->kind == ParameterKind::kSparse) != (name->part != ShardTensorName::Part::kElements))
      return fail(ExitCode::kCheckpoint,
                  fmt::format("'{}': '{}' is {} of a sparse table, other than the manifest says", file.path(),
                              tensor.name, parameter->kind == ParameterKind::kSparse ? "no part" : "a part"));
    if (parameter->kind == ParameterKind::kSparse) {
      DTRAIN_TRY(add_rows(file, tensor, *parameter, *name));
      continue;
    }
    if (tensor.dtype != parameter->dtype || tensor.shape.rank() != 1)
      return fail(ExitCode::kCheckpoint,
                  fmt::format("'{}': '{}' has type {} and shape {}, a flat list of {} is expected", file.path(),
                              tensor.name, name_of(tensor.dtype), to_string(tensor.shape), name_of(parameter->dtype)));
    pieces_[{name->parameter, name->slot}].push_back({name->first, tensor.shape[0], &file, &tensor});
  }
  return {};
}

Status LogicalReader::add_rows(const SafetensorsReader& file, const TensorInfo& tensor,
                               const ManifestParameter& parameter, const ShardTensorName& name) {
  RowTable& table = tables_[parameter.name];
  if (table.pieces.empty() || table.pieces.back().file != &file) table.pieces.push_back({&file, nullptr, {}});
  RowPiece& piece = table.pieces.back();
  const bool numbers = name.part == ShardTensorName::Part::kRows;
  (numbers ? piece.rows : piece.values[name.slot]) = &tensor;
  const bool right =
      numbers ? tensor.dtype == DType::kI64 && tensor.shape.rank() == 1
              : tensor.dtype == DType::kF32 && tensor.shape.rank() == 2 && tensor.shape[1] == parameter.shape[1];
  if (right) return {};
  return fail(ExitCode::kCheckpoint,
              fmt::format("'{}': '{}' has type {} and shape {}, which rows of {} do not", file.path(), tensor.name,
                          name_of(tensor.dtype), to_string(tensor.shape), to_string(parameter.shape)));
}

// Which rows there are, in order; each must be there once, with all its slots.
Status LogicalReader::read_row_numbers(const ManifestParameter& parameter, RowTable& table) const {
  const auto wrong = [&](const RowPiece& piece, const std::string& what) {
    return fail(ExitCode::kCheckpoint,
                fmt::format("'{}': the rows of '{}' {}", piece.file->path(), parameter.name, what));
  };
  for (size_t p = 0; p < table.pieces.size(); ++p) {
    const RowPiece& piece = table.pieces[p];
    const int64_t n = piece.rows ? piece.rows->shape[0] : -1;
    if (piece.values.size() != manifest_.slots.size() + 1 ||
        std::any_of(piece.values.begin(), piece.values.end(), [&](const auto& v) { return v.second->shape[0] != n; }))
      return wrong(piece, "lack some numbers, values or slots");
    std::vector<int64_t> rows(static_cast<size_t>(n));
    DTRAIN_TRY(piece.file->read(*piece.rows, 0, std::as_writable_bytes(std::span(rows))));
    for (size_t i = 0; i < rows.size(); ++i) {
      if (rows[i] < 0 || rows[i] >= parameter.shape[0] || (i > 0 && rows[i] <= rows[i - 1]))
        return wrong(piece, fmt::format("hold {} where it cannot be", rows[i]));
      table.places.push_back({rows[i], i, static_cast<uint32_t>(p)});
    }
  }
  std::sort(table.places.begin(), table.places.end(),
            [](const RowPlace& a, const RowPlace& b) { return a.row < b.row; });
  const auto twice = std::adjacent_find(table.places.begin(), table.places.end(),
                                        [](const RowPlace& a, const RowPlace& b) { return a.row == b.row; });
  if (twice != table.places.end())
    return wrong(table.pieces[twice->piece], fmt::format("hold {} a second time", twice->row));
  return {};
}

const LogicalReader::RowTable& LogicalReader::table_of(std::string_view parameter) const {
  const auto at = tables_.find(parameter);
  DTRAIN_CHECK(at != tables_.end(), "'{}' is no sparse table", parameter);
  return at->second;
}

int64_t LogicalReader::rows(std::string_view parameter) const {
  return static_cast<int64_t>(table_of(parameter).places.size());
}

void LogicalReader::read_rows(std::string_view parameter, int64_t first, std::span<int64_t> into) const {
  const std::vector<RowPlace>& places = table_of(parameter).places;
  DTRAIN_CHECK(first >= 0 && static_cast<size_t>(first) + into.size() <= places.size(), "'{}'", parameter);
  for (size_t i = 0; i < into.size(); ++i) into[i] = places[static_cast<size_t>(first) + i].row;
}

// Rows that follow each other lie, in each file, in one piece.
Status LogicalReader::read_row_values(std::string_view parameter, std::string_view slot, int64_t first,
                                      std::span<float> into) const {
  const RowTable& table = table_of(parameter);
  const auto width = static_cast<size_t>(table.width), n = into.size() / width;
  DTRAIN_CHECK(into.size() % width == 0 && first >= 0 && static_cast<size_t>(first) + n <= table.places.size(), "'{}'",
               parameter);
  const std::span<const RowPlace> places = std::span(table.places).subspan(static_cast<size_t>(first), n);
  std::vector<float> read;
  for (size_t p = 0; p < table.pieces.size(); ++p) {
    const auto mine = [&](const RowPlace& place) { return place.piece == p; };
    const auto begin = std::find_if(places.begin(), places.end(), mine);
    if (begin == places.end()) continue;
    const RowPiece& piece = table.pieces[p];
    const auto values = piece.values.find(std::string(slot));
    if (values == piece.values.end())
      return fail(ExitCode::kCheckpoint, fmt::format("'{}' holds no {}{}", folder_, describe(parameter, slot),
                                                     suggestion(slot, manifest_.slots)));
    read.resize(static_cast<size_t>(std::count_if(places.begin(), places.end(), mine)) * width);
    DTRAIN_TRY(piece.file->read(*values->second, begin->index * width * sizeof(float),
                                std::as_writable_bytes(std::span(read))));
    size_t at = 0;
    for (size_t i = 0; i < n; ++i)
      if (mine(places[i])) std::copy_n(read.data() + at++ * width, width, into.data() + i * width);
  }
  return {};
}

Status LogicalReader::check_complete() const {
  for (const ManifestParameter& p : manifest_.parameters) {
    if (p.kind == ParameterKind::kSparse) continue;  // which rows there should be nobody knows
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
