// Rows of sparse tables at a shard server, by messages: any order of arrival gives the bits of plain loops.
#include <algorithm>

#include "fixture.h"
#include "ps/row_sum.h"

namespace dtrain::ps {
namespace {

constexpr wire::Rank kWorker = 10, kOther = 11;

std::vector<ParameterInfo> model() {
  return {{"table.weight", Shape{500, 2}, ParameterKind::kSparse, 0.5f, 1.0f},
          {"fc.weight", Shape{4, 8}, ParameterKind::kTrainable},
          {"wide.weight", Shape{300, 1}, ParameterKind::kSparse}};
}

void initial(ParameterIndex p, int64_t first, std::span<float> out) {
  for (size_t i = 0; i < out.size(); ++i) out[i] = static_cast<float>(first + static_cast<int64_t>(i) + p) * 0.001f;
}

class RowServerTest : public ::testing::Test {
 protected:
  static constexpr uint32_t kMicroBatches = 5;

  void make(const std::string& optimizer = "momentum = 0.9", uint32_t servers = 1, uint32_t index = 0,
            uint64_t most_rows = 800) {
    optimizer_ = make_optimizer(optimizer);
    table_.emplace(model(), servers);
    facts_.emplace(*table_, kMicroBatches);
    server_.emplace(
        *table_, index,
        ShardServerOptions{.micro_batches = kMicroBatches, .initial_rows = initial, .micro_batch_rows = most_rows},
        *optimizer_, outbox_, sink_);
    for (uint32_t b : table_->of_server(index))
      server_->load(b, std::vector<float>(static_cast<size_t>(table_->block(b).elements), 1.0f));
    server_->start(0);
  }
  const RowSpace& space() const { return table_->rows(); }

  // A micro-batch's rows and gradient, a function of its place.
  RowList leaf(int64_t step, uint32_t k) const {
    std::mt19937 random(static_cast<uint32_t>(step * 100 + k));
    RowList list;
    if (k == 3) return list;  // this one uses none
    for (uint64_t row = 0; row < space().rows(); ++row)
      if (random() % 4 == 0) list.rows.push_back(row);
    list.values.resize(space().elements(list.rows));
    for (float& v : list.values) v = static_cast<float>(static_cast<int32_t>(random())) * 0x1p-31f;
    return list;
  }
  // In parts of a few rows.
  std::vector<std::pair<wire::RowPush, std::vector<float>>> parts(int64_t step, uint32_t k, size_t rows = 37) const {
    const RowList list = leaf(step, k);
    std::vector<std::pair<wire::RowPush, std::vector<float>>> out;
    const size_t n = std::max<size_t>(1, (list.rows.size() + rows - 1) / rows);
    size_t at = 0;
    for (size_t i = 0; i < n; ++i) {
      wire::RowPush push{step, k, static_cast<uint32_t>(i), static_cast<uint32_t>(n), {}};
      for (size_t r = i * rows; r < std::min(list.rows.size(), (i + 1) * rows); ++r) push.rows.push_back(list.rows[r]);
      const size_t elements = space().elements(push.rows);
      out.emplace_back(push, std::vector<float>(list.values.begin() + static_cast<ptrdiff_t>(at),
                                                list.values.begin() + static_cast<ptrdiff_t>(at + elements)));
      at += elements;
    }
    return out;
  }
  Status push(wire::Rank from, const std::pair<wire::RowPush, std::vector<float>>& part) {
    return server_->on_message(from, part.first, std::as_bytes(std::span(part.second)));
  }
  void push_block(int64_t step) {
    for (uint32_t b : table_->of_server(0))
      ASSERT_TRUE(server_->on_message(kWorker, wire::NodeChunk{step, b, 0, kMicroBatches, 0},
                                      facts_->chunk(step, b, {0, kMicroBatches}, 0)));
  }

  // The rows after so many steps, by plain loops over dense tables: lazily, only rows that were used move.
  std::vector<std::vector<float>> plain(int64_t steps) const {
    std::vector<std::vector<float>> values, momentum;
    for (const RowSpace::Table& t : space().tables()) {
      values.emplace_back(t.rows * static_cast<uint64_t>(t.width));
      initial(t.parameter, 0, values.back());
      momentum.emplace_back(values.back().size());
    }
    for (int64_t step = 0; step < steps; ++step) {
      std::map<uint64_t, std::map<uint32_t, std::vector<float>>> leaves;
      for (uint32_t k = 0; k < kMicroBatches; ++k) {
        const RowList list = leaf(step, k);
        size_t at = 0;
        for (uint64_t row : list.rows) {
          const size_t width = static_cast<size_t>(space().tables()[space().table_of(row)].width);
          leaves[row][k].assign(list.values.begin() + static_cast<ptrdiff_t>(at),
                                list.values.begin() + static_cast<ptrdiff_t>(at + width));
          at += width;
        }
      }
      for (const auto& [row, of_row] : leaves) {
        const size_t t = space().table_of(row), width = static_cast<size_t>(space().tables()[t].width);
        const float rate = static_cast<float>(
            rate_of(step) *
            static_cast<double>(model()[static_cast<size_t>(space().tables()[t].parameter)].rate_multiplier));
        for (size_t c = 0; c < width; ++c) {
          const size_t at = (row - space().tables()[t].first) * width + c;
          const float d = (1.0f / kMicroBatches) * *sum(of_row, {0, kMicroBatches}, c);
          momentum[t][at] = 0.9f * momentum[t][at] + d;
          values[t][at] -= rate * momentum[t][at];
        }
      }
    }
    return values;
  }
  static std::optional<float> sum(const std::map<uint32_t, std::vector<float>>& of_row, const Node& node, size_t c) {
    if (node.size() == 1) {
      const auto at = of_row.find(node.first);
      return at == of_row.end() ? std::nullopt : std::optional(at->second[c]);
    }
    const auto left = sum(of_row, {node.first, split(node)}, c), right = sum(of_row, {split(node), node.last}, c);
    return left && right ? *left + *right : left ? left : right;
  }
  void expect_rows(int64_t version) {
    const auto expected = plain(version);
    std::vector<uint64_t> rows(space().rows());
    for (uint64_t r = 0; r < rows.size(); ++r) rows[r] = r;
    std::vector<float> got(space().elements(rows)), wanted;
    server_->rows()->read(rows, version, got.data());
    for (const auto& table : expected) wanted.insert(wanted.end(), table.begin(), table.end());
    EXPECT_TRUE(same_bits(got, wanted)) << "version " << version;
  }

  FakeOutbox outbox_;
  FakeSink sink_;
  std::shared_ptr<const optim::Optimizer> optimizer_;
  std::optional<BlockTable> table_;
  std::optional<Facts> facts_;
  std::optional<ShardServer> server_;
};

TEST_F(RowServerTest, AnyOrderOfArrivalGivesTheSameBits) {
  for (uint32_t seed = 0; seed < 40; ++seed) {
    SCOPED_TRACE(seed);
    make();
    std::mt19937 random(seed);
    ASSERT_TRUE(server_->on_message(0, rates(0, 4)));
    for (int64_t step = 0; step < 4; ++step) {
      // Two workers compute everything, and one of them is lost in the middle of it.
      std::map<wire::Rank, std::deque<std::pair<wire::RowPush, std::vector<float>>>> queues;
      for (const wire::Rank from : {kWorker, kOther}) {
        std::vector<uint32_t> order{0, 1, 2, 3, 4};
        std::shuffle(order.begin(), order.end(), random);
        for (uint32_t k : order)
          for (auto& part : parts(step, k, 1 + random() % 60)) queues[from].push_back(std::move(part));
      }
      bool blocks = false;
      while (!queues[kWorker].empty() || !queues[kOther].empty()) {
        auto& queue = queues[random() % 2 == 0 ? kWorker : kOther];
        if (!blocks && random() % 100 == 0) push_block(step), blocks = true;
        if (random() % 300 == 0 && !queues[kWorker].empty()) {
          server_->peer_lost(kOther);
          queues[kOther].clear();
        }
        if (queue.empty()) continue;
        ASSERT_TRUE(push(&queue == &queues[kWorker] ? kWorker : kOther, queue.front()));
        queue.pop_front();
      }
      if (!blocks) push_block(step);
      ASSERT_EQ(server_->version(), step + 1);
      expect_rows(step + 1);
      expect_rows(step);
    }
  }
}

TEST_F(RowServerTest, EveryMicroBatchIsAnsweredOnceItIsWhole) {
  make();
  ASSERT_TRUE(server_->on_message(0, rates(0, 1)));
  for (const wire::Rank from : {kWorker, kOther}) {
    for (uint32_t k = 0; k < kMicroBatches; ++k) {
      const auto all = parts(0, k);
      for (size_t i = 0; i < all.size(); ++i) {
        EXPECT_TRUE(outbox_.all<wire::RowsTaken>().empty());
        ASSERT_TRUE(push(from, all[i]));
      }
      const auto taken = outbox_.all<wire::RowsTaken>();
      ASSERT_EQ(taken.size(), 1u);
      EXPECT_EQ(taken[0].first, from);
      EXPECT_EQ(taken[0].second.micro_batch, k);
    }
  }
}

TEST_F(RowServerTest, AStepEndsWhenBlocksAndRowsHaveEnded) {
  make();
  ASSERT_TRUE(server_->on_message(0, rates(0, 1)));
  push_block(0);
  for (uint32_t k = 0; k < kMicroBatches; ++k) {
    EXPECT_EQ(server_->version(), 0);
    for (const auto& part : parts(0, k)) ASSERT_TRUE(push(kWorker, part));
  }
  EXPECT_EQ(server_->version(), 1);
  EXPECT_EQ(outbox_.all<wire::Committed>().size(), 1u);
}

TEST_F(RowServerTest, RowsWaitForTheRate) {
  make();
  for (uint32_t k = 0; k < kMicroBatches; ++k)
    for (const auto& part : parts(0, k)) ASSERT_TRUE(push(kWorker, part));
  push_block(0);
  EXPECT_EQ(server_->rows()->version(), 0);
  ASSERT_TRUE(server_->on_message(0, rates(0, 1)));
  EXPECT_EQ(server_->version(), 1);
  expect_rows(1);
}

TEST_F(RowServerTest, PullsAreAnsweredWaitOrAreGone) {
  make();
  ASSERT_TRUE(server_->on_message(0, rates(0, 3)));
  const std::vector<uint64_t> rows{2, 499, 500, 799};
  ASSERT_TRUE(server_->on_message(kWorker, wire::RowPull{1, 0, 0, rows}));
  ASSERT_EQ(outbox_.sent.size(), 1u);
  const auto* now = std::get_if<wire::Rows>(&outbox_.sent[0].message);
  ASSERT_NE(now, nullptr);
  EXPECT_EQ(*now, (wire::Rows{1, 0, 0}));
  EXPECT_EQ(outbox_.sent[0].payload.bytes.size(), 6 * sizeof(float));
  outbox_.sent.clear();
  // Ahead; of one worker a newer round replaces what it asked before.
  ASSERT_TRUE(server_->on_message(kWorker, wire::RowPull{2, 0, 1, rows}));
  ASSERT_TRUE(server_->on_message(kWorker, wire::RowPull{3, 0, 1, rows}));
  ASSERT_TRUE(server_->on_message(kWorker, wire::RowPull{3, 1, 1, {}}));
  ASSERT_TRUE(server_->on_message(kOther, wire::RowPull{1, 0, 1, rows}));
  EXPECT_TRUE(outbox_.sent.empty());
  for (int64_t step = 0; step < 2; ++step) {
    for (uint32_t k = 0; k < kMicroBatches; ++k)
      for (const auto& part : parts(step, k)) ASSERT_TRUE(push(kWorker, part));
    push_block(step);
    const auto answers = outbox_.all<wire::Rows>();
    if (step > 0) break;
    ASSERT_EQ(answers.size(), 3u);
    EXPECT_EQ(answers[0], (std::pair{kWorker, wire::Rows{3, 0, 1}}));
    EXPECT_EQ(answers[1], (std::pair{kWorker, wire::Rows{3, 1, 1}}));
    EXPECT_EQ(answers[2], (std::pair{kOther, wire::Rows{1, 0, 1}}));
  }
  ASSERT_TRUE(server_->on_message(kWorker, wire::RowPull{9, 0, 0, rows}));
  EXPECT_EQ(outbox_.all<wire::RowsGone>().at(0), (std::pair{kWorker, wire::RowsGone{9, 0, 2}}));
}

TEST_F(RowServerTest, WhoBreaksTheProtocolIsToldSo) {
  make("", 2, 1);
  std::vector<uint64_t> mine, others;
  for (uint64_t r = 0; r < space().rows(); ++r) (space().server_of(r) == 1 ? mine : others).push_back(r);
  const auto pull = [&](std::vector<uint64_t> rows, int64_t version = 0) {
    return server_->on_message(kWorker, wire::RowPull{1, 0, version, std::move(rows)}).has_value();
  };
  EXPECT_TRUE(pull({mine[0], mine[1]}));
  EXPECT_FALSE(pull({mine[1], mine[0]}));
  EXPECT_FALSE(pull({mine[0], mine[0]}));
  EXPECT_FALSE(pull({others[0]}));
  EXPECT_FALSE(pull({uint64_t{800}}));
  EXPECT_FALSE(pull({UINT64_MAX}));
  EXPECT_FALSE(pull({mine[0]}, -1));
  const std::vector<float> values(64);
  const auto push = [&](wire::RowPush m, size_t floats) {
    return server_->on_message(kWorker, std::move(m), std::as_bytes(std::span(values).first(floats))).has_value();
  };
  const size_t width = static_cast<size_t>(space().tables()[space().table_of(mine[0])].width);
  EXPECT_FALSE(push({0, 0, 0, 1, {mine[0]}}, width + 1));
  EXPECT_FALSE(push({0, 0, 0, 1, {mine[0]}}, 0));
  EXPECT_FALSE(push({0, kMicroBatches, 0, 1, {}}, 0));
  EXPECT_FALSE(push({-1, 0, 0, 1, {}}, 0));
  EXPECT_FALSE(push({0, 0, 1, 1, {}}, 0));
  EXPECT_FALSE(push({0, 0, 1, 2, {}}, 0));  // its first part never came
  EXPECT_TRUE(push({0, 0, 0, 2, {mine[1]}}, width));
  EXPECT_FALSE(push({0, 0, 1, 2, {mine[0]}}, width));
  EXPECT_FALSE(push({0, 0, 1, 3, {mine[2]}}, width));
  EXPECT_TRUE(push({0, 0, 1, 2, {mine[2]}}, width));
  EXPECT_TRUE(push({9, 0, 0, 1, {}}, 0));  // of a step that cannot have begun: ignored
  BlockTable dense({{"fc.weight", Shape{4}, ParameterKind::kTrainable}}, 1);
  ShardServer without(dense, 0, {}, *optimizer_, outbox_, sink_);
  without.load(0, std::vector<float>(4));
  without.start(0);
  EXPECT_FALSE(without.on_message(kWorker, wire::RowPull{1, 0, 0, {}}));
  EXPECT_FALSE(without.on_message(kWorker, wire::RowPush{0, 0, 0, 1, {}}));
}

TEST_F(RowServerTest, NobodyIsKeptMoreForThanAMicroBatch) {
  make("", 1, 0, 5);
  ASSERT_TRUE(server_->on_message(0, rates(0, 1)));
  const auto pull = [&](uint64_t round, uint32_t part, std::vector<uint64_t> rows) {
    return server_->on_message(kWorker, wire::RowPull{round, part, 1, std::move(rows)}).has_value();
  };
  EXPECT_TRUE(pull(2, 0, {1, 2, 3}));
  EXPECT_FALSE(pull(2, 0, {4})) << "the same part";
  EXPECT_FALSE(pull(2, 1, {4, 5, 6}));
  EXPECT_TRUE(pull(2, 1, {4, 5}));
  EXPECT_TRUE(pull(1, 0, {1, 2, 3})) << "before: of no use";
  EXPECT_TRUE(pull(3, 0, {1, 2, 3, 4, 5})) << "this counts anew";
  uint32_t parts = 1;
  while (parts < 1'000'000 && pull(3, parts, {})) ++parts;
  EXPECT_LT(parts, 1'000'000u);

  const std::vector<float> values(64);
  const auto push = [&](uint32_t micro_batch, uint32_t part, uint32_t of, std::vector<uint64_t> rows) {
    const size_t floats = space().elements(rows);
    return server_
        ->on_message(kOther, wire::RowPush{0, micro_batch, part, of, std::move(rows)},
                     std::as_bytes(std::span(values).first(floats)))
        .has_value();
  };
  EXPECT_TRUE(push(0, 0, 3, {1, 2, 3}));
  EXPECT_FALSE(push(0, 1, 3, {4, 5, 6}));
  EXPECT_TRUE(push(0, 1, 3, {4, 5}));
  uint32_t others = 1;
  while (others < kMicroBatches && push(others, 0, 2, {1})) ++others;
  EXPECT_LT(others, kMicroBatches);
  EXPECT_TRUE(push(0, 2, 3, {}));
}

TEST_F(RowServerTest, WhoDoesNotReadIsCutOff) {
  make();
  std::vector<uint64_t> rows(500);
  for (uint64_t r = 0; r < rows.size(); ++r) rows[r] = r;
  uint64_t round = 0;
  const auto pull = [&](wire::Rank from) {
    return server_->on_message(from, wire::RowPull{++round, 0, 0, rows}).has_value();
  };
  while (round < 1'000'000 && pull(kWorker)) {
  }
  EXPECT_LT(round, 100'000u) << "of 4,000 bytes each";
  EXPECT_TRUE(pull(kOther));
  outbox_.sent.clear();  // now it has
  EXPECT_TRUE(pull(kWorker));
}

TEST_F(RowServerTest, AGradientThatIsNotFiniteEndsTheRun) {
  make();
  ASSERT_TRUE(server_->on_message(0, rates(0, 1)));
  for (uint32_t k = 0; k < kMicroBatches; ++k) {
    auto all = parts(0, k);
    if (k == 2) all[0].second[0] = std::numeric_limits<float>::infinity();
    for (const auto& part : all) ASSERT_TRUE(push(kWorker, part));
  }
  push_block(0);
  const auto failures = outbox_.all<wire::Failure>();
  ASSERT_EQ(failures.size(), 1u);
  EXPECT_EQ(failures[0].second.exit_code, static_cast<uint8_t>(ExitCode::kNotFinite));
  EXPECT_NE(failures[0].second.reason.find("table.weight"), std::string::npos) << failures[0].second.reason;
  EXPECT_EQ(server_->version(), 0);
}

TEST_F(RowServerTest, ASnapshotHoldsTheRowsThatWereUsed) {
  make();
  ASSERT_TRUE(server_->on_message(0, rates(0, 1)));
  ASSERT_TRUE(server_->on_message(0, wire::Snapshot{0, "x"}));
  for (uint32_t k = 0; k < kMicroBatches; ++k)
    for (const auto& part : parts(0, k)) ASSERT_TRUE(push(kWorker, part));
  ASSERT_TRUE(server_->on_message(0, wire::Snapshot{1, "x"}));  // the block is not there yet
  EXPECT_NE(outbox_.all<wire::SnapshotDone>().at(0).second.error, "");
  push_block(0);
  ASSERT_TRUE(server_->on_message(0, wire::Snapshot{1, "x"}));
  ASSERT_EQ(sink_.states.size(), 2u);
  ASSERT_EQ(sink_.states[0].rows.size(), 2u);
  EXPECT_TRUE(sink_.states[0].rows[0].rows.empty());
  std::set<uint64_t> used;
  for (uint32_t k = 0; k < kMicroBatches; ++k)
    for (uint64_t row : leaf(0, k).rows) used.insert(row);
  EXPECT_EQ(sink_.states[1].rows[0].rows.size() + sink_.states[1].rows[1].rows.size(), used.size());
  EXPECT_EQ(sink_.states[1].rows[0].sorted().slots.size(), 1u);
}

}  // namespace
}  // namespace dtrain::ps
