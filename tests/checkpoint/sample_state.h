// A small training state that tests save and read back: values are functions of the step, so that steps differ.
#pragma once

#include <string>
#include <vector>

#include "checkpoint/checkpoint_folder.h"
#include "checkpoint/logical_reader.h"

namespace dtrain::checkpoint {

struct SampleState {
  explicit SampleState(int64_t at_step) : step(at_step) {
    for (int i = 0; i < 10; ++i) weight.push_back(static_cast<float>(100 * step + i));
    for (int i = 0; i < 10; ++i) momentum.push_back(static_cast<float>(-100 * step - i));
    mean = {0.5 + static_cast<double>(step), 2};
  }

  // Server `server` of `servers`: the weight is cut into blocks of three elements, dealt in turn; the statistic lies on
  // the last.
  std::vector<ShardBlock> blocks_of(int64_t server, int64_t servers) const {
    std::vector<ShardBlock> blocks;
    for (int64_t first = 0, n = 0; first < 10; first += 3, ++n) {
      if (n % servers != server) continue;
      const auto count = static_cast<size_t>(std::min<int64_t>(3, 10 - first));
      const auto part = [&](const std::vector<float>& v) {
        return std::as_bytes(std::span(v).subspan(static_cast<size_t>(first), count));
      };
      blocks.push_back({"fc@1.weight", first, DType::kF32, part(weight), {{"momentum#", part(momentum)}}});
    }
    if (server == servers - 1) blocks.push_back({"bn.mean", 0, DType::kF64, std::as_bytes(std::span(mean)), {}});
    return blocks;
  }

  Manifest manifest(std::vector<ManifestFile> files) const {
    Manifest m;
    m.program = "0.1.0";
    m.step = step;
    m.micro_batches = 4;
    m.threads = 1;
    m.seed = ~uint64_t{0};
    m.run_name = "sample";
    m.run_digest = "abc";
    m.config = "name = \"sämple\"\n";
    m.parameters = {{"bn.mean", Shape{2}, DType::kF64, ParameterKind::kStatistic},
                    {"fc@1.weight", Shape{2, 5}, DType::kF32, ParameterKind::kParameter}};
    m.slots = {"momentum#"};
    m.files = std::move(files);
    return m;
  }

  Status save(CheckpointFolder& folder, int64_t servers) const {
    std::vector<ManifestFile> files;
    for (int64_t s = 0; s < servers; ++s) {
      DTRAIN_TRY_ASSIGN(ManifestFile file, folder.write_shard(step, s, blocks_of(s, servers)));
      files.push_back(std::move(file));
    }
    return folder.commit(manifest(std::move(files)));
  }

  // Whether a checkpoint is this state to the last bit.
  bool is_in(const LogicalReader& reader) const {
    std::vector<float> w(10), m(10);
    std::vector<double> b(2);
    return reader.read("fc@1.weight", "", 0, std::as_writable_bytes(std::span(w))) &&
           reader.read("fc@1.weight", "momentum#", 0, std::as_writable_bytes(std::span(m))) &&
           reader.read("bn.mean", "", 0, std::as_writable_bytes(std::span(b))) && w == weight && m == momentum &&
           b == mean;
  }

  int64_t step;
  std::vector<float> weight, momentum;
  std::vector<double> mean;
};

}  // namespace dtrain::checkpoint
