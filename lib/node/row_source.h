// The rows that a checkpoint or a model file has of sparse tables, in ascending order, readable in parts. Const methods
// are thread-safe.
#pragma once

#include <memory>
#include <vector>

#include "base/result.h"
#include "checkpoint/logical_reader.h"
#include "checkpoint/safetensors.h"
#include "ps/row_space.h"
#include "ps/row_store.h"
#include "tensor/parameter.h"

namespace dtrain::node {

class RowSource {
 public:
  struct Part {
    std::vector<int64_t> rows;
    std::vector<float> values;              // [rows, width]
    std::vector<std::vector<float>> slots;  // of each name asked for
  };

  virtual ~RowSource() = default;
  // How many rows it has of a table. An error says that it has no such table, or one of another shape.
  virtual Result<int64_t> size(const ParameterInfo& table) const = 0;
  // `count` of them from the `first`-th on. A model file has no slots.
  virtual Result<Part> read(const ParameterInfo& table, std::span<const std::string> slots, int64_t first,
                            int64_t count) const = 0;

  // What they are made of outlives them.
  static std::unique_ptr<RowSource> of(const checkpoint::LogicalReader& checkpoint);
  static std::unique_ptr<RowSource> of(const checkpoint::SafetensorsReader& model);
};

// Takes rows from a source, some at a time: those that a server keeps, into whatever keeps them.
class RowLoading {
 public:
  // All that is referred to outlives it.
  RowLoading(const ps::RowSpace& space, const std::vector<ParameterInfo>& parameters, const RowSource& source,
             std::vector<std::string> slots)
      : space_(space), parameters_(parameters), source_(source), slots_(std::move(slots)) {}

  // Calls load(row, values, slots) for the next rows, some MiB of them. Whether there are more.
  using Load = std::function<void(uint64_t row, std::span<const float>, std::span<const std::span<const float>>)>;
  Result<bool> load_some(const Load& load);

 private:
  const ps::RowSpace& space_;
  const std::vector<ParameterInfo>& parameters_;
  const RowSource& source_;
  const std::vector<std::string> slots_;
  size_t table_ = 0;
  int64_t next_ = 0, size_ = -1;  // of this table
};

}  // namespace dtrain::node
