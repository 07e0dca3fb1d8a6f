#include "node/answer_shares.h"

#include <fmt/format.h>

namespace dtrain::node {

AnswerShares answer_shares(const graph::LabelSpec& labels, const Metrics& metrics) {
  if (labels.kind != graph::LabelSpec::Kind::kClasses) return {};
  AnswerShares shares{{"accuracy", metrics.correct / metrics.samples}};
  if (labels.top_k > 0)
    shares.emplace_back(fmt::format("top{}_accuracy", labels.top_k), metrics.among_top / metrics.samples);
  return shares;
}

std::string describe(const AnswerShares& shares, const std::string& before) {
  std::string text;
  for (const auto& [name, share] : shares) text += fmt::format(", {}{} {:.4f}", before, name, share);
  return text;
}

}  // namespace dtrain::node
