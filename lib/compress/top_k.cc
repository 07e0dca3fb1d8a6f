// "topk": the sender adds each value to a residual, sends the largest of |residual| exactly, a share `ratio` of each
// chunk, and keeps the rest (Aji and Heafield 2017; Stich et al. 2018, with memory). The momentum of SGD acts ahead of
// that, unless servers clip the norm of gradients: at the servers it acts for long on what is old when it comes, and
// diverges.
#include <cmath>
#include <optional>

#include "compress/chunk_statistics.h"
#include "compress/method.h"
#include "compress/sender_momentum.h"
#include "compress/sparse.h"
#include "compress/sparsity.h"

namespace dtrain::compress {
namespace {

class TopK final : public Method {
 public:
  TopK(Sparsity sparsity, std::optional<SenderMomentum> momentum) : sparsity_(sparsity), momentum_(momentum) {}
  const Codec& codec() const override { return sparse_codec(); }
  size_t state_arrays() const override { return momentum_ ? 2 : 1; }
  bool takes_momentum() const override { return momentum_.has_value(); }
  size_t most_bytes(size_t n) const override { return sparse_bytes(sparse_count(n, sparsity_.most())); }
  size_t lasting_bytes(size_t n) const override { return sparse_bytes(sparse_count(n, sparsity_.last())); }
  size_t encode(const EncodeContext& c, std::span<const float> values, float* const* state,
                MutableByteSpan out) const override {
    const size_t n = values.size();
    float* const r = state[0];
    if (momentum_) {
      momentum_->add(c, 1, values, state[1], r);
    } else {
      add_to_residual(r, values.data(), n);
    }
    const std::vector<uint16_t> places = largest({r, n}, sparse_count(n, sparsity_.ratio(c)));
    const size_t bytes = write_sparse(places, r, out);
    for (const uint16_t i : places) {
      if (momentum_ && !std::isfinite(r[i])) state[1][i] = 0;
      r[i] = 0;
    }
    return bytes;
  }

 private:
  const Sparsity sparsity_;
  const std::optional<SenderMomentum> momentum_;
};

std::unique_ptr<Method> make(config::TableReader& reader, const MethodSetting& setting) {
  return std::make_unique<TopK>(Sparsity(reader, 0.01, setting.use), SenderMomentum::of(setting));
}

[[maybe_unused]] const bool registered = MethodRegistry::instance().add("topk", make);

}  // namespace
}  // namespace dtrain::compress
