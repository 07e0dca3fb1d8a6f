// The norms of one step, from the servers' partial sums, and what the coordinator answers to each round. Sums go over
// the chunks in the order of the block table, so that the bits do not depend on which server holds which. One thread.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "proto-free-wire/messages/norm_factor.h"
#include "proto-free-wire/messages/norm_partial.h"
#include "ps/block_table.h"
#include "ps/norm_rounds.h"

namespace dtrain::cluster {

struct NormRules {
  ps::NormRounds rounds;            // empty: the servers need no norms
  std::optional<double> clip_norm;  // the largest norm of the whole gradient
  // Optimizer::ratio; empty where no optimizer asks.
  std::function<double(const ParameterInfo& parameter, double values, double other)> ratio;
};

class NormSum {
 public:
  // All outlive it. `micro_batches`: K, which the gradients have not been divided by.
  NormSum(const ps::BlockTable& table, const NormRules& rules, uint32_t micro_batches);

  // How many numbers this server's partial sums of a round are; 0: it has nothing to say.
  static size_t expected(const ps::BlockTable& table, const NormRules& rules, uint32_t server, uint32_t round);
  // Whether all servers have now said what belongs to the round under way. Of an earlier round nothing is taken.
  bool add(uint32_t server, const wire::NormPartial& partial);
  // REQUIRES that add() said so. Goes on to the next round.
  wire::NormFactor answer(int64_t step);

  // Of the mean gradient, before clipping; once it is known.
  std::optional<double> gradient_norm() const { return gradient_norm_; }
  // Set where a sum is not finite: nothing can be made of it.
  bool broken() const { return broken_; }

 private:
  void begin_round();
  std::vector<double> by_parameter(size_t quantity) const;

  const ps::BlockTable& table_;
  const NormRules& rules_;
  const uint32_t micro_batches_;
  uint32_t round_ = 0;
  size_t missing_ = 0;                     // servers
  std::vector<bool> said_;                 // by server
  std::vector<std::vector<double>> grid_;  // by what is measured: squares of all trainable chunks
  double factor_ = 1.0;
  std::optional<double> gradient_norm_;
  bool broken_ = false;
};

}  // namespace dtrain::cluster
