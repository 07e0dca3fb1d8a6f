// The key `transforms` of formats whose samples all have one shape, where that is [channels, height, width]. Immutable
// until wrap() takes it up.
#pragma once

#include <memory>

#include "data/dataset.h"
#include "data/transform_list.h"

namespace dtrain::data {

class ImageTransforms {
 public:
  static ImageTransforms read(config::TableReader& table, const Shape& sample, const DatasetContext& context);
  // The dataset with its samples transformed; itself where there are no transforms. Null after an error: labels by
  // position do not follow what is done to the image.
  std::unique_ptr<Dataset> wrap(std::unique_ptr<Dataset> dataset, config::TableReader& table);

 private:
  TransformList transforms_;
};

}  // namespace dtrain::data
