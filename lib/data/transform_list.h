// The transforms of a data set in their order, as the key `transforms` of [data.train] or [data.test] lists them:
//
//   transforms = [{ type = "random_crop", size = 32, pad = 4 }, { type = "horizontal_flip" }]
//
// Immutable; apply() is thread-safe.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "data/dataset.h"
#include "data/transform.h"

namespace dtrain::data {

class TransformList {
 public:
  // Of images of the given shape; mistakes go to the diagnostics. Random ones are for training data only.
  static TransformList read(config::TableReader& table, const ImageShape& images, const DatasetContext& context);

  bool empty() const { return items_.empty(); }
  const ImageShape& shape() const { return shape_; }  // after all of them
  const std::string& text() const { return text_; }   // the same for the same list
  // The error is the bare reason.
  Status apply(Image& image, const Draw& draw) const;

 private:
  struct Item {
    std::unique_ptr<const Transform> transform;
    std::string type;
    uint32_t stream = 0;
  };
  std::vector<Item> items_;
  ImageShape shape_;
  std::string text_;
};

}  // namespace dtrain::data
