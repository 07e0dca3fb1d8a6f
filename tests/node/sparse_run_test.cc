// Whole runs with tables of which servers keep only the rows that are used.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "checkpoint/logical_reader.h"
#include "checkpoint/model_file.h"
#include "node/evaluate.h"
#include "node/predict.h"
#include "tests/node/solo.h"

namespace dtrain::node {
namespace {

using testing::HasSubstr;

// Two tables, one of them for two layers, on tokens; a third of a part of the sample only.
const std::string kTokens = R"(
name = "sparse"
seed = 7
[data.train]
format = "synthetic"
samples = 40
vocab = 30
[data.test]
format = "synthetic"
samples = 13
vocab = 30
seed = 5
[train]
batch = 12
micro_batch = 4
threads = 1
steps = 8
log_every = 1
checkpoint_every = 0
[optimizer]
type = "sgd"
lr = 0.5
[network]
input = [6]
layers = [
  { name = "tok", type = "embedding", vocab = 60, dim = 5, sparse = true },
  { name = "again", type = "embedding", inputs = ["input"], vocab = 60, dim = 5, sparse = true, params.weight.share = "tok.weight" },
  { name = "last", type = "slice", inputs = ["input"], begin = -1 },
  { name = "wide", type = "embedding", vocab = 30, dim = 3, sparse = true },
  { name = "one", type = "reshape", shape = [3] },
  { name = "units", type = "linear", units = 30 },
  { name = "up", type = "reshape", shape = [6, 5] },
  { name = "sum", type = "add", inputs = ["tok", "again", "up"] },
  { name = "norm", type = "layer_norm" },
  { name = "fc", type = "linear", units = 30 },
  { type = "softmax_cross_entropy" },
]
)";

std::string dense(std::string text) {
  for (size_t at; (at = text.find(", sparse = true")) != std::string::npos;) text.erase(at, 15);
  return text;
}

std::vector<nlohmann::json> steps_of(const std::string& out) {
  std::vector<nlohmann::json> found;
  for (const std::string& line : lines_of(out + "/metrics.jsonl")) {
    nlohmann::json json = nlohmann::json::parse(line);
    if (!json.contains("event")) found.push_back(std::move(json));
  }
  return found;
}

struct Table {
  std::vector<int64_t> rows;
  std::vector<float> values;
};

class SparseRunTest : public testing::Test {
 protected:
  std::string out(const std::string& name) const { return folder_.path() + "/" + name; }
  SoloResult train(const std::string& text, const std::string& name, const std::vector<std::string>& set = {},
                   const SoloOptions& options = {}) {
    const RunDefinition run = folder_.open(text, set);
    const SoloResult result = train_solo(run, out(name), folder_.files, options);
    if (options.interrupt_after < 0) {
      EXPECT_EQ(result.code, ExitCode::kDone) << result.said;
    }
    return result;
  }
  std::string model(const std::string& name) const { return out(name) + "/model.safetensors"; }
  Table table(const std::string& run, const std::string& name) const {
    const auto reader = checkpoint::SafetensorsReader::open(folder_.files, model(run));
    EXPECT_TRUE(reader) << reader.error().message;
    const auto *rows = reader->find(name + ".rows"), *values = reader->find(name + ".values");
    Table table;
    if (!rows || !values) return table;
    table.rows.resize(static_cast<size_t>(rows->shape[0]));
    table.values.resize(static_cast<size_t>(values->shape.elements()));
    EXPECT_TRUE(reader->read(*rows, 0, std::as_writable_bytes(std::span(table.rows))));
    EXPECT_TRUE(reader->read(*values, 0, std::as_writable_bytes(std::span(table.values))));
    return table;
  }
  Result<RunDefinition> read(const std::string& text, const std::vector<std::string>& set = {}) {
    return folder_.read(text, set);
  }
  RunFolder folder_;
};

// A sum over micro-batches without the zeros of those that did not use a row is the same number, and an SGD step by
// zero moves nothing: so a run is the same to the last bit, whether its tables are sparse or not.
TEST_F(SparseRunTest, IsTheSameAsTheDenseOneToTheLastBit) {
  train(kTokens, "sparse");
  train(dense(kTokens), "dense");
  const auto a = steps_of(out("sparse")), b = steps_of(out("dense"));
  ASSERT_EQ(a.size(), 8u);
  ASSERT_EQ(b.size(), 8u);
  for (size_t s = 0; s < a.size(); ++s) EXPECT_EQ(a[s]["loss"], b[s]["loss"]) << s;

  const auto whole = checkpoint::SafetensorsReader::open(folder_.files, model("dense"));
  ASSERT_TRUE(whole);
  const RunDefinition run = folder_.open(kTokens);
  for (const auto& [name, width, parameter] : {std::tuple{"tok.weight", 5, 0}, {"wide.weight", 3, 1}}) {
    std::vector<float> values(static_cast<size_t>(whole->find(name)->shape.elements())), initial(values.size());
    ASSERT_TRUE(whole->read(*whole->find(name), 0, std::as_writable_bytes(std::span(values))));
    run.network->initialize(parameter, run.spec.seed, 0, initial);
    EXPECT_NE(initial, values) << name << " has learnt nothing";
    const Table kept = table("sparse", name);
    EXPECT_FALSE(kept.rows.empty());
    EXPECT_LT(kept.rows.size() * static_cast<size_t>(width), values.size()) << "a row that no sample has is not kept";
    for (size_t i = 0; i < kept.rows.size(); ++i)
      std::copy_n(kept.values.begin() + static_cast<ptrdiff_t>(i) * width, width,
                  initial.begin() + kept.rows[i] * width);
    EXPECT_EQ(initial, values) << name;
  }
}

TEST_F(SparseRunTest, InterruptedAndResumedIsBitForBitTheSame) {
  for (const std::string optimizer : {"adam", "adagrad", "rmsprop", "adadelta"}) {
    const std::vector<std::string> set{"optimizer.type=" + optimizer, "optimizer.lr=0.01"};
    train(kTokens, "whole" + optimizer, set);
    EXPECT_EQ(train(kTokens, "parts" + optimizer, set, {.interrupt_after = 3}).code, ExitCode::kInterrupted);
    train(kTokens, "parts" + optimizer, set, {.resume = true});
    EXPECT_EQ(bytes_of(model("parts" + optimizer)), bytes_of(model("whole" + optimizer)));
    const auto hash = [&](const std::string& name) {
      const auto reader =
          checkpoint::LogicalReader::open(folder_.files, out(name + optimizer) + "/checkpoints/step-00000008");
      EXPECT_TRUE(reader) << reader.error().message;
      const auto file = checkpoint::SafetensorsReader::open(folder_.files, model(name + optimizer));
      EXPECT_EQ(to_hex(*checkpoint::model_hash(*reader)), to_hex(*checkpoint::model_hash(*file)));
      return to_hex(*checkpoint::state_hash(*reader));
    };
    EXPECT_EQ(hash("parts"), hash("whole"));
  }
}

TEST_F(SparseRunTest, BeginsWithAGivenModel) {
  train(kTokens, "first");
  train(kTokens, "second", {"train.steps=1", "optimizer.lr=1e-30"}, {.init_model = model("first")});
  EXPECT_EQ(table("second", "tok.weight").values, table("first", "tok.weight").values);
  EXPECT_EQ(table("second", "wide.weight").rows, table("first", "wide.weight").rows);
  const RunDefinition other = folder_.open(kTokens, {});
  train(dense(kTokens), "dense");
  const SoloResult refused = train_solo(other, out("third"), folder_.files, {.init_model = model("dense")});
  EXPECT_EQ(refused.code, ExitCode::kUsage);
  EXPECT_THAT(refused.said, HasSubstr("tok.weight"));
}

// What the run says of the test data is what the model says that it left, and the checkpoint.
TEST_F(SparseRunTest, IsEvaluatedFromItsFiles) {
  train(kTokens, "out");
  double loss = -1;
  for (const std::string& line : lines_of(out("out") + "/metrics.jsonl"))
    if (const auto json = nlohmann::json::parse(line); json.value("event", "") == "eval") loss = json["loss"];
  const RunDefinition run = folder_.open(kTokens);
  const auto file = checkpoint::SafetensorsReader::open(folder_.files, model("out"));
  const auto checkpoint = checkpoint::LogicalReader::open(folder_.files, out("out") + "/checkpoints/step-00000008");
  ASSERT_TRUE(file && checkpoint);
  const ParameterSource source = [&](const ParameterInfo& p, std::span<float> into) {
    return checkpoint::read_model_tensor(*file, p.name, DType::kF32, p.shape, std::as_writable_bytes(into));
  };
  for (const auto& rows : {RowSource::of(*file), RowSource::of(*checkpoint)}) {
    const auto metrics = evaluate(run, *run.test, 4, source, 1, rows.get());
    ASSERT_TRUE(metrics) << metrics.error().message;
    EXPECT_NEAR(metrics->mean_loss(), loss, 1e-9) << "the sum over batches goes along a tree in a run";
    int64_t answers = 0;
    const Status predicted = predict(
        run, *run.test, 5, source,
        [&](int64_t, std::span<const float>) {
          ++answers;
          return Status();
        },
        rows.get());
    ASSERT_TRUE(predicted) << predicted.error().message;
    EXPECT_EQ(answers, 13);
  }
}

// 10^8 rows of 16 numbers, 6.4 GB with no optimizer's state; what is touched is some kilobytes.
TEST_F(SparseRunTest, TrainsTablesThatNoMemoryHolds) {
  std::string text = kTokens;
  text.replace(text.find("vocab = 60, dim = 5"), 19, "vocab = 2000000000, dim = 5");
  text.replace(text.find("vocab = 60, dim = 5"), 19, "vocab = 2000000000, dim = 5");
  train(text, "out", {"optimizer.type=adam", "optimizer.lr=0.01"});
  EXPECT_LE(table("out", "tok.weight").rows.size(), 30u);
}

// Numbers and tokens in one sample: it arrives as floats.
TEST_F(SparseRunTest, TakesTokensFromAmongNumbers) {
  std::string csv = "x,c,d,y\n";
  for (int i = 0; i < 24; ++i) csv += fmt::format("{},{},{},{}\n", i * 0.1, "abc"[i % 3], "uvwx"[i % 4], i % 2);
  folder_.write("train.csv", csv);
  const std::string text = R"(
[data.train]
format = "csv"
file = "train.csv"
label = { column = "y", type = "class" }
columns = [{ name = "x" }, { name = "c", type = "category", encode = "index" }, { name = "d", type = "category", encode = "index" }]
[train]
batch = 8
steps = 6
threads = 1
log_every = 1
[optimizer]
lr = 0.1
[network]
input = [3]
layers = [
  { name = "x", type = "slice", end = 1 },
  { name = "cs", type = "slice", inputs = ["input"], begin = 1, end = 2 },
  { name = "c", type = "embedding", vocab = 3, dim = 2, sparse = true },
  { name = "ds", type = "slice", inputs = ["input"], begin = 2 },
  { name = "d", type = "embedding", vocab = 4, dim = 2, sparse = true },
  { name = "cf", type = "flatten", inputs = ["c"] },
  { name = "df", type = "flatten", inputs = ["d"] },
  { name = "all", type = "concat", inputs = ["x", "cf", "df"] },
  { name = "fc", type = "linear", units = 2 },
  { type = "softmax_cross_entropy" },
]
)";
  EXPECT_EQ(folder_.open(text).network->input_dtype(), DType::kF32);
  EXPECT_EQ(folder_.open(kTokens).network->input_dtype(), DType::kI32);
  train(text, "sparse");
  train(dense(text), "dense");
  const auto a = steps_of(out("sparse")), b = steps_of(out("dense"));
  ASSERT_EQ(a.size(), 6u);
  for (size_t s = 0; s < a.size(); ++s) EXPECT_EQ(a[s]["loss"], b[s]["loss"]) << s;
  // A category that the table has no row for.
  std::string small = text;
  small.replace(small.find("vocab = 4"), 9, "vocab = 3");
  const SoloResult refused = train_solo(folder_.open(small), out("small"), folder_.files);
  EXPECT_EQ(refused.code, ExitCode::kData);
  EXPECT_THAT(refused.said, HasSubstr("'d.weight' has the rows 0 … 2"));
}

TEST_F(SparseRunTest, WhatDoesNotGoTogetherIsSaidAtOnce) {
  for (const auto& [set, part] :
       std::vector<std::pair<std::string, std::string>>{{"optimizer.clip_norm=1", "'clip_norm'"},
                                                        {"optimizer.type=lamb", "lars, lamb"},
                                                        {"train.ema=0.5", "'ema'"},
                                                        {"train.consistency=async", "'async'"},
                                                        {"train.compression=fp16", "compression of gradients"}}) {
    const auto run = read(kTokens, {set});
    ASSERT_FALSE(run) << set;
    EXPECT_EQ(run.error().code, ExitCode::kUsage);
    EXPECT_THAT(run.error().message, HasSubstr(part + ""));
    EXPECT_THAT(run.error().message, HasSubstr("sparse tables such as 'tok.weight'"));
  }
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string text = kTokens;
    text.replace(text.find(from), from.size(), to);
    const auto run = read(text);
    EXPECT_FALSE(run) << to;
    return run ? "" : run.error().message;
  };
  EXPECT_THAT(with("inputs = [\"input\"], begin = -1", "inputs = [\"input\"], begin = -1, activation = \"relu\""),
              HasSubstr("must be the sample or a part of it"));
  EXPECT_THAT(
      with("vocab = 30, dim = 3, sparse = true", "vocab = 30, dim = 3, sparse = true, params.weight.frozen = true"),
      HasSubstr("leave 'frozen' or 'sparse' out"));
  EXPECT_THAT(with("vocab = 30, dim = 3, sparse = true",
                   "vocab = 30, dim = 3, sparse = true, params.weight.init = \"orthogonal\""),
              HasSubstr("not 'orthogonal'"));
  EXPECT_THAT(with("vocab = 60, dim = 5, sparse = true, params", "vocab = 60, dim = 5, params"),
              HasSubstr("'tok.weight' is a sparse table"));
  EXPECT_THAT(with("dim = 3, sparse = true", "dim = 70000, sparse = true"), HasSubstr("dim"));
}

}  // namespace
}  // namespace dtrain::node
