// Images before transforms make them all of one size, and the dataset that they become. What a reader of an image
// format gives. After it is made nothing about a source changes: const methods are thread-safe.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "data/dataset.h"
#include "data/image.h"
#include "data/transform_list.h"

namespace dtrain::data {

class ImageSource {
 public:
  virtual ~ImageSource() = default;
  virtual int64_t size() const = 0;
  virtual const LabelSpec& labels() const = 0;
  virtual int64_t max_label() const = 0;
  virtual std::span<const std::string> label_names() const { return {}; }
  virtual Status read(const Draw& draw, Image& image, LabelOut label) const = 0;
  virtual std::string name(int64_t index) const = 0;  // in messages: a file, a sample
  virtual Digest digest() const = 0;
};

// Samples of shape `sample`; an image that is not of that shape after the transforms is an error when it is read.
std::unique_ptr<Dataset> make_image_dataset(std::unique_ptr<const ImageSource> source, TransformList transforms,
                                            Shape sample);

}  // namespace dtrain::data
