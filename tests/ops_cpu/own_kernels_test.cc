// Own kernels give the same bits on every instruction set and compiler: these hashes hold on all of them.
#include <gtest/gtest.h>

#include "base/sha256.h"
#include "ops/channel_bias.h"
#include "ops/elementwise.h"
#include "ops/group_norm.h"
#include "ops/layer_norm.h"
#include "ops/loss.h"
#include "ops/lrn.h"
#include "ops/pool2d.h"
#include "ops/softmax.h"
#include "ops/upsample.h"
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

TEST(OwnKernels, LossesAndShapesGiveTheSameBitsOnEveryInstructionSet) {
  const Shape image{2, 19, 9, 7}, rows{3, 1013};
  const std::vector<Value> pair = {normal(rows, 1), uniform(rows, 2, 0, 1)};
  EXPECT_EQ(hash_of("sigmoid_cross_entropy", SigmoidCrossEntropy{}, pair, {f64({4}), f32(rows)}), "469bc866e2619d70");
  EXPECT_EQ(hash_of("huber", Huber{0.5f}, pair, {f64({4}), f32(rows)}), "5aefec4e5a71b5dc");
  EXPECT_EQ(hash_of("cosine", Cosine{}, pair, {f64({4}), f32(rows)}), "eeb84f3e880eadb5");
  const Upsample twice{Upsample::Mode::kBilinear, {2, 3}};
  EXPECT_EQ(hash_of("upsample", twice, {normal(image, 1)}, {f32({2, 19, 18, 21})}), "c934b0e4e1e0a38c");
  EXPECT_EQ(hash_of("upsample.backward", twice, {normal({2, 19, 18, 21}, 1)}, {f32(image)}), "62f33129feef5e33");
  EXPECT_EQ(hash_of("channel_bias", ChannelBias{{ActivationKind::kLeakyRelu, 0.3f}},
                    {normal(image, 1), normal({19}, 2)}, {f32(image)}),
            "2d657bd49d968bfb");
  EXPECT_EQ(hash_of("channel_bias.backward", {}, {normal(image, 1)}, {f32({19})}), "68c0fc0e17f0beeb");
}

TEST(OwnKernels, NormalisationsGiveTheSameBitsOnEveryInstructionSet) {
  const Shape image{2, 19, 9, 7}, rows{70, 523};
  const Value gamma = normal({523}, 4), beta = normal({523}, 5), statistics = uniform({70}, 6, 0.5f, 2.0f);
  EXPECT_EQ(hash_of("layer_norm", LayerNorm{}, {normal(rows, 1), gamma, beta}, {f32(rows), f32({70}), f32({70})}),
            "6f5306625af64f02");
  EXPECT_EQ(
      hash_of("layer_norm.backward", LayerNorm{}, {normal(rows, 1), normal(rows, 2), statistics, statistics, gamma},
              {f32(rows), f32({523}), f32({523})}),
      "96e6e2785ff76f0d");
  const Value of_channels = normal({19}, 4), of_samples = uniform({2, 1}, 6, 0.5f, 2.0f);
  EXPECT_EQ(hash_of("group_norm", GroupNorm{}, {normal(image, 1), of_channels, normal({19}, 5)},
                    {f32(image), f32({2, 1}), f32({2, 1})}),
            "746c1283fe85be36");
  EXPECT_EQ(hash_of("group_norm.backward", GroupNorm{},
                    {normal(image, 1), normal(image, 2), of_samples, of_samples, of_channels},
                    {f32(image), f32({19}), f32({19})}),
            "c14f0cea030de1fd");
}

TEST(OwnKernels, LrnGivesTheSameBitsInEveryLayoutAndOnEveryInstructionSet) {
  struct Row {
    float beta;
    std::string forward, backward;
  };
  const Shape image{2, 19, 9, 7};
  for (const Row& r :
       {Row{0.75f, "70b8e0e8cf74ff12", "8c2c164a43e8363f"}, Row{0.5f, "9cba5c926d007b89", "534b15628eb2ae90"},
        Row{1.0f, "d8b03d7f6021c53e", "937769c4c400e8e1"}, Row{1.3f, "ae17c3e496f1ca24", "ce2df50da9c14c18"}})
    for (Images images : {Images::kPlain, Images::kConvolved, Images::kBlocked}) {
      const Lrn a{.size = 4, .alpha = 0.5f, .beta = r.beta, .k = 1.5f};
      EXPECT_EQ(hash_of("lrn", a, {normal(image, 1)}, {f32(image)}, images), r.forward);
      EXPECT_EQ(hash_of("lrn.backward", a, {normal(image, 1), normal(image, 2)}, {f32(image)}, images), r.backward);
    }
}

TEST(OwnKernels, SoftmaxAndProductsGiveTheSameBitsOnEveryInstructionSet) {
  const Shape image{2, 19, 9, 7}, rows{3, 1513};
  EXPECT_EQ(hash_of("mul", {}, {normal(image, 1), normal(image, 2), normal(image, 3)}, {f32(image)}),
            "787b3193d7d20f9b");
  const auto hashes = [](const std::string& op, const Shape& shape) {
    return hash_of(op, Softmax{1}, {normal(shape, 1)}, {f32(shape)}) + " " +
           hash_of(op + ".backward", Softmax{1}, {normal(shape, 1), uniform(shape, 2, 0, 1)}, {f32(shape)});
  };
  EXPECT_EQ(hashes("softmax", rows), "8f3bf0b934669ab5 18a1268a84c8c795");
  EXPECT_EQ(hashes("softmax", image), "cea14e49ca9a29ea c723d0db8b44813c");
  EXPECT_EQ(hashes("log_softmax", rows), "ad5ba7c57cc816bf 9eb13343c2b90b9b");
  EXPECT_EQ(hashes("log_softmax", image), "7024e22986a04b73 d820df4c0597ca9f");
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
