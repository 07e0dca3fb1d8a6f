// Own kernels give the same bits on every instruction set and compiler: these hashes hold on all of them.
#include <gtest/gtest.h>

#include "base/sha256.h"
#include "ops/elementwise.h"
#include "ops/loss.h"
#include "ops/pool2d.h"
#include "tests/ops_cpu/op_harness.h"

namespace dtrain::ops::test {
namespace {

std::string hash_of(const std::string& op, const std::any& attributes, const std::vector<Value>& inputs,
                    const std::vector<TensorDesc>& outputs, Images images = Images::kPlain) {
  const OpCase c{.name = op,
                 .op = op,
                 .attributes = attributes,
                 .inputs = inputs,
                 .outputs = outputs,
                 .forward = {},
                 .context = {.seed = 5, .step = 6, .first_sample = 7, .valid = inputs[0].desc.shape[0]}};
  const Outcome outcome = run_case("cpu", c, {.images = images});
  EXPECT_EQ(outcome.implementation, "own");
  Sha256 hash;
  for (const Value& v : outcome.outputs) hash.update(v.bytes);
  return to_hex(hash.finish()).substr(0, 16);
}

TEST(OwnKernels, SameBitsOnEveryInstructionSet) {
  const Shape image{2, 19, 9, 7}, rows{3, 1013};
  const std::vector<Value> three = {normal(image, 1), normal(image, 2), normal(image, 3)};
  EXPECT_EQ(hash_of("add", Add{{ActivationKind::kRelu, 0}}, three, {f32(image)}), "8f607e8fe9338264");
  EXPECT_EQ(hash_of("add", Add{{ActivationKind::kLeakyRelu, 0.3f}}, three, {f32(image)}), "9b433d2405bad152");
  EXPECT_EQ(hash_of("dropout", Dropout{0.3f, 77}, {normal(rows, 1)}, {f32(rows)}), "68990cdc1ff2e18f");
  EXPECT_EQ(hash_of("softmax_cross_entropy", SoftmaxCrossEntropy{-1, 0.1f}, {normal(rows, 1), labels({3}, 2, 1013)},
                    {f64({4}), f32(rows)}),
            "9105fbe38a12b67f");
  EXPECT_EQ(hash_of("softmax_cross_entropy", SoftmaxCrossEntropy{1, 0.0f}, {normal(image, 1), labels({2, 9, 7}, 2, 19)},
                    {f64({4}), f32(image)}),
            "58525e97d0213603");
  EXPECT_EQ(hash_of("mse", Mse{}, {normal(rows, 1), normal(rows, 2)}, {f64({4}), f32(rows)}), "cd35c56620fe2d68");
  const Pool2d pool{.kind = Pool2d::Kind::kAverage, .kernel = {3, 3}, .stride = {3, 3}, .pad = {1, 1}, .ceil = true};
  EXPECT_EQ(hash_of("pool2d", pool, {normal({2, 19, 6, 6}, 1)}, {f32({2, 19, 3, 3})}), "8edd8d735e25b04f");
}

TEST(OwnKernels, GlobalAveragePoolGivesTheSameBitsInEveryLayout) {
  for (const Shape& image : {Shape{2, 19, 9, 7}, Shape{2, 32, 9, 7}, Shape{2, 130, 3, 3}})
    for (Images images : {Images::kConvolved, Images::kBlocked}) {
      const std::vector<TensorDesc> out = {f32({image[0], image[1]})};
      EXPECT_EQ(hash_of("global_avg_pool", {}, {normal(image, 1)}, out, images),
                hash_of("global_avg_pool", {}, {normal(image, 1)}, out));
    }
}

}  // namespace
}  // namespace dtrain::ops::test
