#include "node/predict.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/node/run_text.h"

namespace dtrain::node {
namespace {

ParameterSource initial_values(const RunDefinition& run) {
  return [&run, next = 0](const ParameterInfo&, std::span<float> out) mutable -> Status {
    run.network->initialize(next++, run.spec.seed, 0, out);
    return {};
  };
}

TEST(Predict, AnswersEverySampleInOrderWhateverTheBatch) {
  for (const std::string* text : {&kMlp, &kConvNet}) {
    RunFolder folder;
    const RunDefinition run = folder.open(*text);
    const auto answers = [&](int64_t batch) {
      std::vector<float> all;
      int64_t next = 0;
      const Status done =
          predict(run, *run.test, batch, initial_values(run), [&](int64_t sample, auto output) -> Status {
            EXPECT_EQ(sample, next++);
            EXPECT_EQ(output.size(), 3);
            all.insert(all.end(), output.begin(), output.end());
            return {};
          });
      EXPECT_TRUE(done) << done.error().message;
      EXPECT_EQ(next, run.test->size());
      return all;
    };
    const std::vector<float> one = answers(1), seven = answers(7);
    ASSERT_EQ(one.size(), seven.size());
    for (size_t i = 0; i < one.size(); ++i) EXPECT_NEAR(one[i], seven[i], 1e-5);
  }
}

TEST(Predict, EndsWithTheSinksError) {
  RunFolder folder;
  const RunDefinition run = folder.open(kMlp);
  const Status done = predict(run, *run.test, 4, initial_values(run),
                              [](int64_t, auto) -> Status { return fail(ExitCode::kData, "full"); });
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().message, "full");
}

TEST(Predict, AnAnswerThatIsNotFinite) {
  RunFolder folder;
  const RunDefinition run = folder.open(kMlp);
  const auto huge = [](const ParameterInfo&, std::span<float> out) -> Status {
    std::fill(out.begin(), out.end(), 3e38f);
    return {};
  };
  const Status done = predict(run, *run.test, 4, huge, [](int64_t, auto) -> Status { return {}; });
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code, ExitCode::kNotFinite);
}

}  // namespace
}  // namespace dtrain::node
