// What the tests of the shard server share: an outbox that remembers, gradients that are pure functions, and a plain
// second way to compute what a server must come to.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <map>
#include <random>
#include <tuple>
#include <vector>

#include "config/parse.h"
#include "optim/optimizer_spec.h"
#include "proto-free-wire/message.h"
#include "ps/block_table.h"
#include "ps/chunk_math.h"
#include "ps/shard_server.h"
#include "ps/tree.h"

namespace dtrain::ps {

struct Sent {
  wire::Rank to = 0;
  wire::Message message;
  wire::Payload payload;
};

class FakeOutbox final : public wire::Outbox {
 public:
  void send(wire::Rank to, wire::Message message, wire::Payload payload) override {
    sent.push_back({to, std::move(message), std::move(payload)});
  }
  // Removes and returns all messages of one kind.
  template <typename M>
  std::vector<std::pair<wire::Rank, M>> all() {
    std::vector<std::pair<wire::Rank, M>> out;
    std::erase_if(sent, [&](const Sent& s) {
      if (!std::holds_alternative<M>(s.message)) return false;
      out.emplace_back(s.to, std::get<M>(s.message));
      return true;
    });
    return out;
  }
  std::deque<Sent> sent;
};

class FakeSink final : public SnapshotSink {
 public:
  void snapshot(const wire::Snapshot&, ShardState state) override { states.push_back(std::move(state)); }
  std::vector<ShardState> states;
};

inline std::shared_ptr<const optim::Optimizer> make_optimizer(const std::string& toml) {
  const auto table = config::parse_toml("lr = 1\n" + toml, "run.toml");
  EXPECT_TRUE(table.has_value());
  config::Diagnostics diagnostics;
  auto spec = optim::read_optimizer_spec(*table, diagnostics);
  EXPECT_TRUE(diagnostics.ok());
  return spec.optimizer;
}

// Gradients of micro-batches and their sums by the tree.
class Facts {
 public:
  Facts(const BlockTable& table, uint32_t micro_batches) : table_(table), k_(micro_batches) {}

  const std::vector<float>& node(int64_t step, uint32_t block, const Node& node) {
    const auto key = std::make_tuple(step, block, node.first, node.last);
    if (const auto at = known_.find(key); at != known_.end()) return at->second;
    const size_t n = static_cast<size_t>(table_.block(block).elements);
    std::vector<float> out(n);
    if (node.size() == 1) {
      uint32_t x = static_cast<uint32_t>(step) * 7919u + block * 104729u + node.first * 1299709u + 1u;
      for (float& v : out) {
        x = x * 1664525u + 1013904223u;
        v = static_cast<float>(static_cast<int32_t>(x)) * 0x1p-31f;
      }
    } else {
      const uint32_t middle = split(node);
      const std::vector<float>& left = this->node(step, block, {node.first, middle});
      const std::vector<float>& right = this->node(step, block, {middle, node.last});
      for (size_t i = 0; i < n; ++i) out[i] = left[i] + right[i];
    }
    return known_.emplace(key, std::move(out)).first->second;
  }
  const std::vector<float>& root(int64_t step, uint32_t block) { return node(step, block, {0, k_}); }
  ByteSpan chunk(int64_t step, uint32_t block, const Node& node, uint32_t chunk) {
    const std::vector<float>& values = this->node(step, block, node);
    return std::as_bytes(std::span(values).subspan(chunk * static_cast<size_t>(kChunkElements),
                                                   static_cast<size_t>(table_.block(block).chunk_elements(chunk))));
  }

 private:
  const BlockTable& table_;
  uint32_t k_;
  std::map<std::tuple<int64_t, uint32_t, uint32_t, uint32_t>, std::vector<float>> known_;
};

// The whole model, block by block, stepped without any protocol.
class Oracle {
 public:
  Oracle(const BlockTable& table, const optim::Optimizer& optimizer, Facts& facts, uint32_t micro_batches)
      : table_(table), optimizer_(optimizer), facts_(facts), k_(micro_batches) {
    for (uint32_t b = 0; b < table.blocks().size(); ++b) {
      std::vector<float>& v = values.emplace_back(static_cast<size_t>(table.block(b).elements));
      for (size_t i = 0; i < v.size(); ++i) v[i] = static_cast<float>((i * 37 + b) % 211) * 0.01f - 1.0f;
      const bool trainable = table.block(b).kind == ParameterKind::kTrainable;
      slots.emplace_back(trainable ? optimizer.slots() : 0, std::vector<float>(v.size()));
    }
  }

  // Of an optimizer that needs directions: makes those of the step, and returns their squares by trainable chunk.
  std::vector<double> prepare(int64_t step, double factor) {
    std::vector<double> squares(table_.norm_chunks());
    directions_.assign(values.size(), {});
    for (uint32_t b = 0; b < values.size(); ++b) {
      const ParameterInfo& p = table_.parameters()[static_cast<size_t>(table_.block(b).parameter)];
      if (p.kind != ParameterKind::kTrainable) continue;
      std::vector<float>& direction = directions_[b] = facts_.root(step, b);
      std::vector<float*> pointers;
      for (auto& slot : slots[b]) pointers.push_back(slot.data());
      optimizer_.prepare({0.0, step, static_cast<float>(factor / k_), p.decay_multiplier}, direction.size(),
                         direction.data(), values[b].data(), pointers.data());
      for (size_t at = 0, c = 0; at < direction.size(); at += static_cast<size_t>(kChunkElements), ++c)
        squares[table_.norm_index(b) + c] = sum_of_squares(std::span<const float>(direction).subspan(
            at, std::min(static_cast<size_t>(kChunkElements), direction.size() - at)));
    }
    return squares;
  }

  void step(int64_t step, double rate, double factor = 1.0, const std::vector<double>& ratios = {}) {
    for (uint32_t b = 0; b < values.size(); ++b) {
      const std::vector<float>& root =
          directions_.empty() || directions_[b].empty() ? facts_.root(step, b) : directions_[b];
      const ParameterInfo& p = table_.parameters()[static_cast<size_t>(table_.block(b).parameter)];
      if (p.kind == ParameterKind::kFrozen) continue;
      if (p.kind == ParameterKind::kStatistic) {
        for (size_t i = 0; i < root.size(); ++i) values[b][i] = root[i] / static_cast<float>(k_);
        continue;
      }
      std::vector<float*> pointers;
      for (auto& slot : slots[b]) pointers.push_back(slot.data());
      optimizer_.update({rate * p.rate_multiplier, step, static_cast<float>(factor / k_), p.decay_multiplier,
                         ratios.empty() ? 1.0 : ratios[static_cast<size_t>(table_.block(b).parameter)]},
                        root.size(), root.data(), values[b].data(), values[b].data(), pointers.data());
    }
  }

  std::vector<std::vector<float>> values;
  std::vector<std::vector<std::vector<float>>> slots;

 private:
  const BlockTable& table_;
  const optim::Optimizer& optimizer_;
  Facts& facts_;
  uint32_t k_;
  std::vector<std::vector<float>> directions_;
};

inline bool same_bits(std::span<const float> a, std::span<const float> b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size_bytes()) == 0;
}

// A small block with factors of its own, one of two chunks, a statistic, one of a single offered chunk.
inline std::vector<ParameterInfo> small_model() {
  return {{"conv.weight", Shape{10, 50}, ParameterKind::kTrainable, 2.0f, 0.5f},
          {"linear.weight", Shape{2, 34000}, ParameterKind::kTrainable},
          {"norm.running_mean", Shape{64}, ParameterKind::kStatistic},
          {"linear2.weight", Shape{17000}, ParameterKind::kTrainable}};
}

inline double rate_of(int64_t step) { return 0.1 / static_cast<double>(step + 1); }

inline wire::Rates rates(int64_t from, int64_t until) {
  wire::Rates m;
  m.from = from;
  for (int64_t s = from; s < until; ++s) m.rates.push_back(rate_of(s));
  return m;
}

inline void load_all(ShardServer& server, uint32_t index, const BlockTable& table, const Oracle& oracle) {
  for (uint32_t b : table.of_server(index)) server.load(b, oracle.values[b]);
}

}  // namespace dtrain::ps
