// Dot products over all trainable parameters, from what the servers measured of their chunks: added in the order of the
// block table, so that the bits do not depend on which server holds which. One thread.
#pragma once

#include <vector>

#include "proto-free-wire/messages/vector_dots.h"
#include "ps/block_table.h"

namespace dtrain::cluster {

class DotSum {
 public:
  explicit DotSum(const ps::BlockTable& table);

  // So many dots are measured from now on.
  void begin(size_t dots);
  // How many numbers of one dot this server has.
  size_t expected(uint32_t server) const { return chunks_[server].size(); }
  // False: it is none of those measured, or known.
  bool add(uint32_t server, const wire::VectorDots& m);
  bool complete() const { return missing_ == 0; }
  // REQUIRES complete().
  std::vector<double> sums() const;

 private:
  std::vector<std::vector<uint32_t>> chunks_;  // of each server: places in the grid of all
  uint32_t grid_ = 0;
  size_t missing_ = 0;                     // messages
  std::vector<std::vector<double>> dots_;  // by dot, by chunk
  std::vector<std::vector<bool>> known_;   // by dot, by server
};

}  // namespace dtrain::cluster
