#include "data/image_source.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"

namespace dtrain::data {
namespace {

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
    if (image.shape != ImageShape{shape_[0], shape_[1], shape_[2]})
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

}  // namespace

std::unique_ptr<Dataset> make_image_dataset(std::unique_ptr<const ImageSource> source, TransformList transforms,
                                            Shape sample) {
  return std::make_unique<ImageDataset>(std::move(source), std::move(transforms), std::move(sample));
}

}  // namespace dtrain::data
