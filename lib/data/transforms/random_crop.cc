// A part of an image at a random place, after a margin of zeros was added all around.
//
//   { type = "random_crop", size = 32, pad = 4 }      size also [height, width]; pad is 0 unless told
//
// Words of the stream: 0 the first row, 1 the first column.
#include "data/transform.h"

namespace dtrain::data {
namespace {

class RandomCrop final : public Transform {
 public:
  RandomCrop(config::Pair size, int64_t pad) : size_(size), pad_(pad) {}

  bool random() const override { return true; }
  ImageShape shape_after(const ImageShape& before) const override { return {before.channels, size_[0], size_[1]}; }

  Status apply(Image& image, const Philox& stream) const override {
    const int64_t rows = image.shape.height + 2 * pad_, columns = image.shape.width + 2 * pad_;
    DTRAIN_TRY(check_at_least({image.shape.channels, rows, columns}, size_[0], size_[1]));
    const int64_t top = uniform_below(stream.at(0), rows - size_[0] + 1) - pad_;
    const int64_t left = uniform_below(stream.at(1), columns - size_[1] + 1) - pad_;
    image = crop(image, top, left, size_[0], size_[1]);
    return {};
  }

 private:
  config::Pair size_;
  int64_t pad_;
};

std::unique_ptr<Transform> make_random_crop(config::TableReader& table, const ImageShape& before) {
  const config::Pair size = table.require_pair("size", 1, kMaxExtent);
  const int64_t pad = table.integer("pad", 0, 0, kMaxExtent);
  if (before.fixed())
    expect_at_least(table, {before.channels, before.height + 2 * pad, before.width + 2 * pad}, size[0], size[1]);
  return std::make_unique<RandomCrop>(size, pad);
}

const TransformRegistration kRegistration("random_crop", make_random_crop);

}  // namespace
}  // namespace dtrain::data
