#include "node/row_source.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"

namespace dtrain::node {
namespace {

constexpr int64_t kElementsAtOnce = 1 << 20;

class CheckpointRows final : public RowSource {
 public:
  explicit CheckpointRows(const checkpoint::LogicalReader& checkpoint) : checkpoint_(checkpoint) {}

  Result<int64_t> size(const ParameterInfo& table) const override {
    const checkpoint::ManifestParameter* p = checkpoint_.manifest().find(table.name);
    if (p && p->kind == checkpoint::ParameterKind::kSparse && p->shape == table.shape)
      return checkpoint_.rows(table.name);
    return fail(ExitCode::kUsage,
                fmt::format("{}: the network wants {} as a sparse table of shape {}, which is not there",
                            checkpoint_.folder(), table.name, to_string(table.shape)));
  }

  Result<Part> read(const ParameterInfo& table, std::span<const std::string> slots, int64_t first,
                    int64_t count) const override {
    Part part;
    part.rows.resize(static_cast<size_t>(count));
    checkpoint_.read_rows(table.name, first, part.rows);
    part.values.resize(static_cast<size_t>(count * table.shape[1]));
    DTRAIN_TRY(checkpoint_.read_row_values(table.name, "", first, part.values));
    for (const std::string& slot : slots)
      DTRAIN_TRY(checkpoint_.read_row_values(table.name, slot, first, part.slots.emplace_back(part.values.size())));
    return part;
  }

 private:
  const checkpoint::LogicalReader& checkpoint_;
};

class ModelRows final : public RowSource {
 public:
  explicit ModelRows(const checkpoint::SafetensorsReader& model) : model_(model) {}

  Result<int64_t> size(const ParameterInfo& table) const override {
    const checkpoint::TensorInfo *rows = model_.find(table.name + ".rows"),
                                 *values = model_.find(table.name + ".values");
    if (rows && values && rows->dtype == DType::kI64 && values->dtype == DType::kF32 && rows->shape.rank() == 1 &&
        values->shape == Shape{rows->shape[0], table.shape[1]})
      return rows->shape[0];
    return fail(
        ExitCode::kUsage,
        fmt::format("{}: the network wants the sparse table {} as {}.rows, I64 [rows], and {}.values, F32 [rows, "
                    "{}], but the file does not have them so",
                    model_.path(), table.name, table.name, table.name, table.shape[1]));
  }

  Result<Part> read(const ParameterInfo& table, std::span<const std::string> slots, int64_t first,
                    int64_t count) const override {
    DTRAIN_CHECK(slots.empty(), "a model file has no slots");
    Part part;
    // With the row before, which says that they rise.
    const int64_t before = first > 0 ? 1 : 0;
    std::vector<int64_t> rows(static_cast<size_t>(count + before));
    DTRAIN_TRY(model_.read(*model_.find(table.name + ".rows"), static_cast<uint64_t>(first - before) * sizeof(int64_t),
                           std::as_writable_bytes(std::span(rows))));
    for (size_t i = 0; i < rows.size(); ++i)
      if (rows[i] < 0 || rows[i] >= table.shape[0] || (i > 0 && rows[i] <= rows[i - 1]))
        return fail(ExitCode::kUsage, fmt::format("{}: {}.rows must be rising numbers from 0 to {}; {} is not",
                                                  model_.path(), table.name, table.shape[0] - 1, rows[i]));
    part.rows.assign(rows.begin() + before, rows.end());
    part.values.resize(static_cast<size_t>(count * table.shape[1]));
    DTRAIN_TRY(model_.read(*model_.find(table.name + ".values"),
                           static_cast<uint64_t>(first * table.shape[1]) * sizeof(float),
                           std::as_writable_bytes(std::span(part.values))));
    return part;
  }

 private:
  const checkpoint::SafetensorsReader& model_;
};

}  // namespace

std::unique_ptr<RowSource> RowSource::of(const checkpoint::LogicalReader& checkpoint) {
  return std::make_unique<CheckpointRows>(checkpoint);
}

std::unique_ptr<RowSource> RowSource::of(const checkpoint::SafetensorsReader& model) {
  return std::make_unique<ModelRows>(model);
}

Result<bool> RowLoading::load_some(const Load& load) {
  if (table_ == space_.tables().size()) return false;
  const ps::RowSpace::Table& table = space_.tables()[table_];
  const ParameterInfo& info = parameters_[static_cast<size_t>(table.parameter)];
  if (size_ < 0) {
    DTRAIN_TRY_ASSIGN(size_, source_.size(info));
  }
  const int64_t most = std::max<int64_t>(1, kElementsAtOnce / (table.width * static_cast<int64_t>(1 + slots_.size())));
  const int64_t count = std::min(most, size_ - next_);
  if (count > 0) {
    DTRAIN_TRY_ASSIGN(const RowSource::Part part, source_.read(info, slots_, next_, count));
    const auto width = static_cast<size_t>(table.width);
    std::vector<std::span<const float>> slots(slots_.size());
    for (size_t i = 0; i < part.rows.size(); ++i) {
      for (size_t s = 0; s < slots.size(); ++s) slots[s] = std::span(part.slots[s]).subspan(i * width, width);
      load(table.first + static_cast<uint64_t>(part.rows[i]), std::span(part.values).subspan(i * width, width), slots);
    }
  }
  next_ += count;
  if (next_ == size_) {
    ++table_;
    next_ = 0;
    size_ = -1;
  }
  return table_ < space_.tables().size();
}

}  // namespace dtrain::node
