#include "ps/block_table.h"

#include <algorithm>
#include <numeric>

#include "base/check.h"

namespace dtrain::ps {

BlockTable::BlockTable(std::vector<ParameterInfo> parameters, uint32_t servers)
    : parameters_(std::move(parameters)),
      rows_(parameters_, servers),
      servers_(servers),
      of_server_(servers),
      of_parameter_(parameters_.size()) {
  DTRAIN_CHECK(servers > 0);
  constexpr int64_t kBlockElements = kChunkElements * kBlockChunks;
  for (size_t p = 0; p < parameters_.size(); ++p) {
    const bool sparse = parameters_[p].kind == ParameterKind::kSparse;
    const int64_t elements = sparse ? 0 : parameters_[p].shape.elements();
    for (int64_t first = 0; first < elements; first += kBlockElements) {
      of_parameter_[p].push_back(static_cast<uint32_t>(blocks_.size()));
      blocks_.push_back(
          {static_cast<ParameterIndex>(p), first, std::min(kBlockElements, elements - first), 0, parameters_[p].kind});
    }
  }

  std::vector<uint32_t> by_size(blocks_.size());
  std::iota(by_size.begin(), by_size.end(), 0);
  std::stable_sort(by_size.begin(), by_size.end(), [&](uint32_t a, uint32_t b) {
    const bool frozen_a = blocks_[a].frozen(), frozen_b = blocks_[b].frozen();
    return frozen_a != frozen_b ? frozen_b : blocks_[a].elements > blocks_[b].elements;
  });
  std::vector<int64_t> load(servers, 0);
  for (uint32_t id : by_size) {
    const auto emptiest = std::min_element(load.begin(), load.end());
    *emptiest += blocks_[id].elements;
    blocks_[id].server = static_cast<uint32_t>(emptiest - load.begin());
  }

  for (uint32_t id = 0; id < blocks_.size(); ++id) {
    of_server_[blocks_[id].server].push_back(id);
    norm_index_.push_back(norm_chunks_);
    if (blocks_[id].kind == ParameterKind::kTrainable) norm_chunks_ += blocks_[id].chunks();
  }
}

int64_t BlockTable::server_elements(uint32_t server) const {
  int64_t sum = 0;
  for (uint32_t id : of_server_[server]) sum += blocks_[id].elements;
  return sum;
}

}  // namespace dtrain::ps
