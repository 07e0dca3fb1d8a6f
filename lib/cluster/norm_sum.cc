#include "cluster/norm_sum.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace dtrain::cluster {
namespace {

size_t trainable_chunks(const ps::BlockTable& table, uint32_t server) {
  size_t chunks = 0;
  for (const uint32_t id : table.of_server(server)) {
    if (table.block(id).kind == ParameterKind::kTrainable) chunks += table.block(id).chunks();
  }
  return chunks;
}

}  // namespace

NormSum::NormSum(const ps::BlockTable& table, const NormRules& rules, uint32_t micro_batches)
    : table_(table), rules_(rules), micro_batches_(micro_batches) {
  begin_round();
}

size_t NormSum::expected(const ps::BlockTable& table, const NormRules& rules, uint32_t server, uint32_t round) {
  return round < rules.rounds.size() ? trainable_chunks(table, server) * rules.rounds[round].size() : 0;
}

void NormSum::begin_round() {
  if (round_ >= rules_.rounds.size()) return;
  grid_.assign(rules_.rounds[round_].size(), std::vector<double>(table_.norm_chunks()));
  said_.assign(table_.servers(), false);
  missing_ = 0;
  for (uint32_t server = 0; server < table_.servers(); ++server) {
    said_[server] = trainable_chunks(table_, server) == 0;
    missing_ += !said_[server];
  }
}

bool NormSum::add(uint32_t server, const wire::NormPartial& partial) {
  if (partial.round != round_ || round_ >= rules_.rounds.size() || said_[server]) return false;
  DTRAIN_CHECK(partial.squares.size() == expected(table_, rules_, server, round_));
  auto next = partial.squares.begin();
  for (std::vector<double>& grid : grid_) {
    for (const uint32_t id : table_.of_server(server)) {
      const ps::Block& block = table_.block(id);
      if (block.kind != ParameterKind::kTrainable) continue;
      std::copy_n(next, block.chunks(), grid.begin() + table_.norm_index(id));
      next += block.chunks();
    }
  }
  for (const double square : partial.squares) broken_ = broken_ || !std::isfinite(square);
  said_[server] = true;
  return --missing_ == 0;
}

std::vector<double> NormSum::by_parameter(size_t quantity) const {
  std::vector<double> norms;
  for (size_t p = 0; p < table_.parameters().size(); ++p) {
    double sum = 0.0;
    for (const uint32_t id : table_.of_parameter(static_cast<ParameterIndex>(p))) {
      const ps::Block& block = table_.block(id);
      if (block.kind != ParameterKind::kTrainable) continue;
      for (uint32_t c = 0; c < block.chunks(); ++c) sum += grid_[quantity][table_.norm_index(id) + c];
    }
    norms.push_back(std::sqrt(sum));
  }
  return norms;
}

wire::NormFactor NormSum::answer(int64_t step) {
  DTRAIN_CHECK(missing_ == 0 && round_ < rules_.rounds.size());
  const std::vector<ps::NormOf>& measured = rules_.rounds[round_];
  const auto place = [&](ps::NormOf of) {
    const auto at = std::ranges::find(measured, of);
    return at == measured.end() ? std::nullopt : std::optional(static_cast<size_t>(at - measured.begin()));
  };
  const std::optional<size_t> gradient = place(ps::NormOf::kGradient), values = place(ps::NormOf::kValues);
  if (gradient) {
    double sum = 0.0;
    for (const double square : grid_[*gradient]) sum += square;
    gradient_norm_ = std::sqrt(sum) / micro_batches_;
    broken_ = broken_ || !std::isfinite(*gradient_norm_);
    // As PyTorch's clip_grad_norm_.
    if (rules_.clip_norm) factor_ = std::min(1.0, *rules_.clip_norm / (*gradient_norm_ + 1e-6));
  }
  wire::NormFactor answer{.step = step, .round = round_, .factor = factor_, .ratios = {}};
  if (values && rules_.ratio) {
    const std::vector<double> length = by_parameter(*values);
    std::vector<double> other = by_parameter(gradient ? *gradient : *place(ps::NormOf::kDirection));
    if (gradient) {
      for (double& norm : other) norm = norm / micro_batches_ * factor_;
    }
    for (size_t p = 0; p < length.size(); ++p) {
      const ParameterInfo& info = table_.parameters()[p];
      const bool moves = info.kind == ParameterKind::kTrainable;
      answer.ratios.push_back(moves ? rules_.ratio(info, length[p], other[p]) : 1.0);
    }
  }
  ++round_;
  begin_round();
  return answer;
}

}  // namespace dtrain::cluster
