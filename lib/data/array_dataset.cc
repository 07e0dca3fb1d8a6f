#include "data/array_dataset.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/check.h"

namespace dtrain::data {
namespace {

class ArrayDataset final : public Dataset {
 public:
  ArrayDataset(Array samples, Array labels, ArrayOptions options, LabelSpec spec, int64_t size, int64_t max_label)
      : samples_(std::move(samples)),
        labels_(std::move(labels)),
        options_(std::move(options)),
        spec_(std::move(spec)),
        size_(size),
        max_label_(max_label) {
    sample_shape_ = Shape({samples_.shape.dims().begin() + 1, samples_.shape.dims().end()});
    const int64_t channels = sample_shape_.rank() == 0 ? 1 : sample_shape_[0];
    channel_size_ = channels == 0 ? 0 : sample_shape_.elements() / channels;
  }

  int64_t size() const override { return size_; }
  const Shape& sample_shape() const override { return sample_shape_; }
  DType sample_dtype() const override { return options_.token_classes > 0 ? DType::kI32 : DType::kF32; }
  const LabelSpec& labels() const override { return spec_; }
  int64_t max_label() const override { return max_label_; }

  Status read(const Draw& draw, SampleOut sample, LabelOut label) const override {
    const int64_t index = draw.index;
    DTRAIN_CHECK(index >= 0 && index < size_, "sample {} of {}", index, size_);
    const int64_t n = sample_shape_.elements();
    if (sample_dtype() == DType::kI32) {
      DTRAIN_CHECK(static_cast<int64_t>(sample.tokens.size()) == n, "{}", sample.tokens.size());
      convert(samples_, index * n, sample.tokens);
    } else {
      DTRAIN_CHECK(static_cast<int64_t>(sample.values.size()) == n, "{}", sample.values.size());
      convert(samples_, index * n, sample.values);
      DTRAIN_TRY(check_finite(samples_, index, sample.values));
      normalise(sample.values);
    }
    const int64_t count = spec_.shape.elements();
    if (spec_.kind == LabelKind::kValues) {
      DTRAIN_CHECK(static_cast<int64_t>(label.values.size()) == count, "{}", label.values.size());
      convert(labels_, index * count, label.values);
      return check_finite(labels_, index, label.values);
    }
    DTRAIN_CHECK(static_cast<int64_t>(label.classes.size()) == count, "{}", label.classes.size());
    convert(labels_, index * count, label.classes);
    return {};
  }

  Digest digest() const override {
    // The options are told by their bits, so that no rounding of decimals hides a difference.
    Sha256 hash;
    hash.update(fmt::format("array {} {} ", size_, to_string(sample_shape_)));
    if (sample_dtype() == DType::kI32) hash.update("tokens ");
    hash.update(ByteSpan(std::as_bytes(std::span(samples_.digest))));
    hash.update(ByteSpan(std::as_bytes(std::span(labels_.digest))));
    hash.update(ByteSpan(std::as_bytes(std::span(&options_.scale, 1))));
    hash.update(fmt::format(" {} ", options_.mean.size()));
    hash.update(ByteSpan(std::as_bytes(std::span(options_.mean))));
    hash.update(fmt::format(" {} ", options_.std.size()));
    hash.update(ByteSpan(std::as_bytes(std::span(options_.std))));
    return hash.finish();
  }

 private:
  static Status check_finite(const Array& array, int64_t index, std::span<const float> values) {
    if (is_integer(array.type)) return {};
    for (size_t i = 0; i < values.size(); ++i)
      if (!std::isfinite(values[i]))
        return fail(ExitCode::kData, fmt::format("'{}': number {} of sample {} is {}, which is not a finite number",
                                                 array.path, i, index, values[i]));
    return {};
  }

  void normalise(std::span<float> sample) const {
    if (options_.scale != 1.0f)
      for (float& x : sample) x *= options_.scale;
    if (options_.mean.empty() && options_.std.empty()) return;
    const auto by_channel = [](const std::vector<float>& list, size_t channel, float none) {
      return list.empty() ? none : list[list.size() == 1 ? 0 : channel];
    };
    const auto width = static_cast<size_t>(channel_size_);
    for (size_t channel = 0; (channel + 1) * width <= sample.size() && width > 0; ++channel) {
      const float mean = by_channel(options_.mean, channel, 0), deviation = by_channel(options_.std, channel, 1);
      for (float& x : sample.subspan(channel * width, width)) x = (x - mean) / deviation;
    }
  }

  Array samples_, labels_;
  ArrayOptions options_;
  LabelSpec spec_;
  int64_t size_, max_label_, channel_size_ = 0;
  Shape sample_shape_;
};

// The largest number among the first `count` of `array`, each of which must be in 0 … classes − 1; `width` of them make
// a sample. 0 classes: as many as a label can say.
Result<int64_t> check_classes(const Array& array, int64_t count, int64_t width, int64_t classes, const char* what) {
  const int64_t last = classes > 0 ? classes - 1 : std::numeric_limits<int32_t>::max();
  int64_t largest = -1;
  std::vector<int64_t> piece(4096);
  for (int64_t at = 0; at < count; at += static_cast<int64_t>(piece.size())) {
    const auto part =
        std::span(piece).first(static_cast<size_t>(std::min<int64_t>(count - at, static_cast<int64_t>(piece.size()))));
    convert(array, at, part);
    for (size_t i = 0; i < part.size(); ++i) {
      largest = std::max(largest, part[i]);
      if (part[i] >= 0 && part[i] <= last) continue;
      const int64_t place = at + static_cast<int64_t>(i);
      const std::string where = width == 1 ? "" : fmt::format(", number {} of them,", place % width);
      return fail(ExitCode::kData,
                  fmt::format("'{}': {} {}{} is {}, which is not a class{}", array.path, what, place / width, where,
                              part[i], classes > 0 ? fmt::format(" of the network's (0 … {})", last) : ""));
    }
  }
  return largest;
}

std::vector<float> read_by_channel(config::TableReader& table, const char* key, const Shape& sample_shape) {
  std::vector<double> values;
  for (double v : table.numbers(key)) values.push_back(v);
  const size_t channels = sample_shape.rank() == 0 ? 1 : static_cast<size_t>(sample_shape[0]);
  if (table.has(key) && values.size() != 1 && values.size() != channels)
    table.error(key, fmt::format("{} has {} numbers, the samples of shape {} have {} channels", key, values.size(),
                                 to_string(sample_shape), channels));
  return {values.begin(), values.end()};
}

}  // namespace

ArrayOptions ArrayOptions::read(config::TableReader& table, bool bytes, const Shape& sample_shape,
                                const DatasetContext& context) {
  ArrayOptions options;
  options.token_classes = context.token_classes;
  options.label_classes = context.label_classes;
  if (options.token_classes > 0)
    for (const char* key : {"scale", "mean", "std"})
      if (table.has(key)) table.error(key, fmt::format("{} is for numbers; the network reads tokens", key));
  options.scale = static_cast<float>(table.number("scale", bytes ? 1.0 / 255.0 : 1.0));
  options.mean = read_by_channel(table, "mean", sample_shape);
  options.std = read_by_channel(table, "std", sample_shape);
  if (std::any_of(options.std.begin(), options.std.end(), [](float s) { return !(s > 0); }))
    table.error("std", "std must be above 0: samples are divided by it");
  table.also_known("limit");
  if (table.has("limit")) options.limit = table.integer("limit", 0, 1);
  return options;
}

Result<std::unique_ptr<Dataset>> make_array_dataset(Array samples, Array labels, ArrayOptions options) {
  DTRAIN_CHECK(samples.shape.rank() >= 1 && labels.shape.rank() >= 1);
  if (samples.shape.elements() == 0)
    return fail(ExitCode::kData, fmt::format("'{}': there are no samples", samples.path));
  if (samples.shape[0] != labels.shape[0])
    return fail(ExitCode::kData, fmt::format("'{}': there are {} samples, but {} labels", labels.path, samples.shape[0],
                                             labels.shape[0]));
  if (labels.shape.elements() == 0)
    return fail(ExitCode::kData, fmt::format("'{}': the labels are empty", labels.path));
  const int64_t size = options.limit > 0 ? std::min(options.limit, samples.shape[0]) : samples.shape[0];
  const int64_t width = samples.shape.elements() / samples.shape[0];
  if (options.token_classes > 0) {
    if (!is_integer(samples.type))
      return fail(ExitCode::kData,
                  fmt::format("'{}' holds floats, but the network reads tokens: save them as integers", samples.path));
    DTRAIN_TRY(check_classes(samples, size * width, width, options.token_classes, "sample"));
  }
  LabelSpec spec;
  spec.shape = Shape({labels.shape.dims().begin() + 1, labels.shape.dims().end()});
  int64_t max_label = -1;
  if (is_integer(labels.type)) {
    spec.kind = spec.shape.rank() == 0 ? LabelKind::kClass : LabelKind::kClassPerPosition;
    DTRAIN_TRY_ASSIGN(max_label, check_classes(labels, size * spec.shape.elements(), spec.shape.elements(),
                                               options.label_classes, "label"));
  } else {
    spec.kind = LabelKind::kValues;
  }
  return std::make_unique<ArrayDataset>(std::move(samples), std::move(labels), std::move(options), std::move(spec),
                                        size, max_label);
}

Array no_labels(const Array& samples) {
  Array labels;
  labels.shape = Shape{samples.shape[0]};
  labels.storage = Buffer(static_cast<size_t>(samples.shape[0]));
  labels.storage.zero();
  return labels;
}

void report(config::TableReader& table, std::string_view key, const Error& error) {
  table.error(key, fmt::format("{}: {}", key, error.message), error.code);
}

}  // namespace dtrain::data
