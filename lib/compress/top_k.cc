// "topk": the sender adds each value to a residual, sends the largest of |residual| exactly, a share `ratio` of each
// chunk, and keeps the rest (Aji and Heafield 2017; Stich et al. 2018, with memory).
#include "compress/chunk_statistics.h"
#include "compress/method.h"
#include "compress/sparse.h"

namespace dtrain::compress {
namespace {

class TopK final : public Method {
 public:
  explicit TopK(double ratio) : ratio_(ratio) {}
  const Codec& codec() const override { return sparse_codec(); }
  size_t state_arrays() const override { return 1; }
  size_t most_bytes(size_t n) const override { return sparse_bytes(sparse_count(n, ratio_)); }
  size_t encode(const EncodeContext&, std::span<const float> values, float* const* state,
                MutableByteSpan out) const override {
    const size_t n = values.size();
    float* const r = state[0];
    add_to_residual(r, values.data(), n);
    const std::vector<uint16_t> places = largest({r, n}, sparse_count(n, ratio_));
    const size_t bytes = write_sparse(places, r, out);
    for (const uint16_t i : places) r[i] = 0;
    return bytes;
  }

 private:
  const double ratio_;
};

std::unique_ptr<Method> make(config::TableReader& reader, const MethodSetting&) {
  const double ratio = reader.number("ratio", 0.01, 1e-5, 0.5);
  return std::make_unique<TopK>(ratio);
}

[[maybe_unused]] const bool registered = MethodRegistry::instance().add("topk", make);

}  // namespace
}  // namespace dtrain::compress
