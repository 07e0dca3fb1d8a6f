#include "data/share_labels.h"

#include <fmt/format.h>

#include "base/check.h"

namespace dtrain::data {

ShareLabels::ShareLabels(std::unique_ptr<const Dataset> dataset, std::string source)
    : dataset_(std::move(dataset)), source_(std::move(source)) {
  DTRAIN_CHECK(dataset_->labels().kind == LabelKind::kValues);
}

Status ShareLabels::read(const Draw& draw, SampleOut sample, LabelOut label) const {
  DTRAIN_TRY(dataset_->read(draw, sample, label));
  for (size_t i = 0; i < label.values.size(); ++i)
    if (!(label.values[i] >= 0 && label.values[i] <= 1))
      return fail(ExitCode::kData, fmt::format("{}: number {} of the label of sample {} is {}; the loss "
                                               "sigmoid_cross_entropy takes labels from 0 to 1",
                                               source_, i, draw.index, label.values[i]));
  return {};
}

}  // namespace dtrain::data
