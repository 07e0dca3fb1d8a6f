#include "worker/engine/row_lookup.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace dtrain::worker {
namespace {

size_t aligned(size_t bytes) { return (bytes + Buffer::kAlignment - 1) / Buffer::kAlignment * Buffer::kAlignment; }

size_t table_bytes(const graph::Network& network, ParameterIndex p, int64_t samples) {
  const int64_t width = network.parameters()[static_cast<size_t>(p)].shape[1];
  return aligned(static_cast<size_t>(network.rows_used(p, samples) * width) * sizeof(float));
}

}  // namespace

size_t RowLookup::bytes(const graph::Network& network, int64_t samples, bool gradients) {
  size_t bytes = 0;
  for (size_t p = 0; p < network.parameters().size(); ++p)
    if (network.parameters()[p].kind == ParameterKind::kSparse)
      bytes += table_bytes(network, static_cast<ParameterIndex>(p), samples) * (gradients ? 2 : 1);
  return bytes;
}

RowLookup::RowLookup(const graph::Network& network, const ps::RowSpace& space, int64_t samples, bool gradients)
    : network_(network),
      space_(space),
      samples_(samples),
      memory_(bytes(network, samples, gradients)),
      tokens_(network.lookups().size()),
      places_(network.lookups().size()) {
  memory_.zero();  // what no row was put into is read by nobody, but is no chance value either
  std::byte* at = memory_.data();
  for (const ps::RowSpace::Table& t : space.tables()) {
    for (std::vector<float*>* of : {&values_, &gradients_}) {
      if (of == &gradients_ && !gradients) continue;
      of->push_back(reinterpret_cast<float*>(at));
      at += table_bytes(network, t.parameter, samples);
    }
  }
  for (size_t l = 0; l < places_.size(); ++l) {
    places_[l].resize(static_cast<size_t>(samples) * network.lookups()[l].places.size());
    lookups_.push_back(places_[l].data());
  }
}

Status RowLookup::tokens_of(const graph::TableLookup& lookup, const void* samples, int64_t valid,
                            std::vector<int64_t>& out) const {
  const ParameterInfo& table = network_.parameters()[static_cast<size_t>(lookup.table)];
  const bool whole = network_.input_dtype() == DType::kI32;
  const int64_t size = network_.input().elements(), rows = table.shape[0];
  out.clear();
  for (int64_t s = 0; s < valid; ++s) {
    for (const int32_t place : lookup.places) {
      const int64_t i = s * size + place;
      const double token = whole ? static_cast<const int32_t*>(samples)[i] : static_cast<const float*>(samples)[i];
      if (!(token >= 0 && token < static_cast<double>(rows)) || token != std::floor(token))
        return fail(ExitCode::kData, fmt::format("a sample holds {} at place {}, where '{}' has the rows 0 … {}", token,
                                                 place, table.name, rows - 1));
      out.push_back(static_cast<int64_t>(token));
    }
  }
  return {};
}

Status RowLookup::find(const void* samples, int64_t valid) {
  rows_.clear();
  for (size_t l = 0; l < tokens_.size(); ++l) DTRAIN_TRY(tokens_of(network_.lookups()[l], samples, valid, tokens_[l]));
  std::vector<int64_t> used;
  for (const ps::RowSpace::Table& t : space_.tables()) {
    used.clear();
    for (size_t l = 0; l < tokens_.size(); ++l)
      if (network_.lookups()[l].table == t.parameter) used.insert(used.end(), tokens_[l].begin(), tokens_[l].end());
    std::sort(used.begin(), used.end());
    used.erase(std::unique(used.begin(), used.end()), used.end());
    for (const int64_t row : used) rows_.push_back(t.first + static_cast<uint64_t>(row));
    for (size_t l = 0; l < tokens_.size(); ++l) {
      if (network_.lookups()[l].table != t.parameter) continue;
      std::vector<int32_t>& places = places_[l];
      for (size_t i = 0; i < tokens_[l].size(); ++i)
        places[i] = static_cast<int32_t>(std::lower_bound(used.begin(), used.end(), tokens_[l][i]) - used.begin());
      std::fill(places.begin() + static_cast<ptrdiff_t>(tokens_[l].size()), places.end(), 0);
    }
  }
  return {};
}

}  // namespace dtrain::worker
