#include "ps/row_store.h"

#include <cmath>
#include <limits>

#include "fixture.h"
#include "ps/row_sum.h"

namespace dtrain::ps {
namespace {

std::vector<ParameterInfo> tables() {
  return {{"a.weight", Shape{1000, 3}, ParameterKind::kSparse, 2.0f, 1.0f},
          {"fc.weight", Shape{4, 4}, ParameterKind::kTrainable},
          {"b.weight", Shape{int64_t{1} << 40, 1}, ParameterKind::kSparse}};
}

void initial(ParameterIndex p, int64_t first, std::span<float> out) {
  for (size_t i = 0; i < out.size(); ++i)
    out[i] = static_cast<float>(p) + static_cast<float>((first + static_cast<int64_t>(i)) % 1009) * 0.01f;
}

std::vector<float> read(const RowStore& store, const RowSpace& space, const std::vector<uint64_t>& rows,
                        int64_t version) {
  std::vector<float> out(space.elements(rows));
  store.read(rows, version, out.data());
  return out;
}

std::vector<TableRows> sorted(const RowStore& store) {
  std::vector<TableRows> tables;
  for (const KeptRows& kept : store.copy()) tables.push_back(kept.sorted());
  return tables;
}

class RowStoreTest : public ::testing::Test {
 protected:
  optim::UpdateContext context(int64_t step) const { return {0.5, step, 1.0f, 1.0}; }
  RowStore::ContextOf same(int64_t step) const {
    return [this, step](ParameterIndex) { return context(step); };
  }
  const RowSpace space_{tables(), 2};
};

TEST_F(RowStoreTest, NumbersRowsOneTableAfterTheOther) {
  ASSERT_EQ(space_.tables().size(), 2u);
  EXPECT_EQ(space_.rows(), 1000u + (uint64_t{1} << 40));
  EXPECT_EQ(space_.table_of(999), 0u);
  EXPECT_EQ(space_.table_of(1000), 1u);
  EXPECT_EQ(space_.elements(std::vector<uint64_t>{1, 999, 1000, 5000}), 8u);
}

TEST_F(RowStoreTest, CutsListsIntoMessages) {
  const RowSpace wide(
      {{"w", Shape{100'000, 20'000}, ParameterKind::kSparse}, {"n", Shape{100'000, 1}, ParameterKind::kSparse}}, 1);
  std::vector<uint64_t> rows;
  for (uint64_t r = 0; r < 7; ++r) rows.push_back(r * 11);
  for (uint64_t r = 0; r < 40'000; ++r) rows.push_back(100'000 + 2 * r);
  size_t at = 0;
  wide.for_pieces(rows, [&](size_t begin, size_t end) {
    EXPECT_EQ(begin, at);
    at = end;
    const auto piece = std::span(rows).subspan(begin, end - begin);
    EXPECT_LE(piece.size(), RowSpace::kMostRows);
    EXPECT_LE(wide.elements(piece), RowSpace::kMostElements);
  });
  EXPECT_EQ(at, rows.size());
  int calls = 0;
  wide.for_pieces({}, [&](size_t begin, size_t end) {
    ++calls;
    EXPECT_EQ(begin, end);
  });
  EXPECT_EQ(calls, 1);
}

TEST_F(RowStoreTest, RowsThatNobodyMovedHaveTheirInitialValuesAndTakeNoMemory) {
  RowStore store(space_, 0, initial);
  store.start(7);
  const std::vector<uint64_t> rows{0, 5, 1000 + (uint64_t{1} << 39)};
  std::vector<float> expected(7);
  initial(0, 0, std::span(expected).first(3));
  initial(0, 15, std::span(expected).subspan(3, 3));
  initial(2, int64_t{1} << 39, std::span(expected).subspan(6));
  EXPECT_EQ(read(store, space_, rows, 7), expected);
  EXPECT_EQ(store.rows(), 0u);
  EXPECT_FALSE(store.readable(6));
  EXPECT_FALSE(store.readable(8));
}

TEST_F(RowStoreTest, MovesTheRowsOfAGradientAndKeepsTheVersionBefore) {
  const auto sgd = make_optimizer("momentum = 0.5");
  RowStore store(space_, sgd->slots(), initial);
  store.load(5, std::vector<float>{1, 2, 3}, std::vector<std::span<const float>>{std::vector<float>{4, 4, 4}});
  store.start(3);
  const std::vector<uint64_t> all{4, 5, 6, 1001};
  const std::vector<float> before = read(store, space_, all, 3);
  ASSERT_FALSE(store.step(*sgd, same(3), {{5, 1001}, {1, 1, 1, 8}}));
  EXPECT_EQ(store.version(), 4);
  EXPECT_EQ(store.rows(), 2u);
  EXPECT_EQ(read(store, space_, all, 3), before);
  std::vector<float> after = before;
  for (size_t c = 3; c < 6; ++c) after[c] -= 0.5f * (0.5f * 4 + 1);
  after[9] -= 0.5f * 8;
  EXPECT_EQ(read(store, space_, all, 4), after);
  // The next step forgets what the last one replaced.
  ASSERT_FALSE(store.step(*sgd, same(4), {{4}, {2, 2, 2}}));
  EXPECT_FALSE(store.readable(3));
  EXPECT_EQ(read(store, space_, all, 4), after);
  EXPECT_EQ(read(store, space_, {5, 1001}, 5), (std::vector<float>{after[3], after[4], after[5], after[9]}));
  const std::vector<TableRows> copy = sorted(store);
  ASSERT_EQ(copy.size(), 2u);
  EXPECT_EQ(copy[0].rows, (std::vector<int64_t>{4, 5}));
  EXPECT_EQ(copy[1].rows, (std::vector<int64_t>{1}));
  EXPECT_EQ(copy[0].slots.at(0), (std::vector<float>{2, 2, 2, 3, 3, 3}));
}

// Adagrad's sums begin at a value of their own, at whichever step a row comes to be.
TEST_F(RowStoreTest, ARowThatComesLaterBeginsAsAnyOther) {
  const auto adagrad = make_optimizer("type = \"adagrad\"\ninitial_accumulator = 0.25");
  RowStore store(space_, adagrad->slots(), initial);
  store.start(0);
  ASSERT_FALSE(store.step(*adagrad, same(0), {{1}, {1, 1, 1}}));
  ASSERT_FALSE(store.step(*adagrad, same(1), {{2}, {1, 1, 1}}));
  EXPECT_EQ(store.copy()[0].sorted().slots.at(0), std::vector<float>(6, 1.25f));
}

// One from a model's file has no sums yet, and a checkpoint that was written before it was moved says so.
TEST_F(RowStoreTest, ARowThatWasLoadedWithoutSlotsBeginsAsAnyOther) {
  const auto adagrad = make_optimizer("type = \"adagrad\"\ninitial_accumulator = 0.25");
  RowStore store(space_, adagrad->slots(), initial), resumed(space_, adagrad->slots(), initial);
  store.load(1, std::vector<float>{1, 2, 3});
  store.start(0);
  ASSERT_FALSE(store.step(*adagrad, same(0), {{2}, {1, 1, 1}}));
  const TableRows written = store.copy()[0].sorted();
  ASSERT_EQ(written.rows, (std::vector<int64_t>{1, 2}));
  resumed.load(1, std::span(written.values).first(3), std::vector{std::span(written.slots[0]).first(3)});
  resumed.load(2, std::span(written.values).last(3), std::vector{std::span(written.slots[0]).last(3)});
  resumed.start(1);
  for (RowStore* s : {&store, &resumed}) {
    ASSERT_FALSE(s->step(*adagrad, same(1), {{1}, {1, 1, 1}}));
    EXPECT_EQ(s->copy()[0].sorted().slots.at(0), std::vector<float>(6, 1.25f));
  }
}

// A copy stays what it is while the rows go on.
TEST_F(RowStoreTest, ACopyIsNotMoved) {
  const auto sgd = make_optimizer("momentum = 0.5");
  RowStore store(space_, sgd->slots(), initial);
  store.start(0);
  RowList gradient;
  for (uint64_t row = 0; row < 900; ++row) gradient.rows.push_back(row);
  gradient.values.assign(2'700, 1.0f);
  ASSERT_FALSE(store.step(*sgd, same(0), gradient));
  const std::vector<KeptRows> copy = store.copy();
  const TableRows before = copy[0].sorted();
  ASSERT_FALSE(store.step(*sgd, same(1), {{3, 950}, {1, 1, 1, 1, 1, 1}}));
  const TableRows still = copy[0].sorted(), after = store.copy()[0].sorted();
  EXPECT_EQ(still.rows, before.rows);
  EXPECT_EQ(still.values, before.values);
  EXPECT_EQ(still.slots, before.slots);
  EXPECT_EQ(after.rows.size(), 901u);
  EXPECT_NE(after.values[9], before.values[9]);
  EXPECT_EQ(after.values[12], before.values[12]);
}

TEST_F(RowStoreTest, SaysWhatIsNotFiniteAndStaysWhereItIs) {
  const auto sgd = make_optimizer("");
  constexpr float kLarge = std::numeric_limits<float>::max();
  RowStore store(space_, 0, initial);
  store.load(3, std::vector<float>{1, -kLarge, 3});
  store.start(0);
  const auto gradient = store.step(*sgd, same(0), {{2, 3}, {1, 1, 1, 1, 1, NAN}});
  ASSERT_TRUE(gradient);
  EXPECT_TRUE(gradient->gradient);
  EXPECT_EQ(gradient->row, 3u);
  EXPECT_EQ(gradient->column, 2);
  const auto value = store.step(*sgd,
                                [](ParameterIndex) {
                                  return optim::UpdateContext{2.0, 0, 1.0f, 1.0};
                                },
                                {{3}, {1, kLarge, 1}});
  ASSERT_TRUE(value);
  EXPECT_FALSE(value->gradient);
  EXPECT_EQ(value->column, 1);
  EXPECT_EQ(store.version(), 0);
  EXPECT_EQ(read(store, space_, {3}, 0), (std::vector<float>{1, -kLarge, 3}));
}

// Whatever is kept: many rows, against plain maps.
TEST_F(RowStoreTest, HoldsManyRows) {
  const auto adam = make_optimizer("type = \"adam\"");
  RowStore store(space_, adam->slots(), initial);
  store.start(0);
  std::map<uint64_t, std::vector<std::vector<float>>> plain;  // values and slots
  std::mt19937_64 random(5);
  for (int64_t step = 0; step < 30; ++step) {
    std::map<uint64_t, std::vector<float>> gradients;
    for (int i = 0; i < 700; ++i) {
      const uint64_t row = random() % 2 == 0 ? random() % 1000 : 1000 + (random() % 3000 << 20);
      const size_t width = row < 1000 ? 3 : 1;
      std::vector<float>& g = gradients[row];
      g.assign(width, 0.0f);
      for (float& x : g) x = static_cast<float>(static_cast<int32_t>(random())) * 0x1p-31f;
    }
    RowList root;
    for (const auto& [row, g] : gradients) {
      root.rows.push_back(row);
      root.values.insert(root.values.end(), g.begin(), g.end());
      auto& kept = plain[row];
      if (kept.empty()) {
        kept.assign(3, std::vector<float>(g.size()));
        initial(row < 1000 ? 0 : 2, row < 1000 ? static_cast<int64_t>(row) * 3 : static_cast<int64_t>(row) - 1000,
                kept[0]);
      }
      float* slots[] = {kept[1].data(), kept[2].data()};
      adam->update(context(step), g.size(), g.data(), kept[0].data(), kept[0].data(), slots);
    }
    ASSERT_FALSE(store.step(*adam, same(step), root));
  }
  EXPECT_EQ(store.rows(), plain.size());
  size_t t = 0, i = 0;
  const std::vector<TableRows> copy = sorted(store);
  for (const auto& [row, kept] : plain) {
    if (row >= 1000 && t == 0) t = 1, i = 0;
    const size_t width = kept[0].size();
    ASSERT_EQ(copy[t].rows.at(i), static_cast<int64_t>(row - space_.tables()[t].first));
    EXPECT_TRUE(same_bits(kept[0], std::span(copy[t].values).subspan(i * width, width)));
    for (size_t s = 0; s < 2; ++s)
      EXPECT_TRUE(same_bits(kept[1 + s], std::span(copy[t].slots[s]).subspan(i * width, width)));
    ++i;
  }
}

TEST_F(RowStoreTest, SumsAreOfTheRowsThatAreThere) {
  const RowList sum = add(space_, {{1, 2, 1000}, {1, 1, 1, 2, 2, 2, 5}}, {{2, 3}, {10, 20, 30, 7, 7, 7}});
  EXPECT_EQ(sum.rows, (std::vector<uint64_t>{1, 2, 3, 1000}));
  EXPECT_EQ(sum.values, (std::vector<float>{1, 1, 1, 12, 22, 32, 7, 7, 7, 5}));
}

}  // namespace
}  // namespace dtrain::ps
