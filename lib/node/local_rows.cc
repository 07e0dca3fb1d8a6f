#include "node/local_rows.h"

#include <algorithm>

#include "node/sparse_tables.h"

namespace dtrain::node {

LocalRows::LocalRows(const RunDefinition& run, int64_t batch)
    : space_(run.network->parameters(), 1),
      store_(space_, 0, initial_rows(run)),
      lookup_(*run.network, space_, batch, false) {}

Result<std::unique_ptr<LocalRows>> LocalRows::load(const RunDefinition& run, const RowSource* source, int64_t batch,
                                                   std::vector<const float*>& values) {
  std::unique_ptr<LocalRows> local(new LocalRows(run, batch));
  if (local->space_.empty()) return nullptr;
  DTRAIN_CHECK(source, "the rows of sparse tables come from nowhere");
  RowLoading loading(local->space_, run.network->parameters(), *source, {});
  for (bool more = true; more;) {
    DTRAIN_TRY_ASSIGN(
        more, loading.load_some([&](uint64_t row, std::span<const float> row_values,
                                    std::span<const std::span<const float>>) { local->store_.load(row, row_values); }));
  }
  local->store_.start(0);
  for (size_t t = 0; t < local->space_.tables().size(); ++t)
    values[static_cast<size_t>(local->space_.tables()[t].parameter)] = local->lookup_.values()[t];
  return local;
}

Status LocalRows::look_up(int64_t valid, graph::Feed& feed) {
  DTRAIN_TRY(lookup_.find(feed.samples, valid));
  values_.resize(space_.elements(lookup_.rows()));
  store_.read(lookup_.rows(), 0, values_.data());
  const float* at = values_.data();
  space_.for_tables(lookup_.rows(), [&](size_t t, size_t begin, size_t end) {
    const size_t n = (end - begin) * static_cast<size_t>(space_.tables()[t].width);
    std::copy_n(at, n, lookup_.values()[t]);
    at += n;
  });
  feed.lookups = lookup_.lookups();
  return {};
}

}  // namespace dtrain::node
