// A dataset whose labels are shares, numbers from 0 to 1: one that is not is an error when it is read.
#pragma once

#include <memory>
#include <string>

#include "data/dataset.h"

namespace dtrain::data {

class ShareLabels final : public Dataset {
 public:
  // `dataset` has labels of kind kValues; `source` names it in messages.
  ShareLabels(std::unique_ptr<const Dataset> dataset, std::string source);

  int64_t size() const override { return dataset_->size(); }
  const Shape& sample_shape() const override { return dataset_->sample_shape(); }
  DType sample_dtype() const override { return dataset_->sample_dtype(); }
  const LabelSpec& labels() const override { return dataset_->labels(); }
  int64_t max_label() const override { return dataset_->max_label(); }
  Status read(const Draw& draw, SampleOut sample, LabelOut label) const override;
  std::span<const std::string> label_names() const override { return dataset_->label_names(); }
  std::string preprocessing() const override { return dataset_->preprocessing(); }
  Digest digest() const override { return dataset_->digest(); }

 private:
  const std::unique_ptr<const Dataset> dataset_;
  const std::string source_;
};

}  // namespace dtrain::data
