// The middle of an image; where what is left over is odd, the upper and left margin is the smaller one.
//
//   { type = "center_crop", size = 224 }      or [height, width]
#include "data/transform.h"

namespace dtrain::data {
namespace {

class CenterCrop final : public Transform {
 public:
  explicit CenterCrop(config::Pair size) : size_(size) {}

  ImageShape shape_after(const ImageShape& before) const override { return {before.channels, size_[0], size_[1]}; }

  Status apply(Image& image, const Philox&) const override {
    DTRAIN_TRY(check_at_least(image.shape, size_[0], size_[1]));
    image = crop(image, (image.shape.height - size_[0]) / 2, (image.shape.width - size_[1]) / 2, size_[0], size_[1]);
    return {};
  }

 private:
  config::Pair size_;
};

std::unique_ptr<Transform> make_center_crop(config::TableReader& table, const ImageShape& before) {
  const config::Pair size = table.require_pair("size", 1, kMaxExtent);
  expect_at_least(table, before, size[0], size[1]);
  return std::make_unique<CenterCrop>(size);
}

const TransformRegistration kRegistration("center_crop", make_center_crop);

}  // namespace
}  // namespace dtrain::data
