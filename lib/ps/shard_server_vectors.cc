// Vectors of the size of the trainable parameters, for optimizers that look at all of them at once: what the
// coordinator orders is done block by block, and only dot products travel.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "ps/chunk_math.h"
#include "ps/shard_server.h"

namespace dtrain::ps {

Status ShardServer::check_order(wire::Rank from, const wire::VectorOrder& m) const {
  DTRAIN_TRY(check_coordinator(from, "VectorOrder"));
  if (!options_.vectors) return broken(from, "a VectorOrder in a run without such vectors");
  size_t terms = 0;
  for (const uint32_t n : m.terms) terms += n;
  if (m.to.size() != m.terms.size() || terms != m.vectors.size() || terms != m.factors.size() ||
      m.left.size() != m.right.size())
    return broken(from, "a VectorOrder whose lists do not fit together");
  const size_t slots_end = optim::kFirstSlot + optimizer_.slots();
  const auto slot = [&](uint32_t v) { return v >= optim::kFirstSlot && v < slots_end; };
  const auto kept = [](uint32_t v) { return v >= optim::kFirstKept && v < optim::kKeptEnd; };
  const auto written = [&](uint32_t v) { return kept(v) || v == optim::kNextPoint || slot(v); };
  const auto read = [&](uint32_t v) { return v < optim::kKeptEnd || slot(v); };
  const bool good = std::ranges::all_of(m.to, written) && std::ranges::all_of(m.vectors, read) &&
                    std::ranges::all_of(m.left, read) &&
                    std::ranges::all_of(m.right, [&](uint32_t v) { return read(v) || v == optim::kSigns; }) &&
                    std::ranges::all_of(m.factors, [](double f) { return std::isfinite(f); });
  if (!good) return broken(from, "a VectorOrder of vectors that there are not, or of factors that are not finite");
  if (m.commit != (std::ranges::find(m.to, uint32_t{optim::kNextPoint}) != m.to.end()))
    return broken(from, "a VectorOrder that commits without a next point, or the other way round");
  return {};
}

Status ShardServer::on(wire::Rank from, const wire::VectorOrder& m) {
  DTRAIN_TRY(check_order(from, m));
  if (!started_ || m.step != step_ || m.round != orders_) {
    ++counters_.ignored;
    return {};
  }
  const bool of_gradient = std::ranges::find(m.vectors, uint32_t{optim::kGradientVector}) != m.vectors.end();
  if (missing_roots_ > 0 && (of_gradient || m.accept))
    return broken(from, "a VectorOrder of a gradient that is not there");
  carry_out(m);
  return {};
}

// In blocks of trainable parameters. REQUIRES that the gradient is there where it is asked for.
float* ShardServer::vector(BlockState& b, uint32_t id) {
  switch (id) {
    case optim::kGradientVector:
      return b.front().root.as<float>().data();
    case optim::kPointVector:
      return const_cast<float*>(b.values());
    case optim::kNextPoint:
      return next_values(b);
    default:
      if (id >= optim::kFirstSlot) return b.slots[id - optim::kFirstSlot].as<float>().data();
      return b.kept[id - optim::kFirstKept].as<float>().data();
  }
}

// A chunk's root: when it is the last, all of them become means, and what was asked for is measured.
void ShardServer::root_is_there() {
  if (--missing_roots_ > 0) return;
  for (BlockState& other : blocks_) {
    if (other.frozen()) continue;
    const std::span<float> root = other.front().root.as<float>().first(other.elements());
    divide(root, root, static_cast<float>(pushes_));
  }
  send_dots();
}

void ShardServer::carry_out(const wire::VectorOrder& m) {
  for (BlockState& b : blocks_) {
    if (!b.trainable()) continue;
    if (m.drop_oldest && b.slots.size() > 2) std::rotate(b.slots.begin(), b.slots.begin() + 2, b.slots.end());
    size_t term = 0;
    for (size_t line = 0; line < m.to.size(); ++line) {
      std::vector<const float*> from;
      for (size_t i = 0; i < m.terms[line]; ++i) from.push_back(vector(b, m.vectors[term + i]));
      combine({vector(b, m.to[line]), b.elements()}, {m.factors.data() + term, from.size()}, from);
      term += from.size();
    }
  }
  ++orders_;
  dots_.clear();
  for (size_t i = 0; i < m.left.size(); ++i) dots_.emplace_back(m.left[i], m.right[i]);
  if (m.commit)
    commit_point(m.accept);
  else
    send_dots();
}

void ShardServer::commit_point(bool accept) {
  rates_[step_] = 0.0;  // the step may end; nothing else moves by it
  const int64_t step = step_;
  for (BlockState& b : blocks_) {
    if (b.frozen() || b.version != step) continue;
    if (!b.trainable()) {
      const float* const from = accept ? b.front().root.as<const float>().data() : b.values();
      float* const to = next_values(b);
      if (to != from) std::memcpy(to, from, b.elements() * sizeof(float));
    }
    b.applied = b.block.chunks();
    commit(b);
  }
  finish_steps();
}

// Those that are asked for, once all that they are of is there.
void ShardServer::send_dots() {
  const bool of_gradient = std::ranges::any_of(
      dots_, [](const auto& d) { return d.first == optim::kGradientVector || d.second == optim::kGradientVector; });
  if (dots_.empty() || (missing_roots_ > 0 && of_gradient)) return;
  for (uint32_t i = 0; i < dots_.size(); ++i) {
    wire::VectorDots answer{step_, orders_, i, {}};
    for (BlockState& b : blocks_) {
      if (!b.trainable()) continue;
      const float* const left = vector(b, dots_[i].first);
      const float* const right = dots_[i].second == optim::kSigns ? nullptr : vector(b, dots_[i].second);
      for (uint32_t c = 0; c < b.block.chunks(); ++c) {
        const size_t first = b.chunk_first(c), n = b.chunk_elements(c);
        answer.sums.push_back(right ? dot({left + first, n}, {right + first, n})
                                    : sum_of_magnitudes({left + first, n}));
      }
    }
    outbox_.send(options_.coordinator, std::move(answer));
  }
  dots_.clear();
}

}  // namespace dtrain::ps
