// Samples that are made up when they are read, each a function of seed and index: for benchmarks, and for runs without
// files. Normal deviates with a class each, or, with `vocab`, tokens with a token to predict at each place.
//
//   [data.train]
//   format = "synthetic"
//   samples = 1024
//   classes = 10          or vocab = …
//   seed = 0
#include <fmt/format.h>

#include "base/check.h"
#include "base/philox.h"
#include "data/registry.h"

namespace dtrain::data {
namespace {

constexpr int64_t kMaxClasses = 1 << 30;

struct SyntheticOptions {
  int64_t samples = 1024;
  int64_t classes = 10;
  int64_t vocab = 0;  // 0: deviates and classes
  uint64_t seed = 0;
};

// Uniform in [0, n): the high half of word · n, uneven by less than n / 2^32.
int64_t below(uint32_t word, int64_t n) { return static_cast<int64_t>((word * static_cast<uint64_t>(n)) >> 32); }

// Calls f(i, word i) for n words of a stream.
template <typename F>
void for_words(const Philox& stream, size_t n, const F& f) {
  for (size_t i = 0; i < n; i += 4) {
    const Philox4 words = stream.group(i / 4);
    for (size_t k = 0; k < 4 && i + k < n; ++k) f(i + k, words[k]);
  }
}

class SyntheticDataset final : public Dataset {
 public:
  SyntheticDataset(SyntheticOptions options, Shape sample_shape, DType dtype)
      : options_(options), sample_shape_(std::move(sample_shape)), dtype_(dtype) {
    if (options_.vocab > 0) spec_ = {LabelKind::kClassPerPosition, sample_shape_};
  }

  int64_t size() const override { return options_.samples; }
  const Shape& sample_shape() const override { return sample_shape_; }
  DType sample_dtype() const override { return dtype_; }
  const LabelSpec& labels() const override { return spec_; }
  int64_t max_label() const override { return (options_.vocab > 0 ? options_.vocab : options_.classes) - 1; }

  Status read(const Draw& draw, SampleOut sample, LabelOut label) const override {
    const int64_t index = draw.index;
    const size_t n = dtype_ == DType::kI32 ? sample.tokens.size() : sample.values.size();
    DTRAIN_CHECK(index >= 0 && index < options_.samples, "sample {} of {}", index, options_.samples);
    DTRAIN_CHECK(static_cast<int64_t>(n) == sample_shape_.elements(), "{}", n);
    DTRAIN_CHECK(static_cast<int64_t>(label.classes.size()) == spec_.shape.elements(), "{}", label.classes.size());
    const auto stream = [&](std::string_view name) {
      return Philox(options_.seed, stream_id(name), static_cast<uint32_t>(index), static_cast<uint32_t>(index >> 32));
    };
    const int64_t vocab = options_.vocab;
    for_words(stream("synthetic/sample"), n, [&](size_t i, uint32_t word) {
      if (dtype_ == DType::kI32)
        sample.tokens[i] = static_cast<int32_t>(below(word, vocab));
      else
        sample.values[i] = vocab > 0 ? static_cast<float>(below(word, vocab)) : standard_normal(word);
    });
    for_words(stream("synthetic/label"), label.classes.size(), [&](size_t i, uint32_t word) {
      label.classes[i] = static_cast<int32_t>(below(word, vocab > 0 ? vocab : options_.classes));
    });
    return {};
  }

  Digest digest() const override {
    return sha256(fmt::format("synthetic {} {} {} {} {}", options_.samples, options_.classes, options_.vocab,
                              options_.seed, to_string(sample_shape_)));
  }

 private:
  SyntheticOptions options_;
  Shape sample_shape_;
  DType dtype_;
  LabelSpec spec_;
};

std::unique_ptr<Dataset> make_synthetic(config::TableReader& table, const DatasetContext& context) {
  SyntheticOptions options;
  options.samples = table.integer("samples", options.samples, 1);
  options.classes = table.integer("classes", options.classes, 1, kMaxClasses);
  table.also_known("vocab");
  if (table.has("vocab")) options.vocab = table.integer("vocab", 1, 1, kMaxClasses);
  if (options.vocab > 0 && table.has("classes") && options.classes != options.vocab)
    table.error("classes",
                fmt::format("with vocab the labels are tokens too: leave out classes, or make it {}", options.vocab));
  if (options.vocab > 0 && context.token_classes > 0 && options.vocab > context.token_classes)
    table.error("vocab", fmt::format("vocab is {}, but the network knows the tokens 0 … {}", options.vocab,
                                     context.token_classes - 1));
  options.seed = static_cast<uint64_t>(table.integer("seed", 0, 0));
  return std::make_unique<SyntheticDataset>(options, context.network_input,
                                            options.vocab > 0 && context.token_classes > 0 ? DType::kI32 : DType::kF32);
}

const DatasetRegistration kRegistration("synthetic", make_synthetic);

}  // namespace
}  // namespace dtrain::data
