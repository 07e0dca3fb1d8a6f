// A set of samples with their labels, addressed by index. What a reader of a file format gives, and what samplers and
// batches take. After it is made nothing about it changes: const methods are thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "base/file_system.h"
#include "base/result.h"
#include "base/sha256.h"
#include "config/table_reader.h"
#include "tensor/dtype.h"
#include "tensor/shape.h"

namespace dtrain::data {

enum class LabelKind {
  kClass,             // one class a sample
  kClassPerPosition,  // a class at each place of a shape: pixels, tokens
  kValues,            // numbers to come near to
};

struct LabelSpec {
  LabelKind kind = LabelKind::kClass;
  Shape shape;  // of one sample's label; [] for kClass

  DType dtype() const { return kind == LabelKind::kValues ? DType::kF32 : DType::kI32; }
  bool operator==(const LabelSpec&) const = default;
};

// Where one sample's label goes: the one that fits the kind, with as many elements as the label's shape.
struct LabelOut {
  std::span<int32_t> classes;
  std::span<float> values;
};

class Dataset {
 public:
  virtual ~Dataset() = default;
  virtual int64_t size() const = 0;               // at least 1
  virtual const Shape& sample_shape() const = 0;  // without batch, channels first
  virtual const LabelSpec& labels() const = 0;
  virtual int64_t max_label() const = 0;  // the largest class that occurs, −1 for kValues
  // 0 ≤ index < size(); `sample` has sample_shape().elements(), scaled and normalised.
  virtual Status read(int64_t index, std::span<float> sample, LabelOut label) const = 0;
  // Identifies format, options and content: two datasets with one digest give the same floats.
  virtual Digest digest() const = 0;
};

struct DatasetContext {
  const FileSystem& files;
  Shape network_input;  // one sample as the network takes it
};

// What [data.train] or [data.test] says: the samples, and whether their order is a permutation in each epoch.
struct DataSource {
  std::unique_ptr<Dataset> dataset;
  bool shuffle = true;
};

// Reads the whole table, finish() included, and opens what it names. Mistakes go to the reader's diagnostics: ones of
// the configuration under ExitCode::kUsage, ones of the data under kData at the key that names the file. `dataset` is
// null exactly where the diagnostics hold an error afterwards.
DataSource open_data(config::TableReader& table, const DatasetContext& context);

}  // namespace dtrain::data
