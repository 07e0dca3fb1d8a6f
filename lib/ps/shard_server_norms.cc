// What of a step is measured before anything of it is applied.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "ps/chunk_math.h"
#include "ps/shard_server.h"

namespace dtrain::ps {

// What a chunk can give to the round under way, once its root is there. Directions also need the rate: until it is
// known the run may end here, with slots as they were.
void ShardServer::measure(BlockState& b, uint32_t c) {
  BlockChunk& chunk = b.front().chunks[c];
  if (failed_ || norms_known() || !b.trainable() || b.version != step_ || !chunk.sum->complete() ||
      chunk.measured != round_)
    return;
  const std::vector<NormOf>& wanted = options_.norms[round_];
  const bool directed = std::ranges::find(wanted, NormOf::kDirection) != wanted.end();
  if (directed && !rates_.contains(step_)) return;
  squares_.resize(wanted.size() * norm_chunks_);
  const size_t first = b.chunk_first(c), n = b.chunk_elements(c);
  float* const root = b.front().root.as<float>().data() + first;
  const float* const values = b.exact_values() + first;
  if (options_.counts_only) {
    ++chunk.measured;
    if (++measured_ == norm_chunks_) send_norms();
    return;
  }
  if (directed)
    optimizer_.prepare(update_context(b.block.parameter, b.version), n, root, values, slots_at(b, first).data());
  for (size_t q = 0; q < wanted.size(); ++q) {
    const float* const measured = wanted[q] == NormOf::kValues ? values : root;
    const double squares = sum_of_squares({measured, n});
    // A square of a float fits well into a double.
    if (!std::isfinite(squares)) return not_finite(b, c, measured, directed ? "the direction" : "the gradient");
    squares_[q * norm_chunks_ + b.squares_at + c] = squares;
  }
  ++chunk.measured;
  if (++measured_ == norm_chunks_) send_norms();
}

void ShardServer::measure_all() {
  if (norms_known()) return;
  for (BlockState& b : blocks_)
    for (uint32_t c = 0; c < b.block.chunks(); ++c) measure(b, c);
}

void ShardServer::send_norms() {
  if (failed_ || norms_known() || norm_chunks_ == 0 || measured_ < norm_chunks_) return;
  outbox_.send(options_.coordinator, wire::NormPartial{step_, round_, squares_});
}

Status ShardServer::on(wire::Rank from, const wire::NormFactor& m) {
  DTRAIN_TRY(check_coordinator(from, "NormFactor"));
  if (options_.norms.empty()) return broken(from, "a NormFactor in a run without norms");
  const auto bad = [](double x) { return !std::isfinite(x) || x < 0; };
  if (bad(m.factor)) return broken(from, fmt::format("a factor of {}", m.factor));
  if (!m.ratios.empty() && m.ratios.size() != table_.parameters().size())
    return broken(from, fmt::format("{} ratios for {} parameters", m.ratios.size(), table_.parameters().size()));
  if (const auto at = std::ranges::find_if(m.ratios, bad); at != m.ratios.end())
    return broken(from, fmt::format("a ratio of {}", *at));
  if (!started_ || m.step != step_ || m.round != round_ || norms_known() || measured_ < norm_chunks_) {
    ++counters_.ignored;
    return {};
  }
  factor_ = m.factor;
  ratios_ = m.ratios;
  ++round_;
  measured_ = 0;
  measure_all();
  apply_ready();
  take_all();  // what was ahead may be due now
  return {};
}

}  // namespace dtrain::ps
