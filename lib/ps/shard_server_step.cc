// Sums, roots and commits.
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>

#include "ps/chunk_math.h"
#include "ps/shard_server.h"

namespace dtrain::ps {

void ShardServer::add(BlockState& b, int64_t step, uint32_t c, wire::Rank from, const Node& node, ChunkValues values,
                      bool in_reserve) {
  StepSum& sum = sum_of(b, step);
  BlockChunk& chunk = sum.chunks[c];
  const size_t n = b.chunk_elements(c);
  if (!lockstep() && b.trainable() && !options_.counts_only) values = compensated(b, c, from, values);

  const bool front = &sum == &b.front();
  const bool now = front && may_apply(b);  // else the root has to wait, in memory of its own
  if (!now && sum.root.size() == 0) sum.root = Buffer(b.elements() * sizeof(float));
  float* const memory = now ? nullptr : sum.root.as<float>().data() + b.chunk_first(c);
  const float* root = chunk.sum->add(node, values, sums_of(b), memory, in_reserve);
  if (!root) return;

  ++sum.roots;
  if (watcher_) watcher_->on_root(b.id, c, step, {root, n});
  if (options_.vectors) {  // what is not finite is a point too far away
    chunk.sum->free(sums_of(b), n);
    root_is_there();
    return;
  }
  // The squares of a gradient are finite where it is.
  const bool squared = front && b.trainable() && !options_.norms.empty() && options_.norms[0][0] == NormOf::kGradient;
  if (!squared && !options_.counts_only && !all_finite({root, n})) {
    not_finite(b, c, root, b.trainable() ? "the gradient" : "the new value");
  } else if (now) {
    apply(b, c, root);
  } else if (front) {
    measure(b, c);
  }
  chunk.sum->free(sums_of(b), n);
  if (b.applied == b.block.chunks()) commit(b);
}

// DC-ASGD: what the gradient would be where the block stands now, to the first order, with its own square for the
// Hessian.
ChunkValues ShardServer::compensated(const BlockState& b, uint32_t c, wire::Rank from, const ChunkValues& values) {
  const double lambda = rule_->mode().delay_compensation;
  const auto read = b.read.find(from);
  if (lambda == 0.0 || read == b.read.end() || read->second == b.newest) return values;
  std::span<const float> gradient(values.plain(), values.size());
  if (!values.plain()) {
    if (decoded_.size() == 0) decoded_ = Buffer(kChunkElements * sizeof(float));
    values.copy_to(decoded_.as<float>().data());
    gradient = decoded_.as<float>().first(values.size());
  }
  if (compensated_.size() == 0) compensated_ = Buffer(kChunkElements * sizeof(float));
  const std::span<float> out = compensated_.as<float>().first(gradient.size());
  ps::compensate(out, gradient, {b.values() + b.chunk_first(c), gradient.size()},
                 {read->second->as<const float>().data() + b.chunk_first(c), gradient.size()},
                 static_cast<float>(lambda));
  return std::span<const float>(out);
}

bool ShardServer::may_apply(const BlockState& b) const {
  if (failed_ || options_.vectors) return false;
  if (!lockstep()) return !rates_.empty();
  return b.version == step_ && rates_.contains(step_) && (!b.trainable() || norms_known());
}

float* ShardServer::next_values(BlockState& b) {
  if (b.in_place) return b.in_place;
  if (!b.next) {
    // A root of this step proves that every worker had every block at this version: the older one has served its time.
    if (b.older && b.older.use_count() == 1) {
      std::atomic_thread_fence(std::memory_order_acquire);  // what the last reader did lies before
      b.next = std::move(b.older);
    } else {
      b.next = std::make_shared<Buffer>(b.elements() * sizeof(float), options_.memory);
    }
    b.older.reset();
  }
  return b.next->as<float>().data();
}

std::vector<float*> ShardServer::slots_at(BlockState& b, size_t first) {
  std::vector<float*> slots;
  for (Buffer& slot : b.slots) slots.push_back(slot.as<float>().data() + first);
  return slots;
}

optim::UpdateContext ShardServer::update_context(ParameterIndex parameter, int64_t version) const {
  const ParameterInfo& p = table_.parameters()[static_cast<size_t>(parameter)];
  // Without lockstep a block's version counts the pushes that it has had, and the newest rate is for all.
  const double rate = lockstep() ? rates_.at(step_) : rates_.rbegin()->second;
  const int64_t step = lockstep() ? step_ / stride() : version;
  return {rate * p.rate_multiplier, step, static_cast<float>(factor_ / pushes_), p.decay_multiplier,
          ratios_.empty() ? 1.0 : ratios_[static_cast<size_t>(parameter)]};
}

void ShardServer::apply(BlockState& b, uint32_t c, const float* root) {
  const size_t first = b.chunk_first(c), n = b.chunk_elements(c);
  float* const to = next_values(b) + first;
  if (options_.counts_only) {
    // nothing to be made of it
  } else if (b.trainable()) {
    float* const exact = b.exact.size() > 0 ? b.exact.as<float>().data() + first : to;
    optimizer_.update(update_context(b.block.parameter, b.version), n, root, b.exact_values() + first, exact,
                      slots_at(b, first).data());
    if (exact != to) {
      if (!all_finite({exact, n})) return not_finite(b, c, exact, "the new value");
      b.next_updates.resize(b.block.chunks());
      b.next_updates[c] = updates_.encode({exact, n}, b.values() + first, to);
    }
  } else {
    divide({to, n}, {root, n}, static_cast<float>(pushes_));
  }
  // Large, but finite gradients and rates can still make values that are not: those must not become a version.
  if (!options_.counts_only && !all_finite({to, n})) return not_finite(b, c, to, "the new value");
  b.front().chunks[c].applied = true;
  ++b.applied;
}

// Applies the roots that had to wait for the rate, the factor, or the step before.
void ShardServer::apply_ready() {
  for (BlockState& b : blocks_) {
    if (b.frozen() || b.front().roots == 0 || !may_apply(b)) continue;
    StepSum& sum = b.front();
    for (uint32_t c = 0; c < b.block.chunks(); ++c)
      if (sum.chunks[c].sum->complete() && !sum.chunks[c].applied)
        apply(b, c, sum.root.as<float>().data() + b.chunk_first(c));
    if (b.applied == b.block.chunks()) commit(b);
  }
  apply_rows();
}

void ShardServer::apply_rows() {
  if (!rows_ || failed_ || rows_->version() != step_ || !rows_->complete() || !rates_.contains(step_)) return;
  const auto context = [this](ParameterIndex p) { return update_context(p, step_); };
  const auto found = rows_->commit(context);
  if (!found) return;
  failed_ = true;
  const RowSpace::Table& t = table_.rows().tables()[table_.rows().table_of(found->row)];
  outbox_.send(options_.coordinator,
               wire::Failure{static_cast<uint8_t>(ExitCode::kNotFinite),
                             fmt::format("step {}: {} of '{}' is not finite ({} in column {} of row {}); a lower lr or "
                                         "warm-up in [optimizer] and [schedule] may help",
                                         step_, found->gradient ? "the gradient" : "the new value",
                                         table_.parameters()[static_cast<size_t>(t.parameter)].name, found->value,
                                         found->column, found->row - t.first)});
}

void ShardServer::commit(BlockState& b) {
  b.version += stride();
  if (!b.in_place) {
    b.older = std::move(b.newest);
    b.newest = std::move(b.next);
    b.updates = std::move(b.next_updates);
    b.next_updates.clear();
  }
  if (watcher_ && b.newest && watcher_->on_commit(b.id, b.version, b.newest->as<float>())) {
    // What was encoded leads to other values than those that a watcher has put in their place; from these it goes on.
    b.updates.clear();
    if (b.exact.size() > 0) std::memcpy(b.exact.data(), b.newest->data(), b.exact.size());
  }
  next_step(b);
  ++counters_.commits;
  std::erase_if(b.parked, [&](const ParkedPull& p) {
    if (p.version > b.version) return false;
    b.parks[p.from] = false;
    send_block(p.from, b, b.version, p.held);
    return true;
  });
  if (!lockstep()) return;
  ++committed_;
  finish_steps();
}

void ShardServer::next_step(BlockState& b) {
  clear(b, b.front());
  b.applied = 0;
  std::rotate(b.steps.begin(), b.steps.begin() + 1, b.steps.end());
}

void ShardServer::clear(BlockState& b, StepSum& sum) {
  for (uint32_t c = 0; c < b.block.chunks(); ++c) {
    BlockChunk& chunk = sum.chunks[c];
    chunk.sum->reset(sums_of(b), b.chunk_elements(c));
    chunk.promised = 0;
    chunk.measured = 0;
    chunk.applied = false;
    admission_.set_used(chunk.reserved, 0);
    chunk.reserved = 0;
  }
  sum.roots = 0;
  if (options_.norms.empty()) sum.root = Buffer();
}

// A server without blocks, or with frozen ones only, commits as soon as it knows the rate.
void ShardServer::finish_steps() {
  while (lockstep() && committed_ == moving_ && (!rows_ || rows_->version() > step_) && rates_.contains(step_)) {
    step_ += stride();
    begin_step();
    outbox_.send(options_.coordinator, wire::Committed{step_});
    if (rule_->mode().window == 1) continue;
    measure_all();  // roots of this step may be here
    apply_ready();
  }
}

void ShardServer::begin_step() {
  rates_.erase(rates_.begin(), rates_.lower_bound(step_));
  committed_ = 0;
  round_ = 0;
  measured_ = 0;
  factor_ = 1.0;
  ratios_.clear();
  first_unfinished_ = 0;
  orders_ = 0;
  missing_roots_ = 0;
  for (const BlockState& b : blocks_)
    if (!b.frozen()) missing_roots_ += b.block.chunks();
}

void ShardServer::not_finite(const BlockState& b, uint32_t c, const float* values, const char* what) {
  if (failed_) return;
  failed_ = true;
  size_t i = 0;
  while (std::isfinite(values[i])) ++i;
  const std::string& name = table_.parameters()[static_cast<size_t>(b.block.parameter)].name;
  outbox_.send(options_.coordinator,
               wire::Failure{static_cast<uint8_t>(ExitCode::kNotFinite),
                             fmt::format("step {}: {} of '{}' is not finite ({} at element {}); a lower lr, warm-up or "
                                         "clip_norm in [optimizer] and [schedule] may help",
                                         lockstep() || rates_.empty() ? step_ : rates_.rbegin()->first, what, name,
                                         values[i], b.block.first + static_cast<int64_t>(b.chunk_first(c) + i))});
}

void ShardServer::send_block(wire::Rank to, BlockState& b, int64_t version, int64_t held) {
  if (version == b.version && held >= 0 && held == version - stride() && !b.updates.empty()) {
    for (uint32_t c = 0; c < b.block.chunks(); ++c)
      outbox_.send(to, wire::ParameterChunk{b.id, version, c, held, updates_.codec()},
                   {{b.updates[c]->data(), b.updates[c]->size()}, b.updates[c]});
    return;
  }
  const std::shared_ptr<Buffer>& owner = b.frozen() || version == b.version ? b.newest : b.older;
  if (rule_->mode().delay_compensation > 0 && !b.in_place) b.read[to] = owner;
  const float* values = b.in_place ? b.in_place : owner->as<const float>().data();
  for (uint32_t c = 0; c < b.block.chunks(); ++c)
    outbox_.send(to, wire::ParameterChunk{b.id, version, c},
                 {std::as_bytes(std::span(values + b.chunk_first(c), b.chunk_elements(c))), owner});
}

}  // namespace dtrain::ps
