#include "cluster/dot_sum.h"

#include "base/check.h"

namespace dtrain::cluster {

DotSum::DotSum(const ps::BlockTable& table) : chunks_(table.servers()), grid_(table.norm_chunks()) {
  for (uint32_t server = 0; server < table.servers(); ++server)
    for (const uint32_t id : table.of_server(server)) {
      const ps::Block& block = table.block(id);
      if (block.kind != ParameterKind::kTrainable) continue;
      for (uint32_t c = 0; c < block.chunks(); ++c) chunks_[server].push_back(table.norm_index(id) + c);
    }
}

void DotSum::begin(size_t dots) {
  dots_.assign(dots, std::vector<double>(grid_));
  known_.assign(dots, std::vector<bool>(chunks_.size()));
  missing_ = 0;
  for (const auto& chunks : chunks_) missing_ += chunks.empty() ? 0 : dots;
}

bool DotSum::add(uint32_t server, const wire::VectorDots& m) {
  DTRAIN_CHECK(server < chunks_.size());
  if (m.dot >= dots_.size() || m.sums.size() != expected(server) || m.sums.empty() || known_[m.dot][server])
    return false;
  known_[m.dot][server] = true;
  for (size_t i = 0; i < m.sums.size(); ++i) dots_[m.dot][chunks_[server][i]] = m.sums[i];
  --missing_;
  return true;
}

std::vector<double> DotSum::sums() const {
  DTRAIN_CHECK(complete());
  std::vector<double> out;
  for (const std::vector<double>& dot : dots_) {
    double sum = 0.0;
    for (const double x : dot) sum += x;
    out.push_back(sum);
  }
  return out;
}

}  // namespace dtrain::cluster
