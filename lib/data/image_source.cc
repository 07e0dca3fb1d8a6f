#include "data/image_source.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"

namespace dtrain::data {
namespace {

ImageShape image_shape(const Shape& shape) { return {shape[0], shape[1], shape[2]}; }

class ImageDataset final : public Dataset {
 public:
  ImageDataset(std::unique_ptr<const ImageSource> source, TransformList transforms, Shape shape)
      : source_(std::move(source)), transforms_(std::move(transforms)), shape_(std::move(shape)) {}

  int64_t size() const override { return source_->size(); }
  const Shape& sample_shape() const override { return shape_; }
  const LabelSpec& labels() const override { return source_->labels(); }
  int64_t max_label() const override { return source_->max_label(); }
  std::span<const std::string> label_names() const override { return source_->label_names(); }

  Status read(const Draw& draw, SampleOut sample, LabelOut label) const override {
    Image image;
    DTRAIN_TRY(source_->read(draw, image, label));
    if (Status done = transforms_.apply(image, draw); !done)
      return fail(ExitCode::kData, fmt::format("{}: {}", source_->name(draw.index), done.error().message));
    if (image.shape != image_shape(shape_))
      return fail(
          ExitCode::kData,
          fmt::format("{} has shape {}, the network's input is {}: give the data transforms that resize or crop",
                      source_->name(draw.index), to_string(image.shape), to_string(shape_)));
    DTRAIN_CHECK(sample.values.size() == image.values.size(), "{}", sample.values.size());
    std::copy(image.values.begin(), image.values.end(), sample.values.begin());
    return {};
  }

  Digest digest() const override {
    return sha256(fmt::format("images {} {} {}", to_hex(source_->digest()), to_string(shape_), transforms_.text()));
  }

 private:
  std::unique_ptr<const ImageSource> source_;
  TransformList transforms_;
  Shape shape_;
};

// A dataset of samples of one shape as a source.
class DatasetImages final : public ImageSource {
 public:
  explicit DatasetImages(std::unique_ptr<Dataset> dataset) : dataset_(std::move(dataset)) {}

  int64_t size() const override { return dataset_->size(); }
  const LabelSpec& labels() const override { return dataset_->labels(); }
  int64_t max_label() const override { return dataset_->max_label(); }
  std::span<const std::string> label_names() const override { return dataset_->label_names(); }
  std::string name(int64_t index) const override { return fmt::format("sample {}", index); }
  Digest digest() const override { return dataset_->digest(); }

  Status read(const Draw& draw, Image& image, LabelOut label) const override {
    image = make_image(image_shape(dataset_->sample_shape()));
    return dataset_->read(draw, {.values = image.values}, label);
  }

 private:
  std::unique_ptr<Dataset> dataset_;
};

}  // namespace

std::unique_ptr<Dataset> make_image_dataset(std::unique_ptr<const ImageSource> source, TransformList transforms,
                                            Shape sample) {
  return std::make_unique<ImageDataset>(std::move(source), std::move(transforms), std::move(sample));
}

ImageTransforms ImageTransforms::read(config::TableReader& table, const Shape& sample, const DatasetContext& context) {
  ImageTransforms out;
  table.also_known("transforms");
  if (!table.has("transforms")) return out;
  if (sample.rank() != 3) {
    table.error("transforms", fmt::format("transforms are for images [channels, height, width]; the samples are {}",
                                          to_string(sample)));
  } else if (context.token_classes > 0) {
    table.error("transforms", "transforms are for images; the network reads tokens");
  } else {
    out.transforms_ = TransformList::read(table, image_shape(sample), context);
  }
  return out;
}

std::unique_ptr<Dataset> ImageTransforms::wrap(std::unique_ptr<Dataset> dataset, config::TableReader& table) {
  if (transforms_.empty()) return dataset;
  if (dataset->labels().kind == LabelKind::kClassPerPosition) {
    table.error("transforms", "transforms would move the image, but not its labels, which are one for each position");
    return nullptr;
  }
  const ImageShape shape = transforms_.shape();
  return make_image_dataset(std::make_unique<DatasetImages>(std::move(dataset)), std::move(transforms_),
                            Shape{shape.channels, shape.height, shape.width});
}

}  // namespace dtrain::data
