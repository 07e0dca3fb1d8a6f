#include "ps/row_store.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <numeric>

#include "base/check.h"
#include "ps/chunk_math.h"

namespace dtrain::ps {
namespace {

// Small, since a step copies all of a slab that a snapshot holds.
constexpr size_t kSlabElements = 4096, kMostSlabRows = 256;

}  // namespace

RowStore::RowStore(const RowSpace& space, size_t slots, InitialValues initial)
    : space_(space), slots_(slots), initial_(std::move(initial)) {
  for (const RowSpace::Table& table : space.tables()) {
    Storage& storage = storage_.emplace_back();
    storage.width = static_cast<size_t>(table.width);
    storage.stride = storage.width * (1 + slots);
    storage.slab_rows = std::clamp<size_t>(kSlabElements / storage.stride, 1, kMostSlabRows);
  }
}

float* RowStore::keep(size_t table, uint64_t row, bool& created) {
  Storage& storage = storage_[table];
  const auto fresh = static_cast<uint32_t>(storage.rows.size());
  DTRAIN_CHECK(fresh < RowIndex::kNone, "a table has too many rows");
  const uint32_t place = index_.insert(row, fresh);
  created = place == fresh;
  if (created) {
    storage.rows.push_back(row);
    if (place / storage.slab_rows == storage.slabs.size())
      storage.slabs.emplace_back(new float[storage.slab_rows * storage.stride]);
  }
  const size_t s = place / storage.slab_rows;
  KeptRows::Slab& slab = storage.slabs[s];
  if (slab.use_count() > 1) {
    const size_t filled = std::min(storage.slab_rows, storage.rows.size() - s * storage.slab_rows) - (created ? 1 : 0);
    KeptRows::Slab own(new float[storage.slab_rows * storage.stride]);
    std::copy_n(slab.get(), filled * storage.stride, own.get());
    slab = std::move(own);
  } else {
    std::atomic_thread_fence(std::memory_order_acquire);  // what the last reader did lies before
  }
  return at(storage, place);
}

void RowStore::initial(size_t table, uint64_t row, float* out) const {
  const RowSpace::Table& t = space_.tables()[table];
  initial_(t.parameter, static_cast<int64_t>(row - t.first) * t.width, {out, static_cast<size_t>(t.width)});
}

void RowStore::load(uint64_t row, std::span<const float> values, std::span<const std::span<const float>> slots) {
  const size_t t = space_.table_of(row), width = storage_[t].width;
  DTRAIN_CHECK(row < space_.rows() && values.size() == width && (slots.empty() || slots.size() == slots_));
  bool created = false;
  float* const to = keep(t, row, created);
  std::copy(values.begin(), values.end(), to);
  std::fill_n(to + width, slots_ * width, 0.0f);
  for (size_t s = 0; s < slots.size(); ++s) {
    DTRAIN_CHECK(slots[s].size() == width);
    std::copy(slots[s].begin(), slots[s].end(), to + (1 + s) * width);
  }
}

void RowStore::start(int64_t version) {
  version_ = version;
  stepped_ = false;
  before_ = {};
}

void RowStore::read(std::span<const uint64_t> rows, int64_t version, float* out) const {
  DTRAIN_CHECK(readable(version), "version {} of rows at {}", version, version_);
  const bool old = version != version_;
  size_t replaced = 0;  // in before_
  const float* replaced_values = before_.values.data();
  space_.for_tables(rows, [&](size_t t, size_t begin, size_t end) {
    const size_t width = storage_[t].width;
    for (size_t i = begin; i < end; ++i, out += width) {
      while (old && replaced < before_.rows.size() && before_.rows[replaced] < rows[i])
        replaced_values += storage_[space_.table_of(before_.rows[replaced++])].width;
      if (old && replaced < before_.rows.size() && before_.rows[replaced] == rows[i]) {
        std::copy_n(replaced_values, width, out);
      } else if (const uint32_t place = index_.find(rows[i]); place != RowIndex::kNone) {
        std::copy_n(at(storage_[t], place), width, out);
      } else {
        initial(t, rows[i], out);
      }
    }
  });
}

std::optional<RowStore::NotFinite> RowStore::step(const optim::Optimizer& optimizer, const ContextOf& context_of,
                                                  const RowList& root) {
  const auto find = [&](const float* values, bool gradient) {
    NotFinite found{.gradient = gradient};
    size_t at = 0;
    space_.for_tables(root.rows, [&](size_t t, size_t begin, size_t end) {
      const size_t width = storage_[t].width;
      for (size_t i = begin; i < end; ++i)
        for (size_t c = 0; c < width; ++c, ++at)
          if (!std::isfinite(values[at]) && std::isfinite(found.value))
            found = {root.rows[i], static_cast<int64_t>(c), values[at], gradient};
    });
    return found;
  };
  if (!all_finite(root.values)) return find(root.values.data(), true);

  RowList before{root.rows, std::vector<float>(root.values.size())};
  std::vector<float> moved(root.values.size());
  std::vector<float*> kept(root.rows.size()), slots(slots_);
  size_t element = 0;
  space_.for_tables(root.rows, [&](size_t t, size_t begin, size_t end) {
    const size_t width = storage_[t].width;
    const optim::UpdateContext known = context_of(space_.tables()[t].parameter);
    optim::UpdateContext fresh = known;
    fresh.first = true;
    for (size_t i = begin; i < end; ++i, element += width) {
      bool created = false;
      float* const row = kept[i] = keep(t, root.rows[i], created);
      if (created) {
        initial(t, root.rows[i], row);
        std::fill_n(row + width, slots_ * width, 0.0f);
      }
      // A row that was loaded without slots has none either; nor has it where a checkpoint says that they are zero.
      const bool first = std::all_of(row + width, row + (1 + slots_) * width, [](float slot) { return slot == 0.0f; });
      for (size_t s = 0; s < slots_; ++s) slots[s] = row + (1 + s) * width;
      std::copy_n(row, width, before.values.data() + element);
      optimizer.update(first ? fresh : known, width, root.values.data() + element, row, moved.data() + element,
                       slots.data());
    }
  });
  if (!all_finite(moved)) return find(moved.data(), false);
  element = 0;
  space_.for_tables(root.rows, [&](size_t t, size_t begin, size_t end) {
    const size_t width = storage_[t].width;
    for (size_t i = begin; i < end; ++i, element += width) std::copy_n(moved.data() + element, width, kept[i]);
  });
  ++version_;
  stepped_ = true;
  before_ = std::move(before);
  return std::nullopt;
}

std::vector<KeptRows> RowStore::copy() const {
  std::vector<KeptRows> tables;
  for (size_t t = 0; t < storage_.size(); ++t) {
    const Storage& s = storage_[t];
    const RowSpace::Table& table = space_.tables()[t];
    tables.push_back({table.parameter, table.first, s.width, slots_, s.slab_rows, s.slabs, s.rows});
  }
  return tables;
}

TableRows KeptRows::sorted() const {
  TableRows out{parameter, {}, {}, {}};
  const size_t n = rows.size();
  std::vector<uint32_t> order(n);
  std::iota(order.begin(), order.end(), 0u);
  std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) { return rows[a] < rows[b]; });
  out.rows.reserve(n);
  out.values.resize(n * width);
  out.slots.assign(slots, std::vector<float>(n * width));
  for (size_t i = 0; i < n; ++i) {
    out.rows.push_back(static_cast<int64_t>(rows[order[i]] - first));
    const float* const row = slabs[order[i] / slab_rows].get() + order[i] % slab_rows * width * (1 + slots);
    std::copy_n(row, width, out.values.data() + i * width);
    for (size_t s = 0; s < slots; ++s) std::copy_n(row + (1 + s) * width, width, out.slots[s].data() + i * width);
  }
  return out;
}

}  // namespace dtrain::ps
