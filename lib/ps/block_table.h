// How parameters are cut into chunks and blocks, and which shard server owns each block: a pure function of the
// parameters and the number of servers, the same on every task.
#pragma once

#include <cstdint>
#include <vector>

#include "ps/row_space.h"
#include "tensor/parameter.h"

namespace dtrain::ps {

using dtrain::kBlockChunks;
using dtrain::kChunkElements;
// The nodes of blocks up to this size (64 KiB) are pushed without an offer.
constexpr int64_t kPushedElements = 16'384;

struct Block {
  ParameterIndex parameter = 0;
  int64_t first = 0;  // first element within the parameter
  int64_t elements = 0;
  uint32_t server = 0;  // index among the servers, not a rank
  ParameterKind kind = ParameterKind::kTrainable;

  bool frozen() const { return kind == ParameterKind::kFrozen; }
  bool pushed() const { return elements <= kPushedElements; }
  uint32_t chunks() const { return static_cast<uint32_t>((elements + kChunkElements - 1) / kChunkElements); }
  uint32_t all_chunks() const { return (uint32_t{1} << chunks()) - 1; }  // a bit for each
  int64_t chunk_elements(uint32_t chunk) const {
    const int64_t left = elements - chunk * kChunkElements;
    return left < kChunkElements ? left : kChunkElements;
  }
};

// Immutable. Sparse tables have no blocks, but rows. Block ids are indices into blocks(), in the order of the
// parameters (the forward pass).
class BlockTable {
 public:
  // Blocks go, largest first, each to the server that holds the fewest bytes (the lowest index among equals), so that
  // the fullest holds at most one block more than the emptiest. Frozen ones go after all others: where anything moves,
  // server 0 holds some of it.
  BlockTable(std::vector<ParameterInfo> parameters, uint32_t servers);

  const std::vector<ParameterInfo>& parameters() const { return parameters_; }
  const RowSpace& rows() const { return rows_; }
  const std::vector<Block>& blocks() const { return blocks_; }
  const Block& block(uint32_t id) const { return blocks_[id]; }
  uint32_t servers() const { return servers_; }
  // Ids of the blocks of one server, and of one parameter, ascending.
  const std::vector<uint32_t>& of_server(uint32_t server) const { return of_server_[server]; }
  const std::vector<uint32_t>& of_parameter(ParameterIndex parameter) const {
    return of_parameter_[static_cast<size_t>(parameter)];
  }
  int64_t server_elements(uint32_t server) const;
  // Trainable chunks over all blocks in table order: the grid on which norms are summed.
  uint32_t norm_chunks() const { return norm_chunks_; }
  // Place of a trainable block's first chunk in that grid.
  uint32_t norm_index(uint32_t block) const { return norm_index_[block]; }

 private:
  std::vector<ParameterInfo> parameters_;
  RowSpace rows_;
  std::vector<Block> blocks_;
  uint32_t servers_;
  std::vector<std::vector<uint32_t>> of_server_, of_parameter_;
  std::vector<uint32_t> norm_index_;
  uint32_t norm_chunks_ = 0;
};

}  // namespace dtrain::ps
