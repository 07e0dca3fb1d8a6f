// A complete checkpoint as what it means, however many servers wrote it: parameters, running statistics and optimizer
// slots by name, readable in any range of elements; sparse tables in any range of the rows that are kept, in ascending
// order. A resume on another number of servers reads just what each of them
// owns now. Borrows nothing after open(); const methods are thread-safe.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/file_system.h"
#include "checkpoint/manifest.h"
#include "checkpoint/safetensors.h"

namespace dtrain::checkpoint {

struct ShardTensorName;

class LogicalReader {
 public:
  // `folder` is the checkpoint's own (…/step-00000100). Refused (ExitCode::kCheckpoint) unless the files together hold
  // every element of everything that the manifest lists exactly once, and belong to its step. Digests are not compared:
  // CheckpointFolder::verify does that.
  static Result<LogicalReader> open(const FileSystem& files, const std::string& folder);

  const Manifest& manifest() const { return manifest_; }
  const std::string& folder() const { return folder_; }

  // Fills `into` with elements [first, first + into.size() / size of dtype) of a parameter's values (slot "") or of one
  // of its slots. An unknown name or a range outside is an error that names it.
  Status read(std::string_view parameter, std::string_view slot, int64_t first, MutableByteSpan into) const;

  // Of a sparse table: how many rows are kept; the numbers of some of them, from the `first`-th on; the values of
  // these, or a slot's, as many as `into` has room for. REQUIRES that the manifest has the table and the slot and that
  // so many rows are there.
  int64_t rows(std::string_view parameter) const;
  void read_rows(std::string_view parameter, int64_t first, std::span<int64_t> into) const;
  Status read_row_values(std::string_view parameter, std::string_view slot, int64_t first, std::span<float> into) const;

 private:
  struct Piece {
    int64_t first = 0, count = 0;  // elements
    const SafetensorsReader* file = nullptr;
    const TensorInfo* tensor = nullptr;
  };
  // What one server's file has of a sparse table.
  struct RowPiece {
    const SafetensorsReader* file = nullptr;
    const TensorInfo* rows = nullptr;
    std::map<std::string, const TensorInfo*> values;  // by slot
  };
  struct RowPlace {
    int64_t row = 0;
    uint64_t index = 0;  // within its piece
    uint32_t piece = 0;
  };
  struct RowTable {
    int64_t width = 0;
    std::vector<RowPiece> pieces;
    std::vector<RowPlace> places;  // ascending
  };
  using Key = std::pair<std::string, std::string>;  // parameter, slot

  Status add_file(const FileSystem& files, const ManifestFile& entry);
  Status add_rows(const SafetensorsReader& file, const TensorInfo& tensor, const ManifestParameter& parameter,
                  const ShardTensorName& name);
  Status read_row_numbers(const ManifestParameter& parameter, RowTable& table) const;
  const RowTable& table_of(std::string_view parameter) const;
  Status check_complete() const;
  Status check_covered(const ManifestParameter& parameter, const std::string& slot) const;

  Manifest manifest_;
  std::string folder_;
  std::vector<std::unique_ptr<SafetensorsReader>> readers_;
  std::map<Key, std::vector<Piece>> pieces_;  // by first element
  std::map<std::string, RowTable, std::less<>> tables_;
};

}  // namespace dtrain::checkpoint
