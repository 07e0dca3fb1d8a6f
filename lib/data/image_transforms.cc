#include "data/image_transforms.h"

#include <fmt/format.h>

#include "data/image_source.h"

namespace dtrain::data {
namespace {

ImageShape image_shape(const Shape& shape) { return {shape[0], shape[1], shape[2]}; }

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
