#include "checkpoint/manifest.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/checkpoint/sample_state.h"

namespace dtrain::checkpoint {
namespace {

using ::testing::HasSubstr;

Manifest sample() { return SampleState(100).manifest({{"server-0.safetensors", 123, sha256("x")}}); }

std::string sealed(std::string text) {  // with the last member taken off and put on again
  text.resize(text.find(",\n \"sha256\": \"",
                        text.find("\"files\"") + 10 + text.substr(text.find("\"files\"") + 10).rfind("]")));
  return text + ",\n \"sha256\": \"" + to_hex(sha256(text)) + "\"\n}\n";
}

std::string refusal(const std::string& json) {
  auto m = manifest_from_json(json, "here/manifest.json");
  if (m) return "";
  EXPECT_EQ(m.error().code, ExitCode::kCheckpoint);
  EXPECT_THAT(m.error().message, HasSubstr("here/manifest.json"));
  return m.error().message;
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return sealed(text.replace(at, from.size(), to));
}

TEST(ManifestTest, SurvivesTheRoundTrip) { EXPECT_EQ(manifest_from_json(to_json(sample()), "m").value(), sample()); }

TEST(ManifestTest, CarriesTheModelsMetadata) {
  Manifest m = sample();
  m.metadata = {{"dtrain.classes", "[\"a\",\"b\"]"}, {"other", ""}};
  EXPECT_EQ(manifest_from_json(to_json(m), "m").value(), m);
  EXPECT_THAT(refusal(replaced(to_json(m), "\"other\": \"\"", "\"other\": 1")),
              HasSubstr("'metadata' is not of strings"));
}

TEST(ManifestTest, KnowsTheKindsOfParameters) {
  for (const ParameterKind kind : {ParameterKind::kParameter, ParameterKind::kStatistic, ParameterKind::kFrozen}) {
    Manifest m = sample();
    m.parameters[1].kind = kind;
    EXPECT_EQ(manifest_from_json(to_json(m), "m").value(), m);
  }
}

TEST(ManifestTest, EveryCutAndEveryFlippedByteIsRefused) {
  const std::string whole = to_json(sample());
  for (size_t n = 0; n < whole.size(); ++n) {
    EXPECT_NE(refusal(whole.substr(0, n)), "") << n;
    std::string flipped = whole;
    flipped[n] = static_cast<char>(flipped[n] ^ 0x04);
    EXPECT_NE(refusal(flipped), "") << n;
  }
}

TEST(ManifestTest, ContentIsChecked) {
  const std::string whole = to_json(sample());
  ASSERT_EQ(sealed(whole), whole);
  EXPECT_THAT(refusal(replaced(whole, "\"format\": 1", "\"format\": 2")), HasSubstr("format 2, this dtrain knows 1"));
  EXPECT_THAT(refusal(replaced(whole, "\"step\": 100", "\"step\": -1")), HasSubstr("'step'"));
  EXPECT_THAT(refusal(replaced(whole, "\"step\": 100", "\"step\": 18446744073709551615")), HasSubstr("'step'"));
  EXPECT_THAT(refusal(replaced(whole, "\"threads\": 1", "\"threads\": \"1\"")), HasSubstr("'threads'"));
  EXPECT_THAT(refusal(replaced(whole, "\"threads\"", "\"treads\"")), HasSubstr("has no 'threads'"));
  EXPECT_THAT(refusal(replaced(whole, "F64", "F65")), HasSubstr("unknown type 'F65'"));
  EXPECT_THAT(refusal(replaced(whole, "statistic", "statistik")), HasSubstr("unknown kind"));
  EXPECT_THAT(refusal(replaced(whole, "bn.mean", "fc@1.weight")), HasSubstr("is there twice"));
  EXPECT_THAT(refusal(replaced(whole, "server-0", "../server-0")), HasSubstr("not the name of a shard file"));
  EXPECT_THAT(refusal(replaced(whole, "\"bytes\": 123", "\"bytes\": 1.5")), HasSubstr("'bytes'"));
  EXPECT_THAT(refusal(replaced(whole, "\"slots\": [", "\"slots\": [1,")), HasSubstr("slot's name"));
}

TEST(ManifestTest, DepthIsBounded) {
  EXPECT_NE(refusal(replaced(to_json(sample()), "[", std::string(100000, '['))), "");
}

TEST(ShardFileNameTest, OnlyItsOwnNamesAreTaken) {
  EXPECT_EQ(server_of_shard_file(shard_file_name(12)), 12);
  for (const char* name :
       {"server-.safetensors", "server-01.safetensors", "server-1.safetensors.tmp", "server--1.safetensors",
        "server-99999999999999999999.safetensors", "a/server-1.safetensors", ".safetensors"})
    EXPECT_EQ(server_of_shard_file(name), std::nullopt) << name;
}

}  // namespace
}  // namespace dtrain::checkpoint
