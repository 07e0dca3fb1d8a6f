// Made-up advertisements, for networks that look categories up in large tables: numbers, then one category a column,
// and whether it was clicked, which both have a part in. Few categories are frequent and many rare; each is a function
// of seed and index, and whether it is clicked of weights that every number and category has.
//
//   [data.train]
//   format = "clicks"
//   samples = 100000
//   numbers = 13                  normal deviates, first in the sample
//   categories = [1000000, 500]   how many there are in each column
//   first = 0                     the first sample's index: others for a test of the same weights
//   seed = 0
#include <fmt/format.h>

#include "base/check.h"
#include "base/philox.h"
#include "data/registry.h"

namespace dtrain::data {
namespace {

constexpr int64_t kWholeFloats = int64_t{1} << 24;

struct ClickOptions {
  int64_t samples = 0, numbers = 0, first = 0;
  std::vector<int64_t> categories;
  uint64_t seed = 0;
  bool classes = false;  // labels are classes, else numbers
  DType dtype = DType::kF32;

  int64_t width() const { return numbers + static_cast<int64_t>(categories.size()); }
};

class ClickDataset final : public Dataset {
 public:
  ClickDataset(ClickOptions options, Shape shape) : options_(std::move(options)), shape_(std::move(shape)) {
    labels_.kind = options_.classes ? LabelKind::kClass : LabelKind::kValues;
  }

  int64_t size() const override { return options_.samples; }
  const Shape& sample_shape() const override { return shape_; }
  DType sample_dtype() const override { return options_.dtype; }
  const LabelSpec& labels() const override { return labels_; }
  int64_t max_label() const override { return options_.classes ? 1 : -1; }

  Status read(const Draw& draw, SampleOut sample, LabelOut label) const override {
    DTRAIN_CHECK(draw.index >= 0 && draw.index < options_.samples, "sample {} of {}", draw.index, options_.samples);
    const auto index = static_cast<uint64_t>(options_.first + draw.index);
    const Philox random(options_.seed, stream_id("clicks/sample"), static_cast<uint32_t>(index),
                        static_cast<uint32_t>(index >> 32));
    const auto numbers = static_cast<size_t>(options_.numbers);
    float sum = standard_normal(random.at(0));  // what is behind it, as far as nobody can know
    for (size_t i = 0; i < numbers; ++i) {
      const float x = standard_normal(random.at(1 + i));
      sample.values[i] = x;
      sum += 0.5f * x * weight(0, i);
    }
    for (size_t c = 0; c < options_.categories.size(); ++c) {
      const int64_t category = draw_category(random.at(1 + numbers + c), options_.categories[c]);
      if (options_.dtype == DType::kI32)
        sample.tokens[numbers + c] = static_cast<int32_t>(category);
      else
        sample.values[numbers + c] = static_cast<float>(category);
      sum += weight(1 + c, static_cast<uint64_t>(category));
    }
    const bool clicked = sum > 0.0f;
    if (options_.classes)
      label.classes[0] = clicked ? 1 : 0;
    else
      label.values[0] = clicked ? 1.0f : 0.0f;
    return {};
  }

  Digest digest() const override {
    std::string text = fmt::format("clicks {} {} {} {} {} {}", options_.samples, options_.numbers, options_.first,
                                   options_.seed, options_.classes, options_.dtype == DType::kI32);
    for (int64_t n : options_.categories) text += fmt::format(" {}", n);
    return sha256(text);
  }

 private:
  // The fourth power of a uniform number, by multiplications alone: half of all draws are of the first sixteenth.
  static int64_t draw_category(uint32_t word, int64_t n) {
    const double u = static_cast<double>(word) * 0x1p-32;
    return static_cast<int64_t>(u * u * u * u * static_cast<double>(n));
  }
  float weight(uint64_t column, uint64_t which) const {
    const Philox random(options_.seed, stream_id("clicks/weight"), static_cast<uint32_t>(column), 0);
    return standard_normal(random.at(which));
  }

  ClickOptions options_;
  Shape shape_;
  LabelSpec labels_;
};

std::unique_ptr<Dataset> make_clicks(config::TableReader& table, const DatasetContext& context) {
  ClickOptions options;
  options.samples = table.require_integer("samples", 1);
  options.numbers = table.integer("numbers", 0, 0, kWholeFloats);
  options.categories = table.require_integers("categories", 1, std::numeric_limits<int32_t>::max());
  options.first = table.integer("first", 0, 0, int64_t{1} << 60);
  options.seed = static_cast<uint64_t>(table.integer("seed", 0, 0));
  options.classes = context.label_classes > 0;
  const bool tokens = context.token_classes > 0;
  options.dtype = tokens ? DType::kI32 : DType::kF32;
  if (!table.diagnostics().ok()) return nullptr;
  if (tokens && options.numbers > 0) {
    table.error("numbers", "the network looks all of its input up, so that 'numbers' must be 0");
    return nullptr;
  }
  for (int64_t n : options.categories)
    if (n > (tokens ? context.token_classes : kWholeFloats))
      table.error("categories", fmt::format("categories has a column of {}, but the network takes at most {}", n,
                                            tokens ? context.token_classes : kWholeFloats));
  if (context.network_input.elements() != options.width())
    table.error("categories",
                fmt::format("{} numbers and {} categories make samples of {}, but network.input is {}", options.numbers,
                            options.categories.size(), options.width(), to_string(context.network_input)));
  if (!table.diagnostics().ok()) return nullptr;
  return std::make_unique<ClickDataset>(std::move(options), context.network_input);
}

const DatasetRegistration kRegistration("clicks", make_clicks);

}  // namespace
}  // namespace dtrain::data
