#include "data/batch.h"

#include <cstring>
#include <vector>

#include "base/check.h"

namespace dtrain::data {
namespace {

void ensure(Buffer& buffer, int64_t bytes) {
  if (buffer.size() != static_cast<size_t>(bytes)) buffer = Buffer(static_cast<size_t>(bytes));
}

}  // namespace

Status fill_batch(const Dataset& dataset, const Sampler& sampler, const BatchRequest& request, Batch& batch) {
  DTRAIN_CHECK(request.valid >= 1 && request.valid <= request.size, "{} of {}", request.valid, request.size);
  DTRAIN_CHECK(sampler.size() == dataset.size(), "{} and {}", sampler.size(), dataset.size());
  const auto sample_size = static_cast<size_t>(dataset.sample_shape().elements());
  const auto label_size = static_cast<size_t>(dataset.labels().shape.elements());
  const size_t label_bytes = label_size * size_of(dataset.labels().dtype());
  const size_t sample_bytes = sample_size * size_of(dataset.sample_dtype());
  ensure(batch.samples, request.size * static_cast<int64_t>(sample_bytes));
  ensure(batch.labels, request.size * static_cast<int64_t>(label_bytes));
  batch.size = request.size;
  batch.valid = request.valid;

  std::vector<int64_t> indices(static_cast<size_t>(request.valid));
  sampler.indices(request.first, indices);
  for (size_t i = 0; i < indices.size(); ++i) {
    LabelOut label;
    if (dataset.labels().kind == LabelKind::kValues)
      label.values = batch.labels.as<float>().subspan(i * label_size, label_size);
    else
      label.classes = batch.labels.as<int32_t>().subspan(i * label_size, label_size);
    SampleOut sample;
    if (dataset.sample_dtype() == DType::kI32)
      sample.tokens = batch.samples.as<int32_t>().subspan(i * sample_size, sample_size);
    else
      sample.values = batch.samples.as<float>().subspan(i * sample_size, sample_size);
    DTRAIN_TRY(dataset.read({indices[i], request.first + static_cast<int64_t>(i), sampler.seed()}, sample, label));
  }
  for (size_t i = indices.size(); i < static_cast<size_t>(request.size); ++i) {
    std::memcpy(batch.samples.data() + i * sample_bytes, batch.samples.data(), sample_bytes);
    std::memcpy(batch.labels.data() + i * label_bytes, batch.labels.data(), label_bytes);
  }
  return {};
}

}  // namespace dtrain::data
