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

// Which sample is read, and for which place of the run: what is random about it is drawn from (seed, number), so that
// it does not matter who reads it, when, or on how many threads.
struct Draw {
  int64_t index = 0;   // in the dataset
  int64_t number = 0;  // the run's global sample number, as Sampler counts them
  uint64_t seed = 0;   // of the run
};

// Where one sample goes: the one that fits Dataset::sample_dtype(), with as many elements as the sample's shape.
struct SampleOut {
  std::span<float> values;
  std::span<int32_t> tokens;
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
  // F32: numbers, scaled and normalised. I32: tokens, 0 … DatasetContext::token_classes − 1.
  virtual DType sample_dtype() const { return DType::kF32; }
  virtual const LabelSpec& labels() const = 0;
  // The largest class that occurs; −1 for kValues, and where that is not known before all is read: then read() refuses
  // what is not below DatasetContext::label_classes.
  virtual int64_t max_label() const = 0;
  // 0 ≤ draw.index < size(). Errors name the file and the place in it.
  virtual Status read(const Draw& draw, SampleOut sample, LabelOut label) const = 0;
  // The names of the classes 0 … that labels are; none where they have no names.
  virtual std::span<const std::string> label_names() const { return {}; }
  // What was learnt from these samples to prepare them, as text, for a data set of other samples to be prepared alike
  // (DatasetContext::preprocessing); "" where there is nothing to learn.
  virtual std::string preprocessing() const { return ""; }
  // Identifies format, options and content: two datasets with one digest give the same numbers.
  virtual Digest digest() const = 0;
};

struct DatasetContext {
  const FileSystem& files;         // outlives the datasets
  Shape network_input;             // one sample as the network takes it
  int64_t token_classes = 0;       // above 0: the network looks its sample up, as I32 classes below this
  int64_t label_classes = 0;       // above 0: labels are classes below this; 0: that is not known, or they are numbers
  std::string preprocessing = "";  // of the training data or of a model: to be applied, not learnt anew; "": learn
  bool training = true;            // [data.train]
  bool labelled = true;  // false: labels are not asked for, and a format that can do without need not have any
};

// What [data.train] or [data.test] says: the samples, whether their order is a permutation in each epoch, and how many
// threads read them ahead.
struct DataSource {
  std::unique_ptr<Dataset> dataset;
  bool shuffle = true;
  size_t threads = 1;
};

// Reads the whole table, finish() included, and opens what it names. Mistakes go to the reader's diagnostics: ones of
// the configuration under ExitCode::kUsage, ones of the data under kData at the key that names the file. `dataset` is
// null exactly where the diagnostics hold an error afterwards.
DataSource open_data(config::TableReader& table, const DatasetContext& context);

// The files and folders that the table names, without opening any: to look whether they are there, or to copy them.
// What is wrong with the table otherwise is passed over.
std::vector<config::TableReader::NamedPath> named_files(const config::Value& table);

}  // namespace dtrain::data
