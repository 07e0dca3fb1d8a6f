// A dataset of two arrays in memory, samples and labels, whose first axis counts the samples. Elements stay in the type
// of their file, bytes as bytes, and become floats when they are read: x · scale, then (x − mean) / std by channel; or
// tokens, where the network wants them and they are integers.
#pragma once

#include <vector>

#include "data/array.h"
#include "data/dataset.h"

namespace dtrain::data {

// The keys that all such formats have: scale, mean, std, limit.
struct ArrayOptions {
  float scale = 1;
  std::vector<float> mean, std;  // none, one for all channels, or one a channel (the sample's first axis)
  int64_t limit = 0;             // use the first `limit` samples; 0: all
  int64_t token_classes = 0, label_classes = 0;  // as in DatasetContext

  // The default of `scale` is 1/255 where `bytes`. Also checks that mean and std fit to `sample_shape`, and refuses
  // them for tokens; mistakes go to the diagnostics.
  static ArrayOptions read(config::TableReader& table, bool bytes, const Shape& sample_shape,
                           const DatasetContext& context);
};

// Integer labels are classes, by sample or by position; floats are values. Errors (no samples, another number of labels
// than samples, a class or token that is negative or not below the network's) are ExitCode::kData and name the file.
Result<std::unique_ptr<Dataset>> make_array_dataset(Array samples, Array labels, ArrayOptions options);

// Class 0 for each of the samples, where labels are not asked for.
Array no_labels(const Array& samples);

// Where reading a file failed: the message at the key that names it, under the error's code.
void report(config::TableReader& table, std::string_view key, const Error& error);

}  // namespace dtrain::data
