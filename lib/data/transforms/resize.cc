// Bilinear resizing with antialiasing (data/bilinear.h). With one number the shorter side gets that length and the
// other follows, rounded down; with two, [height, width], both are given and the proportions change.
//
//   { type = "resize", size = 256 }       or [256, 320]
#include <algorithm>

#include "data/bilinear.h"
#include "data/transform.h"

namespace dtrain::data {
namespace {

class Resize final : public Transform {
 public:
  Resize(config::Pair size, bool shorter) : size_(size), shorter_(shorter) {}

  ImageShape shape_after(const ImageShape& before) const override {
    if (!shorter_) return {before.channels, size_[0], size_[1]};
    if (!before.fixed()) return {before.channels, 0, 0};
    const int64_t size = size_[0];
    if (before.height <= before.width) return {before.channels, size, size * before.width / before.height};
    return {before.channels, size * before.height / before.width, size};
  }

  Status apply(Image& image, const Philox&) const override {
    const ImageShape after = shape_after(image.shape);
    if (std::max(after.height, after.width) > kMaxExtent * 16)
      return fail(ExitCode::kData, "its sides differ so much that it would become too large");
    if (after != image.shape) image = resize_bilinear(image, after.height, after.width);
    return {};
  }

 private:
  config::Pair size_;
  bool shorter_;
};

std::unique_ptr<Transform> make_resize(config::TableReader& table, const ImageShape&) {
  const config::Value* size = table.value("size");
  return std::make_unique<Resize>(table.require_pair("size", 1, kMaxExtent), size && size->is_integer());
}

const TransformRegistration kRegistration("resize", make_resize);

}  // namespace
}  // namespace dtrain::data
