// Which shares of right answers a network's loss counts, under the names that files and people know them by:
// "accuracy", "top5_accuracy". None where its labels are no classes.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "graph/label_spec.h"
#include "tensor/metrics.h"

namespace dtrain::node {

using AnswerShares = std::vector<std::pair<std::string, double>>;

AnswerShares answer_shares(const graph::LabelSpec& labels, const Metrics& metrics);
// ", accuracy 0.8655, top5_accuracy 0.9912", each name behind `before`; "" of none.
std::string describe(const AnswerShares& shares, const std::string& before = "");

}  // namespace dtrain::node
