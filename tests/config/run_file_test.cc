// Whole run files, as users write them, and what is left when single bytes of them go wrong.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/philox.h"
#include "config/canonical.h"
#include "config/load.h"
#include "config/network_spec.h"
#include "config/run_spec.h"
#include "tests/config/support.h"

namespace dtrain::config {
namespace {

const char* kTransformer = R"(name = "transformer"
seed = 7

[data.train]
format = "npy"
inputs = "x.npy"
labels = "y.npy"
shuffle = false

[train]
batch = 12
micro_batch = 3
steps = 4

[optimizer]
type = "adamw"
lr = 0.01
weight_decay = 0.01

[schedule]
type = "multistep"
milestones = [2, 5]
gamma = 0.1
warmup_steps = 3

[network]
input = [8]
layers = [
  { name = "tok", type = "embedding", vocab = 13, dim = 12 },
  { name = "pos", type = "position_embedding", length = 8 },
  { name = "blk", type = "gpt", repeat = 2, dim = 12 },
  { name = "lnf", type = "layer_norm" },   # a comment
  { name = "head", type = "linear", units = 13, bias = false },
  { name = "loss", type = "softmax_cross_entropy", label_smoothing = 0.1 },
]

[network.block.gpt]
args = { dim = 12 }
layers = [
  { name = "ln1", type = "layer_norm" },
  { name = "att", type = "attention", heads = 3, causal = true },
  { name = "r1", type = "add", inputs = ["att", "input"] },
  { name = "ln2", type = "layer_norm" },
  { name = "up", type = "linear", units = 48, activation = "gelu" },
  { name = "down", type = "linear", units = "$dim" },
  { name = "r2", type = "add", inputs = ["down", "r1"] },
]
)";

const char* kConvolutions = R"(
[data.train]
format = "idx"
images = "/usr/share/x.gz"
labels = "/usr/share/y.gz"
mean = [0.5]
std = [0.25]
[data.test]
format = "synthetic"
classes = 1000
[train]
batch = 64
threads = "auto"
epochs = 5
[optimizer]
type = "sgd"
lr = 1.0
clip_norm = 0.5
nesterov = true
[network]
input = [4, 11, 10]
layers = [
  { type = "conv2d", filters = 8, kernel = [3, 2], stride = 2, pad = [1, 0] },
  { type = "conv2d", filters = 6, kernel = 3, pad = "same" },
  { type = "lrn", size = 5, alpha = 0.001, beta = 0.75 },
  { name = "b1", type = "conv2d", filters = 4, kernel = 1, inputs = ["lrn1"] },
  { name = "b3", type = "conv2d", filters = 4, kernel = 3, pad = 1, inputs = ["lrn1"] },
  { name = "bp", type = "max_pool2d", kernel = 3, stride = 1, pad = 1, inputs = ["lrn1"] },
  { type = "concat", inputs = ["b1", "b3", "bp"] },
  { type = "linear", units = 16, activation = "leaky_relu" },
  { type = "lstm", units = 256, layers = 2 },
  { name = "loss", type = "softmax_cross_entropy", axis = 1 },
]
)";

// Reads everything there is to read; false where there is a mistake.
bool read_all(const std::string& text, RunSpec* run = nullptr, NetworkSpec* network = nullptr) {
  // Includes are never found: bytes gone wrong must not open files.
  const ReadFile none = [](const std::string&) -> Result<std::string> { return fail(ExitCode::kUsage, "gone"); };
  Result<Value> root = load_text(text, "run.toml", {}, none);
  if (!root) {
    EXPECT_EQ(root.error().code, ExitCode::kUsage);
    EXPECT_NE(root.error().message.find("error: "), std::string::npos) << root.error().message;
    return false;
  }
  Diagnostics diagnostics;
  RunSpec spec = read_run_spec(*root, diagnostics);
  NetworkSpec expanded = expand_network(spec.network, diagnostics);
  const std::string toml = effective_toml(*root);
  Result<Value> again = parse_toml(toml, "again.toml");
  EXPECT_EQ(again ? canonical_text(*again) : again.error().message, canonical_text(*root)) << toml;
  if (run) *run = std::move(spec);
  if (network) *network = std::move(expanded);
  return diagnostics.ok();
}

TEST(RunFile, Transformer) {
  RunSpec run;
  NetworkSpec network;
  ASSERT_TRUE(read_all(kTransformer, &run, &network));
  EXPECT_EQ(run.name, "transformer");
  EXPECT_EQ(run.train.micro_batch, 3);
  ASSERT_EQ(network.layers.size(), 19u);
  EXPECT_EQ(network.layers[9].name, "blk.1.ln1");
  EXPECT_EQ(network.layers[9].inputs, std::vector<std::string>{"blk.0.r2"});
  EXPECT_EQ(network.layers[14].table.find("units")->as_integer(), 12);
  EXPECT_EQ(network.layers[16].inputs, std::vector<std::string>{"blk.1.r2"});
}

TEST(RunFile, Convolutions) {
  RunSpec run;
  NetworkSpec network;
  ASSERT_TRUE(read_all(kConvolutions, &run, &network));
  EXPECT_EQ(run.name, "run");
  EXPECT_TRUE(run.data_test);
  EXPECT_EQ(network.layers[6].inputs, (std::vector<std::string>{"b1", "b3", "bp"}));
  EXPECT_EQ(network.layers[1].name, "conv2d2");
}

TEST(RunFile, WrongBytesNeverCrash) {
  const uint64_t seed = 20240607;
  int readable = 0;
  for (const std::string original : {kTransformer, kConvolutions}) {
    for (uint32_t round = 0; round < 2000; ++round) {
      const Philox random(seed, stream_id("bytes"), round, static_cast<uint32_t>(original.size()));
      std::string text = original;
      const uint32_t changes = 1 + random.at(0) % 4;
      for (uint32_t c = 0; c < changes; ++c) {
        const size_t at = random.at(1 + 3 * c) % text.size();
        const char byte = random.at(2 + 3 * c) % 2 ? static_cast<char>(random.at(3 + 3 * c))
                                                   : "[]{}=,.\"'#$\\\n0x-_:"[random.at(3 + 3 * c) % 18];
        switch (random.at(2 + 3 * c) / 2 % 3) {
          case 0:
            text[at] = byte;
            break;
          case 1:
            text.insert(at, 1, byte);
            break;
          default:
            text.erase(at, 1 + random.at(3 + 3 * c) % 40);
        }
      }
      SCOPED_TRACE("seed " + std::to_string(seed) + ", round " + std::to_string(round));
      readable += read_all(text);
    }
  }
  // Some changes hit a comment or a number; most do harm.
  EXPECT_GT(readable, 40);
  EXPECT_LT(readable, 3000);
}

}  // namespace
}  // namespace dtrain::config
