// What run files say about compression.
#include "compress/method.h"

#include "tests/compress/sender.h"

namespace dtrain::compress {
namespace {

std::string mistakes(const std::string& text, const MethodSetting& setting = {}) {
  config::Diagnostics diagnostics;
  EXPECT_EQ(read_text(text, diagnostics, setting), nullptr) << text;
  return diagnostics.ok() ? "" : diagnostics.status().error().message;
}

TEST(ReadMethod, ByNameOrByTable) {
  config::Diagnostics diagnostics;
  EXPECT_EQ(read_text("\"none\"", diagnostics), nullptr);
  EXPECT_EQ(read_text("\"fp16\"", diagnostics)->codec().id(), CodecId::kFp16);
  EXPECT_EQ(read_text("{ type = \"2bit\", threshold = 1 }", diagnostics)->codec().id(), CodecId::kTwoBit);
  EXPECT_TRUE(
      read_text("{ type = \"dgc\", ratio = 0.01, warmup = 100, masking = true }", diagnostics)->takes_momentum());
  EXPECT_TRUE(diagnostics.ok());
}

TEST(ReadMethod, WhoTakesTheMomentum) {
  config::Diagnostics diagnostics;
  const auto takes = [&](const char* text, const MethodSetting& setting) {
    return read_text(text, diagnostics, setting)->takes_momentum();
  };
  for (const char* text : {"\"1bit\"", "\"2bit\"", "\"topk\""}) {
    EXPECT_TRUE(takes(text, {.momentum = 0.9}));
    EXPECT_FALSE(takes(text, {}));
    EXPECT_FALSE(takes(text, {.momentum = 0.9, .clip_norm = true}));
    EXPECT_FALSE(takes(text, {.use = MethodSetting::Use::kParameters, .momentum = 0.9}));
  }
  EXPECT_TRUE(takes("\"dgc\"", {}));
  for (const char* text : {"{ type = \"2bit\", threshold = 0.5 }", "\"fp16\"", "\"bf16\""})
    EXPECT_FALSE(takes(text, {.momentum = 0.9})) << text;
}

TEST(ReadMethod, MistakesHaveAPlaceAndAWayOut) {
  EXPECT_THAT(mistakes("\"2bits\""), testing::AllOf(testing::HasSubstr("run.toml:1"), testing::HasSubstr("'2bit'")));
  EXPECT_THAT(mistakes("3"), testing::HasSubstr("must be a name"));
  EXPECT_THAT(mistakes("{ threshold = 1 }"), testing::HasSubstr("'type'"));
  EXPECT_THAT(mistakes("{ type = \"2bit\", threshold = 0 }"), testing::HasSubstr("threshold"));
  EXPECT_THAT(mistakes("{ type = \"2bit\", threshold = -1.5 }"), testing::HasSubstr("threshold"));
  EXPECT_THAT(mistakes("{ type = \"2bit\", ratio = 0.5 }"), testing::HasSubstr("ratio"));
  EXPECT_THAT(mistakes("{ type = \"topk\", ratio = 0.6 }"), testing::HasSubstr("ratio"));
  EXPECT_THAT(mistakes("{ type = \"topk\", ratio = 0 }"), testing::HasSubstr("ratio"));
  EXPECT_THAT(mistakes("{ type = \"dgc\", warmup = -1 }"), testing::HasSubstr("warmup"));
  EXPECT_THAT(mistakes("{ type = \"dgc\", clip_norm = 0 }"), testing::HasSubstr("clip_norm"));
  EXPECT_THAT(mistakes("{ type = \"topk\", warmup = 5 }", {.use = MethodSetting::Use::kParameters}),
              testing::HasSubstr("warmup"));
  EXPECT_THAT(mistakes("\"dgc\"", {.use = MethodSetting::Use::kParameters}), testing::HasSubstr("for gradients"));
}

}  // namespace
}  // namespace dtrain::compress
