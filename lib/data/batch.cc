#include "data/batch.h"

#include <cstring>

#include "base/check.h"

namespace dtrain::data {
namespace {

void ensure(Buffer& buffer, int64_t bytes) {
  if (buffer.size() != static_cast<size_t>(bytes)) buffer = Buffer(static_cast<size_t>(bytes));
}

}  // namespace

BatchFill::BatchFill(const Dataset& dataset, const Sampler& sampler, const BatchRequest& request, Batch& batch)
    : dataset_(dataset),
      seed_(sampler.seed()),
      request_(request),
      batch_(batch),
      indices_(static_cast<size_t>(request.valid)),
      sample_size_(static_cast<size_t>(dataset.sample_shape().elements())),
      label_size_(static_cast<size_t>(dataset.labels().shape.elements())) {
  DTRAIN_CHECK(request.valid >= 1 && request.valid <= request.size, "{} of {}", request.valid, request.size);
  DTRAIN_CHECK(sampler.size() == dataset.size(), "{} and {}", sampler.size(), dataset.size());
  ensure(batch.samples, request.size * static_cast<int64_t>(sample_size_ * size_of(dataset.sample_dtype())));
  ensure(batch.labels, request.size * static_cast<int64_t>(label_size_ * size_of(dataset.labels().dtype())));
  batch.size = request.size;
  batch.valid = request.valid;
  sampler.indices(request.first, indices_);
}

Status BatchFill::read(size_t i) const {
  SampleOut sample;
  if (dataset_.sample_dtype() == DType::kI32)
    sample.tokens = batch_.samples.as<int32_t>().subspan(i * sample_size_, sample_size_);
  else
    sample.values = batch_.samples.as<float>().subspan(i * sample_size_, sample_size_);
  LabelOut label;
  if (dataset_.labels().kind == LabelKind::kValues)
    label.values = batch_.labels.as<float>().subspan(i * label_size_, label_size_);
  else
    label.classes = batch_.labels.as<int32_t>().subspan(i * label_size_, label_size_);
  return dataset_.read({indices_[i], request_.first + static_cast<int64_t>(i), seed_}, sample, label);
}

void BatchFill::finish() const {
  const auto size = static_cast<size_t>(request_.size);
  const auto repeat_first = [&](Buffer& buffer) {
    const size_t bytes = buffer.size() / size;
    for (size_t i = indices_.size(); i < size; ++i) std::memcpy(buffer.data() + i * bytes, buffer.data(), bytes);
  };
  repeat_first(batch_.samples);
  repeat_first(batch_.labels);
}

Status fill_batch(const Dataset& dataset, const Sampler& sampler, const BatchRequest& request, Batch& batch) {
  const BatchFill fill(dataset, sampler, request, batch);
  for (size_t i = 0; i < fill.samples(); ++i) DTRAIN_TRY(fill.read(i));
  fill.finish();
  return {};
}

}  // namespace dtrain::data
