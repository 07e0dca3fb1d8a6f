#include "worker/engine/parameter_storage.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>

namespace dtrain::worker {
namespace {

const std::vector<ParameterInfo> kParameters{{"a", Shape{3, 7}, ParameterKind::kTrainable},
                                             {"b", Shape{1}, ParameterKind::kStatistic},
                                             {"c", Shape{16}, ParameterKind::kTrainable}};

TEST(ParameterStorage, AlignedZeroedAndApart) {
  const ParameterStorage storage(kParameters);
  ASSERT_EQ(storage.pointers().size(), 3u);
  float value = 0;
  for (size_t p = 0; p < kParameters.size(); ++p) {
    float* at = storage.at(static_cast<ParameterIndex>(p));
    EXPECT_EQ(at, storage.pointers()[p]);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(at) % Buffer::kAlignment, 0u);
    const auto n = kParameters[p].shape.elements();
    EXPECT_TRUE(std::all_of(at, at + n, [](float x) { return x == 0; }));
    std::fill(at, at + n, value += 1);
  }
  for (size_t p = 0; p < kParameters.size(); ++p) {
    const float* at = storage.pointers()[p];
    const auto wanted = static_cast<float>(p + 1);
    EXPECT_TRUE(std::all_of(at, at + kParameters[p].shape.elements(), [&](float x) { return x == wanted; }));
  }
}

TEST(ParameterStorage, OfStatisticsHasNoOthers) {
  const ParameterStorage storage(kParameters, ParameterStorage::Of::kStatistics);
  EXPECT_EQ(storage.at(0), nullptr);
  ASSERT_NE(storage.at(1), nullptr);
  EXPECT_EQ(*storage.at(1), 0);
  EXPECT_EQ(storage.at(2), nullptr);
  EXPECT_EQ(ParameterStorage::bytes(kParameters, ParameterStorage::Of::kStatistics), 64u);
}

TEST(ParameterStorage, BytesCountThePadding) {
  EXPECT_EQ(ParameterStorage::bytes(kParameters), 128u + 64u + 64u);
  EXPECT_EQ(ParameterStorage::bytes({}), 0u);
  EXPECT_TRUE(ParameterStorage({}).pointers().empty());
}

}  // namespace
}  // namespace dtrain::worker
