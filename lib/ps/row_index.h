// Where each row that a server keeps lies: numbers to places, by open addressing. Nothing is ever taken out. Not
// thread-safe.
#pragma once

#include <cstdint>
#include <vector>

namespace dtrain::ps {

class RowIndex {
 public:
  static constexpr uint32_t kNone = UINT32_MAX;

  // kNone where the row is not there.
  uint32_t find(uint64_t row) const {
    if (entries_.empty()) return kNone;
    for (size_t at = first(row);; at = (at + 1) & (entries_.size() - 1)) {
      if (entries_[at].place == kNone || entries_[at].row == row) return entries_[at].place;
    }
  }
  // The row's place, `fresh` where it is new.
  uint32_t insert(uint64_t row, uint32_t fresh) {
    if (4 * (size_ + 1) > 3 * entries_.size()) grow();
    for (size_t at = first(row);; at = (at + 1) & (entries_.size() - 1)) {
      if (entries_[at].place != kNone && entries_[at].row != row) continue;
      if (entries_[at].place != kNone) return entries_[at].place;
      entries_[at] = {row, fresh};
      ++size_;
      return fresh;
    }
  }
  size_t size() const { return size_; }
  static size_t bytes_for(size_t rows) { return rows * 2 * sizeof(Entry); }

 private:
  struct Entry {
    uint64_t row = 0;
    uint32_t place = kNone;
  };

  // Fibonacci hashing: the high bits of a product.
  size_t first(uint64_t row) const {
    return static_cast<size_t>(row * 0x9e3779b97f4a7c15u >> 16) & (entries_.size() - 1);
  }
  void grow() {
    std::vector<Entry> old(entries_.empty() ? 64 : 2 * entries_.size());
    old.swap(entries_);
    size_ = 0;
    for (const Entry& e : old)
      if (e.place != kNone) insert(e.row, e.place);
  }

  std::vector<Entry> entries_;  // a power of two
  size_t size_ = 0;
};

}  // namespace dtrain::ps
