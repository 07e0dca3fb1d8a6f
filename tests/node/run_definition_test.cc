#include "node/run_definition.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "config/load.h"
#include "tests/node/run_text.h"

namespace dtrain::node {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class RunDefinitionTest : public testing::Test {
 protected:
  // Ten samples as numbers on a disk.
  void npy(const std::string& name, const std::string& type, int64_t columns, const std::string& bytes) {
    folder_.write(name, npy_file(type, columns ? fmt::format("10, {}", columns) : "10,", bytes));
  }
  std::string text(const std::string& input, const std::string& layers) {
    npy("x.npy", "|u1", 4, std::string(40, '\x07'));
    npy("classes.npy", "|u1", 0, std::string("\0\1\2\3\4\5\6\7\x08\x09", 10));
    npy("numbers.npy", "<f4", 2, std::string(80, '\0'));
    return fmt::format(R"(
[data.train]
format = "npy"
inputs = "x.npy"
labels = "{}"
[train]
batch = 2
steps = 1
[optimizer]
lr = 0.1
[network]
input = {}
layers = [{}]
)",
                       labels_, input, layers);
  }
  Error open_error(const std::string& input, const std::string& layers) {
    Result<RunDefinition> run = folder_.read(text(input, layers));
    EXPECT_TRUE(run) << run.error().message;
    const Status opened = run->open_data(folder_.files);
    EXPECT_FALSE(opened);
    return opened ? Error{} : opened.error();
  }

  std::string labels_ = "classes.npy";
  RunFolder folder_;
};

constexpr const char* kTenClasses = R"({ type = "linear", units = 10 }, { type = "softmax_cross_entropy" })";

TEST_F(RunDefinitionTest, ReadsAndOpens) {
  const RunDefinition run = folder_.open(text("[4]", kTenClasses), {"train.epochs=1.5", "data.train.shuffle=false"});
  EXPECT_EQ(run.spec.name, "run");
  EXPECT_EQ(run.train->size(), 10);
  EXPECT_FALSE(run.test);
  EXPECT_FALSE(run.shuffle);
  EXPECT_EQ(run.total_steps(), 8) << "1.5 · 10 samples in batches of 2, rounded up";
  EXPECT_EQ(run.network->parameters().size(), 2u);
}

TEST_F(RunDefinitionTest, AllMistakesAtOnce) {
  const auto run = folder_.read(text("[4]", R"({ type = "linear", units = 0 }, { type = "mse" })"),
                                {"optimizer.lr=-1", "optimizer.type=sdg", "train.batch=0", "schedule.type=cosin"});
  ASSERT_FALSE(run);
  EXPECT_EQ(run.error().code, ExitCode::kUsage);
  EXPECT_THAT(run.error().message,
              AllOf(HasSubstr("units"), HasSubstr("'lr'"), HasSubstr("sgd"), HasSubstr("batch"), HasSubstr("cosine")));
}

TEST_F(RunDefinitionTest, SamplesOfAnotherShape) {
  const Error error = open_error("[5]", kTenClasses);
  EXPECT_EQ(error.code, ExitCode::kUsage);
  EXPECT_THAT(error.message, AllOf(HasSubstr("run.toml:"), HasSubstr("[4]"), HasSubstr("[5]")));
}

TEST_F(RunDefinitionTest, LabelsOfAnotherKind) {
  const Error error = open_error("[4]", R"({ type = "linear", units = 2 }, { type = "mse" })");
  EXPECT_EQ(error.code, ExitCode::kUsage);
  EXPECT_THAT(error.message, AllOf(HasSubstr("run.toml:5:"), HasSubstr("the loss wants numbers of shape [2]"),
                                   HasSubstr("are classes")));
}

TEST_F(RunDefinitionTest, LabelsOfAnotherShape) {
  labels_ = "numbers.npy";
  const Error error = open_error("[4]", R"({ type = "linear", units = 3 }, { type = "mse" })");
  EXPECT_EQ(error.code, ExitCode::kUsage);
  EXPECT_THAT(error.message, AllOf(HasSubstr("numbers of shape [3]"), HasSubstr("numbers of shape [2]")));
}

TEST_F(RunDefinitionTest, MoreClassesThanTheNetworkHas) {
  const Error error = open_error("[4]", R"({ type = "linear", units = 9 }, { type = "softmax_cross_entropy" })");
  EXPECT_EQ(error.code, ExitCode::kData);
  EXPECT_THAT(error.message, AllOf(HasSubstr("label 9 is 9"), HasSubstr("of the network's (0 … 8)")));
}

TEST_F(RunDefinitionTest, TheTestDataHaveToFitToo) {
  Result<RunDefinition> run =
      folder_.read(text("[4]", kTenClasses) + "[data.test]\nformat = \"synthetic\"\nclasses = 11\n");
  ASSERT_TRUE(run) << run.error().message;
  const Status opened = run->open_data(folder_.files);
  ASSERT_FALSE(opened);
  EXPECT_THAT(opened.error().message, HasSubstr("[data.test] hold the class 10"));
}

TEST_F(RunDefinitionTest, ThreadsThatReadAreNotPartOfTheRun) {
  const RunDefinition one = folder_.open(text("[4]", kTenClasses)),
                      three = folder_.open(text("[4]", kTenClasses), {"data.train.threads=3"});
  EXPECT_EQ(one.train_threads, 1u);
  EXPECT_EQ(three.train_threads, 3u);
  EXPECT_EQ(three.run_digest, one.run_digest);
  EXPECT_EQ(three.data_digest, one.data_digest);
}

// Folders of empty pictures: nothing of them is decoded before it is asked for.
TEST_F(RunDefinitionTest, ClassesAreTheSameInBothParts) {
  for (const char* name :
       {"train/ant/1.png", "train/bee/1.png", "train/cat/1.png", "test/ant/1.png", "test/cat/1.png"}) {
    ASSERT_TRUE(folder_.files.make_directories(parent_path(folder_.path() + "/" + name)));
    folder_.write(name, "");
  }
  const std::string rest = R"([train]
batch = 2
steps = 1
[optimizer]
lr = 0.1
[network]
input = [1, 2, 2]
layers = [{ type = "flatten" }, { type = "linear", units = 3 }, { type = "softmax_cross_entropy" }]
)";
  const auto opened = [&](const std::string& test, const std::string& more = "") {
    Result<RunDefinition> run =
        folder_.read("[data.train]\nformat = \"images\"\nfolder = \"train\"\n[data.test]\nformat = " +
                     ("\"images\"\nfolder = \"" + test + "\"\n") + more + rest);
    EXPECT_TRUE(run) << run.error().message;
    const Status status = run->open_data(folder_.files);
    return status ? "" : status.error().message;
  };
  EXPECT_EQ(opened("train"), "");
  EXPECT_THAT(opened("test"),
              AllOf(HasSubstr("run.toml:5:"), HasSubstr("number 1 is 'bee' in one and 'cat' in the other")));
  EXPECT_THAT(opened("train", "transforms = [{ type = \"horizontal_flip\" }]\n"),
              HasSubstr("horizontal_flip is random"));
}

TEST_F(RunDefinitionTest, AMissingFile) {
  labels_ = "nowhere.npy";
  const Error error = open_error("[4]", kTenClasses);
  EXPECT_EQ(error.code, ExitCode::kData);
  EXPECT_THAT(error.message, HasSubstr("nowhere.npy"));
}

TEST_F(RunDefinitionTest, TheDigestIsOfWhatMustNotChange) {
  const std::string file = text("[4]", kTenClasses);
  const Digest digest = folder_.read(file)->run_digest;
  for (const char* set :
       {"name=\"other\"", "train.steps=9", "train.log_every=7", "train.checkpoint_every=3", "train.peer_timeout=2"})
    EXPECT_EQ(folder_.read(file, {set, set})->run_digest, digest) << set;
  for (const char* set : {"seed=2", "train.batch=4", "train.micro_batch=1", "optimizer.lr=0.2", "train.threads=2"})
    EXPECT_NE(folder_.read(file, {set, set})->run_digest, digest) << set;
}

TEST_F(RunDefinitionTest, TheDataDigestIsOfTheContent) {
  const std::string file = text("[4]", kTenClasses);
  const Digest digest = folder_.open(file).data_digest;
  EXPECT_EQ(folder_.open(file, {"train.steps=9", "seed=4"}).data_digest, digest);
  EXPECT_NE(folder_.open(file, {"data.train.scale=2.0", "seed=4"}).data_digest, digest);
  RunDefinition run = *folder_.read(file);
  npy("classes.npy", "|u1", 0, std::string("\0\1\2\3\4\5\6\7\x08\x08", 10));
  ASSERT_TRUE(run.open_data(folder_.files));
  EXPECT_NE(run.data_digest, digest);
}

TEST_F(RunDefinitionTest, TheRateIsTheOptimizersTimesTheSchedules) {
  const RunDefinition run = folder_.open(text("[4]", kTenClasses), {"schedule.type=cosine", "optimizer.lr=0.5"});
  EXPECT_DOUBLE_EQ(run.rate_at(0, 10), 0.5);
  EXPECT_DOUBLE_EQ(run.rate_at(5, 10), 0.25);
}

// What is to be predicted has no labels, whatever the loss would take.
TEST_F(RunDefinitionTest, SamplesWithoutLabelsFitEveryLoss) {
  const std::string layers[] = {R"({ type = "linear", units = 2 }, { type = "mse" })",
                                R"({ type = "linear", units = 2 }, { type = "sigmoid_cross_entropy" })",
                                R"({ type = "linear", units = 6 }, { type = "reshape", shape = [2, 3] },
                                   { type = "softmax_cross_entropy" })"};
  for (const std::string& network : layers) {
    const auto run = folder_.read(text("[4]", network));
    ASSERT_TRUE(run) << run.error().message;
    const auto data = run->open_part(run->spec.data_train, "data.predict", folder_.files, {}, false);
    ASSERT_TRUE(data) << data.error().message;
    EXPECT_EQ((*data)->size(), 10);
  }
}

TEST_F(RunDefinitionTest, LabelsOfSigmoidCrossEntropyAreFromZeroToOne) {
  labels_ = "shares.npy";
  const std::string layers = R"({ type = "linear", units = 2 }, { type = "sigmoid_cross_entropy" })";
  const auto read = [&](float eighth, const std::string& network) -> Status {
    std::vector<float> shares(20, 1.0f);
    shares[0] = 0;
    shares[17] = eighth;
    npy("shares.npy", "<f4", 2, std::string(reinterpret_cast<const char*>(shares.data()), 80));
    const RunDefinition run = folder_.open(text("[4]", network));
    std::vector<float> sample(4), label(2);
    for (int64_t i = 0; i < 10; ++i) DTRAIN_TRY(run.train->read({i}, {sample, {}}, {{}, label}));
    return {};
  };
  EXPECT_TRUE(read(0.5f, layers));
  EXPECT_TRUE(read(1.5f, R"({ type = "linear", units = 2 }, { type = "mse" })"));
  for (const float wrong : {1.5f, -0.25f}) {
    const Status status = read(wrong, layers);
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().code, ExitCode::kData);
    EXPECT_THAT(status.error().message,
                HasSubstr(fmt::format("'shares.npy': number 1 of the label of sample 8 is {}", wrong)));
  }
}

TEST(AutomaticMicroBatches, TheFewestThatDivideAndOccupyEverybody) {
  EXPECT_EQ(automatic_micro_batches(128, 1), 1);
  EXPECT_EQ(automatic_micro_batches(128, 2), 2);
  EXPECT_EQ(automatic_micro_batches(128, 3), 4);
  EXPECT_EQ(automatic_micro_batches(100, 6), 10);
  EXPECT_EQ(automatic_micro_batches(7, 2), 7);
  EXPECT_EQ(automatic_micro_batches(4, 4), 4);
  EXPECT_EQ(automatic_micro_batches(4, 9), 4) << "at most one a sample";
  EXPECT_EQ(automatic_micro_batches(1, 1), 1);
}

}  // namespace
}  // namespace dtrain::node
