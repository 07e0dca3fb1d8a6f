// Runs for tests, from the text of a run file, on files in a temporary folder.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <mutex>
#include <string>
#include <vector>

#include "base/file_system.h"
#include "base/log.h"
#include "node/run_definition.h"
#include "tests/temporary_directory.h"

namespace dtrain::node {

// Two layers, made-up samples, five micro-batches' worth of test data.
inline const std::string kMlp = R"(
name = "mlp"
seed = 7
[data.train]
format = "synthetic"
samples = 40
classes = 3
[data.test]
format = "synthetic"
samples = 18
classes = 3
seed = 5
[train]
batch = 8
micro_batch = 4
threads = 1
steps = 8
log_every = 1
checkpoint_every = 0
[optimizer]
type = "adam"
lr = 0.01
[network]
input = [6]
layers = [
  { name = "fc1", type = "linear", units = 9, activation = "relu" },
  { name = "fc2", type = "linear", units = 3 },
  { type = "softmax_cross_entropy" },
]
)";

// With statistics, random numbers and a parameter kept in another layout.
inline const std::string kConvNet = R"(
name = "conv"
[data.train]
format = "synthetic"
samples = 40
classes = 3
[data.test]
format = "synthetic"
samples = 10
classes = 3
[train]
batch = 12
micro_batch = 4
threads = 1
steps = 8
log_every = 1
checkpoint_every = 0
[optimizer]
type = "sgd"
lr = 0.05
momentum = 0.9
weight_decay = 0.001
clip_norm = 1.0
[schedule]
type = "cosine"
warmup_steps = 2
[network]
input = [2, 6, 6]
layers = [
  { name = "conv", type = "conv2d", filters = 5, kernel = 3, bias = false },
  { name = "bn", type = "batch_norm", activation = "relu" },
  { type = "dropout", rate = 0.3 },
  { type = "flatten" },
  { name = "fc", type = "linear", units = 3 },
  { type = "softmax_cross_entropy" },
]
)";

// Remembers what was said. Thread-safe.
class RememberingLog final : public Log {
 public:
  void write(LogLevel, std::string_view message) override {
    const std::lock_guard lock(mutex_);
    text_ += message;
    text_ += '\n';
  }
  std::string text() const {
    const std::lock_guard lock(mutex_);
    return text_;
  }

 private:
  mutable std::mutex mutex_;
  std::string text_;
};

class RunFolder {
 public:
  const std::string& path() const { return directory_.path(); }
  std::string write(const std::string& name, const std::string& text) const {
    const std::string file = path() + "/" + name;
    std::ofstream(file) << text;
    return file;
  }
  // The run file's definition without its data.
  Result<RunDefinition> read(const std::string& text, const std::vector<std::string>& set = {}) const {
    return RunDefinition::read(write("run.toml", text), set, RealFileSystem());
  }
  // With its data; what is wrong fails the test.
  RunDefinition open(const std::string& text, const std::vector<std::string>& set = {}) {
    Result<RunDefinition> run = read(text, set);
    EXPECT_TRUE(run) << run.error().message;
    const Status opened = run->open_data(files);
    EXPECT_TRUE(opened) << opened.error().message;
    return std::move(*run);
  }

  RealFileSystem files;

 private:
  TemporaryDirectory directory_;
};

// A file of numpy's format: `type` "<f4", `shape` "10, 4", the elements' bytes.
inline std::string npy_file(const std::string& type, const std::string& shape, const std::string& bytes) {
  std::string header = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}), }}", type, shape);
  header.resize(128 - 10 - 1, ' ');
  return std::string("\x93NUMPY\x01\x00\x76\x00", 10) + header + '\n' + bytes;
}
inline std::string bytes_of(const std::vector<float>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)};
}

inline std::vector<std::string> lines_of(const std::string& file) {
  std::ifstream in(file);
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

inline std::string bytes_of(const std::string& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

}  // namespace dtrain::node
