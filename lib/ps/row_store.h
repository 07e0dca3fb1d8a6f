// The rows of sparse tables that one shard server keeps: those that a step has moved, with the optimizer's slots. Any
// other row has its initial value, a pure function, so that memory is that of the rows that were used, however large
// the tables are.
//
// Rows have a version together, like a block; the values that the last step replaced are kept, so that the version
// before can be read too. A row is created when it is first moved. Not thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "optim/optimizer.h"
#include "ps/row_index.h"
#include "ps/row_space.h"

namespace dtrain::ps {

// Fills `out` with a parameter's initial values from element `first` on.
using InitialValues = std::function<void(ParameterIndex, int64_t first, std::span<float> out)>;

// The kept rows of one table, in ascending order: numbers within the table, [rows, width] values and of each slot.
struct TableRows {
  ParameterIndex parameter = 0;
  std::vector<int64_t> rows;
  std::vector<float> values;
  std::vector<std::vector<float>> slots;
};

// What one table's kept rows are at a version, in the order of their coming. Any thread may read it: a step does not
// write to memory that a copy holds.
struct KeptRows {
  using Slab = std::shared_ptr<float[]>;  // so many rows, of each its values and then its slots

  ParameterIndex parameter = 0;
  uint64_t first = 0;  // number of the table's first row
  size_t width = 0, slots = 0, slab_rows = 0;
  std::vector<Slab> slabs;
  std::vector<uint64_t> rows;

  TableRows sorted() const;
};

class RowStore {
 public:
  // The space outlives it.
  RowStore(const RowSpace& space, size_t slots, InitialValues initial);

  // Keeps a row from the beginning; no slots: zero. Before start().
  void load(uint64_t row, std::span<const float> values, std::span<const std::span<const float>> slots = {});
  void start(int64_t version);

  int64_t version() const { return version_; }
  size_t rows() const { return index_.size(); }
  // Values of ascending rows at this version or the one before. REQUIRES readable(version).
  bool readable(int64_t version) const { return version == version_ || (version + 1 == version_ && stepped_); }
  void read(std::span<const uint64_t> rows, int64_t version, float* out) const;

  struct NotFinite {
    uint64_t row = 0;
    int64_t column = 0;
    float value = 0;
    bool gradient = false;  // else the new value
  };
  // The optimizer moves the rows of `root` by their gradients; `context` says how, but for what is a table's own. Then
  // they have the next version, all others keep their values. Where something is not finite all
  // values and the version stay.
  using ContextOf = std::function<optim::UpdateContext(ParameterIndex)>;
  std::optional<NotFinite> step(const optim::Optimizer& optimizer, const ContextOf& context, const RowList& root);

  // Everything at this version, a table after the other. Costs a number for each row: slabs are shared, and those that
  // a later step writes to are copied then.
  std::vector<KeptRows> copy() const;

 private:
  // What a table's kept rows lie in: slabs of so many rows each, a row's values and then its slots.
  struct Storage {
    size_t width = 0, stride = 0, slab_rows = 0;
    std::vector<KeptRows::Slab> slabs;
    std::vector<uint64_t> rows;  // by place
  };

  float* at(Storage& storage, uint32_t place) const {
    return storage.slabs[place / storage.slab_rows].get() + place % storage.slab_rows * storage.stride;
  }
  const float* at(const Storage& storage, uint32_t place) const { return at(const_cast<Storage&>(storage), place); }
  // The row's memory, to be written; `created` says that it is new, without values.
  float* keep(size_t table, uint64_t row, bool& created);
  void initial(size_t table, uint64_t row, float* out) const;

  const RowSpace& space_;
  const size_t slots_;
  const InitialValues initial_;
  RowIndex index_;  // places within the row's table
  std::vector<Storage> storage_;
  int64_t version_ = -1;
  bool stepped_ = false;
  RowList before_;  // what the last step replaced
};

}  // namespace dtrain::ps
