// What a server begins with, and that what it writes is what any other number of servers begins with.
#include "node/shard_loader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "checkpoint/checkpoint_folder.h"
#include "checkpoint/model_file.h"
#include "node/server_pool.h"
#include "tests/node/recording_outbox.h"
#include "tests/node/run_text.h"
#include "tests/node/written_shards.h"

namespace dtrain::node {
namespace {

using testing::HasSubstr;
using Values = std::vector<float>;

// 300,000 elements are two blocks.
const std::string kLarge = R"(
[data.train]
format = "synthetic"
classes = 5
[train]
batch = 4
micro_batch = 4
steps = 2
[optimizer]
type = "adam"
lr = 0.1
[network]
input = [100]
layers = [
  { name = "a", type = "linear", units = 3000 },
  { name = "n", type = "batch_norm" },
  { name = "b", type = "linear", units = 5 },
  { type = "softmax_cross_entropy" },
]
)";

// A state that is a function of the place, so that everything can be told apart: slot 0 is the value itself.
float state(ParameterIndex p, size_t slot, int64_t element) {
  return static_cast<float>(element % 100'003) + 0.125F * static_cast<float>(p) + 200'000.0F * static_cast<float>(slot);
}

class ShardLoaderTest : public testing::Test, protected ps::SnapshotSink {
 protected:
  ShardLoaderTest() : run_(folder_.open(kLarge)) {}

  ps::BlockTable table(uint32_t servers) const { return {run_.network->parameters(), servers}; }
  std::unique_ptr<ps::ShardServer> server(const ps::BlockTable& table, uint32_t index, ps::SnapshotSink& sink) {
    ps::ShardServerOptions options;
    options.pool_bytes = server_pool_bytes(1);
    return std::make_unique<ps::ShardServer>(table, index, std::move(options), *run_.optimizer.optimizer, outbox_,
                                             sink);
  }
  Status load(const ps::BlockTable& table, uint32_t index, const InitialState& from, ps::ShardServer& server) {
    DTRAIN_TRY_ASSIGN(const auto loader, ShardLoader::open(run_, table, index, from, folder_.files));
    bool more = true;
    for (slices_ = 0; more; ++slices_) {
      DTRAIN_TRY_ASSIGN(more, loader->load_some(server));
    }
    return {};
  }
  void order_snapshot(ps::ShardServer& server, int64_t version, const std::string& folder) {
    server.start(version);
    EXPECT_TRUE(server.on_message(0, wire::Snapshot{version, folder}));
  }
  void snapshot(const wire::Snapshot&, ps::ShardState state) override { states_.push_back(std::move(state)); }

  size_t elements(size_t p) const { return static_cast<size_t>(run_.network->parameters()[p].shape.elements()); }

  RunFolder folder_;
  RunDefinition run_;
  RecordingOutbox outbox_;
  std::vector<ps::ShardState> states_;
  int slices_ = 0;  // of the last load
};

TEST_F(ShardLoaderTest, DrawnFromTheSeedWhoeverHoldsWhat) {
  for (const uint32_t servers : {1U, 3U}) {
    const ps::BlockTable table = this->table(servers);
    ASSERT_EQ(table.of_parameter(0).size(), 2u);
    for (uint32_t s = 0; s < servers; ++s) {
      const auto shard = server(table, s, *this);
      ASSERT_TRUE(load(table, s, {}, *shard));
      for (const uint32_t id : table.of_server(s)) {
        const ps::Block& block = table.block(id);
        Values whole(elements(static_cast<size_t>(block.parameter)));
        run_.network->initialize(block.parameter, run_.spec.seed, 0, whole);
        const auto part =
            std::span(whole).subspan(static_cast<size_t>(block.first), static_cast<size_t>(block.elements));
        EXPECT_TRUE(std::ranges::equal(shard->values(id), part)) << id;
      }
    }
  }
}

class ModelFileTest : public ShardLoaderTest {
 protected:
  // Writes a model with `change` made to one tensor.
  std::string write(const std::function<void(checkpoint::ModelTensor&)>& change = {}) {
    std::vector<Values> values;
    std::vector<checkpoint::ModelTensor> tensors;
    for (size_t p = 0; p < run_.network->parameters().size(); ++p) {
      Values& v = values.emplace_back(elements(p));
      for (size_t e = 0; e < v.size(); ++e) v[e] = state(static_cast<ParameterIndex>(p), 0, static_cast<int64_t>(e));
    }
    for (size_t p = 0; p < values.size(); ++p) {
      const ParameterInfo& info = run_.network->parameters()[p];
      tensors.push_back({info.name, DType::kF32, info.shape, std::as_bytes(std::span(values[p]))});
      if (info.name == "b.weight" && change) change(tensors.back());
    }
    const std::string path = folder_.path() + "/model.safetensors";
    EXPECT_TRUE(checkpoint::write_model(folder_.files, path, tensors));
    return path;
  }
  Error error_of(const std::string& path) {
    const ps::BlockTable table = this->table(1);
    const auto shard = server(table, 0, *this);
    const Status status = load(table, 0, {"", path}, *shard);
    EXPECT_FALSE(status);
    return status ? Error{} : status.error();
  }
};

TEST_F(ModelFileTest, EveryServerReadsItsPart) {
  const std::string path = write();
  const ps::BlockTable table = this->table(3);
  for (uint32_t s = 0; s < 3; ++s) {
    const auto shard = server(table, s, *this);
    ASSERT_TRUE(load(table, s, {"", path}, *shard));
    for (const uint32_t id : table.of_server(s)) {
      const ps::Block& block = table.block(id);
      for (size_t e = 0; e < shard->values(id).size(); ++e)
        ASSERT_EQ(shard->values(id)[e], state(block.parameter, 0, block.first + static_cast<int64_t>(e)));
    }
  }
}

TEST_F(ModelFileTest, ATensorThatIsMissingOrDoesNotFit) {
  const Error missing = error_of(write([](checkpoint::ModelTensor& t) { t.name = "other"; }));
  EXPECT_EQ(missing.code, ExitCode::kUsage);
  EXPECT_THAT(missing.message, HasSubstr("wants b.weight as F32 [5, 3000], but the file does not have it"));
  const Error shape = error_of(write([](checkpoint::ModelTensor& t) { t.shape = Shape{3000, 5}; }));
  EXPECT_THAT(shape.message, HasSubstr("b.weight as F32 [5, 3000], but the file has F32 [3000, 5]"));
  const Error type = error_of(write([](checkpoint::ModelTensor& t) { t.dtype = DType::kI32; }));
  EXPECT_THAT(type.message, HasSubstr("but the file has I32"));
  EXPECT_THAT(error_of(folder_.path() + "/nowhere").message, HasSubstr("nowhere"));
}

TEST_F(ShardLoaderTest, ACheckpointOfAnyNumberOfServers) {
  const std::vector<std::string> slot_names = run_.optimizer.optimizer->slot_names();
  for (const auto& [writers, readers] : {std::pair(1U, 3U), {3U, 2U}, {2U, 1U}, {3U, 3U}}) {
    SCOPED_TRACE(testing::Message() << writers << " write, " << readers << " read");
    const std::string checkpoints = folder_.path() + "/checkpoints" + std::to_string(10 * writers + readers);
    const ps::BlockTable written = table(writers);
    NullLog log;
    checkpoint::CheckpointFolder folder(folder_.files, checkpoints, log);
    checkpoint::Manifest manifest;
    manifest.program = "test";
    manifest.step = 5;
    manifest.micro_batches = manifest.threads = 1;
    manifest.slots = slot_names;
    for (const ParameterInfo& p : run_.network->parameters())
      manifest.parameters.push_back({p.name, p.shape, DType::kF32,
                                     p.kind == ParameterKind::kStatistic ? checkpoint::ParameterKind::kStatistic
                                                                         : checkpoint::ParameterKind::kParameter});
    for (uint32_t s = 0; s < writers; ++s) {
      WrittenShards done;
      SnapshotWriter writer(written, s, slot_names, folder_.files, log, done.wake());
      const auto shard = server(written, s, writer);
      for (const uint32_t id : written.of_server(s)) {
        const ps::Block& block = written.block(id);
        std::vector<Values> values(block.kind == ParameterKind::kTrainable ? 1 + slot_names.size() : 1);
        for (size_t slot = 0; slot < values.size(); ++slot)
          for (int64_t e = 0; e < block.elements; ++e)
            values[slot].push_back(state(block.parameter, slot, block.first + e));
        shard->load(id, values[0], std::vector<std::span<const float>>(values.begin() + 1, values.end()));
      }
      order_snapshot(*shard, 5, checkpoints);
      const WrittenShard file = done.wait_for(writer);
      ASSERT_EQ(file.done.error, "");
      manifest.files.push_back({file.done.file, file.done.bytes, file.done.sha256});
    }
    ASSERT_TRUE(folder.commit(manifest));

    const ps::BlockTable read = table(readers);
    for (uint32_t s = 0; s < readers; ++s) {
      const auto shard = server(read, s, *this);
      // A checkpoint wins over a model.
      const Status loaded = load(read, s, {folder.path_of(5), "nowhere"}, *shard);
      ASSERT_TRUE(loaded) << loaded.error().message;
      states_.clear();
      order_snapshot(*shard, 5, "");
      ASSERT_EQ(states_.size(), 1u);
      ASSERT_EQ(states_[0].blocks.size(), read.of_server(s).size());
      for (const auto& copy : states_[0].blocks) {
        const ps::Block& block = read.block(copy.block);
        EXPECT_EQ(copy.slots.size(), block.kind == ParameterKind::kTrainable ? slot_names.size() : 0);
        for (size_t slot = 0; slot <= copy.slots.size(); ++slot) {
          const auto values = slot == 0 ? copy.values->as<float>() : copy.slots[slot - 1].as<float>();
          bool right = true;
          for (int64_t e = 0; e < block.elements; ++e)
            right &= values[static_cast<size_t>(e)] == state(block.parameter, slot, block.first + e);
          EXPECT_TRUE(right) << run_.network->parameters()[static_cast<size_t>(block.parameter)].name << " slot "
                             << slot;
        }
      }
    }
  }
}

TEST_F(ShardLoaderTest, ACheckpointThatIsNotThere) {
  const ps::BlockTable table = this->table(1);
  const auto shard = server(table, 0, *this);
  const Status status = load(table, 0, {folder_.path() + "/step-00000009", ""}, *shard);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, ExitCode::kCheckpoint);
}

}  // namespace
}  // namespace dtrain::node
