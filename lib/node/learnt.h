// What a model carries of its training data, beside its parameters: how samples are prepared, and what the classes are
// called. In the metadata of checkpoints and model files; not part of a model's hash. Plain data.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "checkpoint/safetensors.h"
#include "data/dataset.h"

namespace dtrain::node {

struct Learnt {
  static constexpr const char* kPreprocessing = "dtrain.preprocessing";
  static constexpr const char* kClasses = "dtrain.classes";

  std::string preprocessing;         // Dataset::preprocessing()
  std::vector<std::string> classes;  // Dataset::label_names()

  static Learnt of(const data::Dataset& training);
  // Of a model that was made elsewhere: nothing. The error (kCheckpoint) is the bare reason.
  static Result<Learnt> from(const checkpoint::Metadata& metadata);
  checkpoint::Metadata metadata() const;
};

}  // namespace dtrain::node
