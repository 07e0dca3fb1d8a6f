// Which share of a chunk top-k and DGC send: `ratio`, to which it falls from 25 % in the first `warmup` steps of the
// run, geometrically (Lin et al. 2018). While a network still changes fast, what waits is soon wrong: without a warm-up
// a learning rate and momentum that train well uncompressed diverge.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "compress/method.h"
#include "config/table_reader.h"

namespace dtrain::compress {

class Sparsity {
 public:
  // Keys `ratio` and `warmup`. Versions that are encoded know no steps: with Use::kParameters `warmup` is refused, and
  // 0.
  Sparsity(config::TableReader& reader, double default_ratio, MethodSetting::Use use);

  double ratio(const EncodeContext& c) const;
  // An upper bound of ratio(), for whatever step.
  double most() const;
  // What it is after the warm-up.
  double last() const { return ratio_; }

 private:
  double ratio_;
  std::optional<int64_t> warmup_;  // empty: a quarter of the run, at most four epochs, which are the paper's
};

}  // namespace dtrain::compress
