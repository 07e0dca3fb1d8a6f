// Which norms a step needs before anything of it is applied. They come in rounds: in each the servers send one
// NormPartial with sums of squares by chunk, and the coordinator answers all with a NormFactor. Pure.
#pragma once

#include <cstdint>
#include <vector>

#include "optim/optimizer.h"

namespace dtrain::ps {

enum class NormOf : uint8_t {
  kGradient,   // the sum over micro-batches, before any division
  kValues,     // of the version that the step begins with
  kDirection,  // Optimizer::prepare
};

// What is measured in each round. What is made of the gradient comes after the round whose factor scales that.
using NormRounds = std::vector<std::vector<NormOf>>;

inline NormRounds norm_rounds(bool clips, optim::NormNeed need) {
  NormRounds rounds;
  switch (need) {
    case optim::NormNeed::kNone:
      if (clips) rounds.push_back({NormOf::kGradient});
      break;
    case optim::NormNeed::kGradient:  // the norm of a clipped gradient follows from that of the gradient
      rounds.push_back({NormOf::kGradient, NormOf::kValues});
      break;
    case optim::NormNeed::kDirection:
      if (clips) rounds.push_back({NormOf::kGradient});
      rounds.push_back({NormOf::kDirection, NormOf::kValues});
      break;
  }
  return rounds;
}

}  // namespace dtrain::ps
