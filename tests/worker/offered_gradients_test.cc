#include "worker/offered_gradients.h"

#include <limits>

#include "fixture.h"
#include "worker/known_rates.h"

namespace dtrain::worker {
namespace {

using testing::ElementsAre;

class OfferedGradientsTest : public ProtocolFixture {
 protected:
  OfferedGradients offers_{table_, {0, 1}, sent_};
  const Work work_ = train(4, {0, 2});
  std::shared_ptr<std::vector<float>> values_ = std::make_shared<std::vector<float>>(70'000);
};

// Values are not copied: they are held until the answer, and in what is under way.
TEST_F(OfferedGradientsTest, HoldsTheValuesUntilTheAnswer) {
  offers_.offer(work_, 4, {0, 2}, kLarge, values_->data(), values_);
  EXPECT_THAT(sent_.take<wire::Offer>(), ElementsAre(wire::Offer{4, kLarge, 0, 2}));
  EXPECT_EQ(values_.use_count(), 2);
  ASSERT_TRUE(offers_.on(owner(kLarge), wire::Take{4, kLarge, 0, 2, 0b10}));
  ASSERT_EQ(sent_.letters.size(), 1u);
  const auto& payload = sent_.letters[0].payload.bytes;
  EXPECT_EQ(sent_.letters[0].to, owner(kLarge));
  EXPECT_EQ(static_cast<const void*>(payload.data()), values_->data() + ps::kChunkElements);
  EXPECT_EQ(payload.size(), (70'000 - static_cast<size_t>(ps::kChunkElements)) * sizeof(float));
  const auto answered = offers_.on(owner(kLarge), wire::Absorbed{4, kLarge, 0, 2, 5});
  ASSERT_TRUE(answered);
  EXPECT_EQ(*answered, work_);
  EXPECT_EQ(values_.use_count(), 2) << "the chunk is still under way";
  sent_.letters.clear();
  EXPECT_EQ(values_.use_count(), 1);
}

TEST_F(OfferedGradientsTest, CountsWhatWaits) {
  EXPECT_EQ(offers_.unanswered(work_), 0u);
  offers_.offer(work_, 4, {0, 2}, kLarge, values_->data(), values_);
  offers_.offer(work_, 4, {0, 2}, kSmall, values_->data(), values_);
  EXPECT_EQ(sent_.take<wire::NodeChunk>().size(), 1u) << "a small block is pushed at once";
  EXPECT_EQ(offers_.unanswered(work_), 2u);
  EXPECT_EQ(offers_.unanswered(train(5, {0, 2})), 0u);
  ASSERT_TRUE(offers_.on(owner(kSmall), wire::Absorbed{4, kSmall, 0, 2, 5}));
  EXPECT_EQ(offers_.unanswered(work_), 1u);
  const auto again = offers_.on(owner(kSmall), wire::Absorbed{4, kSmall, 0, 2, 5});
  ASSERT_TRUE(again);
  EXPECT_FALSE(again->has_value());
  EXPECT_EQ(offers_.unanswered(work_), 1u);
}

// What was left and is computed again: the server knows the offer already, and takes what it has not yet from the new
// values. The old ones are free.
TEST_F(OfferedGradientsTest, ComputedAgain) {
  offers_.offer(work_, 4, {0, 2}, kLarge, values_->data(), values_);
  offers_.offer(work_, 4, {0, 2}, kSmall, values_->data(), values_);
  ASSERT_TRUE(offers_.on(owner(kLarge), wire::Take{4, kLarge, 0, 2, 0b01}));
  sent_.letters.clear();
  const auto again = std::make_shared<std::vector<float>>(70'000);
  offers_.offer(work_, 4, {0, 2}, kLarge, again->data(), again);
  offers_.offer(work_, 4, {0, 2}, kSmall, again->data(), again);
  EXPECT_TRUE(sent_.letters.empty());
  EXPECT_EQ(values_.use_count(), 1);
  EXPECT_EQ(offers_.unanswered(work_), 2u);
  ASSERT_TRUE(offers_.on(owner(kLarge), wire::Take{4, kLarge, 0, 2, 0b10}));
  ASSERT_EQ(sent_.letters.size(), 1u);
  EXPECT_EQ(static_cast<const void*>(sent_.letters[0].payload.bytes.data()), again->data() + ps::kChunkElements);
  ASSERT_TRUE(offers_.on(owner(kLarge), wire::Absorbed{4, kLarge, 0, 2, 5}));
  ASSERT_TRUE(offers_.on(owner(kSmall), wire::Absorbed{4, kSmall, 0, 2, 5}));
  EXPECT_EQ(offers_.unanswered(work_), 0u);
}

TEST_F(OfferedGradientsTest, WorksThatAreOpen) {
  for (const Work& work : {work_, train(4, {2, 3}), train(6, {0, 2})})
    for (const uint32_t block : {kLarge, kSmall})
      offers_.offer(work, work.step, work.node, block, values_->data(), values_);
  EXPECT_EQ(offers_.open_works(4), 3u);
  EXPECT_EQ(offers_.open_works(5), 1u);
  EXPECT_EQ(offers_.open_works(7), 0u);
  ASSERT_TRUE(offers_.on(owner(kSmall), wire::Absorbed{6, kSmall, 0, 2, 5}));
  EXPECT_EQ(offers_.open_works(5), 1u);
  ASSERT_TRUE(offers_.on(owner(kLarge), wire::Absorbed{6, kLarge, 0, 2, 5}));
  EXPECT_EQ(offers_.open_works(5), 0u);
}

TEST(KnownRatesTest, ForgetsWhatIsBehind) {
  KnownRates rates;
  ASSERT_TRUE(rates.add({3, {0.5, 0.25, 0.125}}, 0));
  EXPECT_TRUE(rates.has(3, 6));
  EXPECT_FALSE(rates.has(2, 4));
  EXPECT_FALSE(rates.has(5, 7));
  EXPECT_EQ(rates.at(4), 0.25);
  ASSERT_TRUE(rates.add({6, {1}}, 5));
  EXPECT_FALSE(rates.has(4, 5));
  EXPECT_TRUE(rates.has(5, 7));
}

// It is told them because it will need them.
TEST(KnownRatesTest, KeepsWhatItIsToldWhereverThatLies) {
  KnownRates rates;
  ASSERT_TRUE(rates.add({2, {0.5}}, 7));
  EXPECT_TRUE(rates.has(2, 3));
}

TEST(KnownRatesTest, RatesThatCannotBe) {
  KnownRates rates;
  EXPECT_FALSE(rates.add({-1, {0.5}}, 0));
  EXPECT_FALSE(rates.add({std::numeric_limits<int64_t>::max(), {0.5, 0.25}}, 0));
  EXPECT_FALSE(rates.add({0, {std::numeric_limits<double>::quiet_NaN()}}, 0));
}

TEST(KnownRatesTest, AreNotMoreThanAnyModeNeeds) {
  KnownRates rates;
  EXPECT_FALSE(rates.add({0, std::vector<double>(5'000'000, 0.5)}, 0));
  ASSERT_TRUE(rates.add({0, std::vector<double>(20'000, 0.5)}, 0));
}

}  // namespace
}  // namespace dtrain::worker
