#include "config/network_spec.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "config/canonical.h"
#include "tests/config/support.h"

namespace dtrain::config {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// One line a layer: "name type <- inputs {other keys}".
std::vector<std::string> expanded(const std::string& network) {
  Diagnostics d;
  const NetworkSpec spec = expand_network(parsed(network), d);
  EXPECT_EQ(message_of(d), "");
  std::vector<std::string> lines;
  for (const LayerSpec& l : spec.layers) {
    lines.push_back(fmt::format("{} {} <- {} {}", l.name, l.type, fmt::join(l.inputs, ","), canonical_text(l.table)));
  }
  return lines;
}

std::string errors_of(const std::string& network) {
  Diagnostics d;
  expand_network(parsed(network), d);
  return message_of(d);
}

TEST(NetworkSpec, ALayerReadsTheOneBeforeIt) {
  EXPECT_THAT(expanded("input = [1, 28, 28]\nlayers = [\n"
                       "  { name = \"conv1\", type = \"conv2d\", filters = 20, kernel = 5 },\n"
                       "  { type = \"max_pool2d\", kernel = [2, 3] },\n"
                       "  { type = \"conv2d\", activation = \"relu\" },\n"
                       "  { type = \"add\", inputs = [\"conv1\", \"input\"] },\n"
                       "  { type = \"flatten\", inputs = [] },\n]\n"),
              ElementsAre("conv1 conv2d <- input {\"filters\"=20,\"kernel\"=5}",
                          "max_pool2d1 max_pool2d <- conv1 {\"kernel\"=[2,3]}",
                          "conv2d2 conv2d <- max_pool2d1 {\"activation\"=\"relu\"}", "add1 add <- conv1,input {}",
                          "flatten1 flatten <- add1 {}"));
}

TEST(NetworkSpec, ADeviceOfABlockHoldsForItsLayers) {
  Diagnostics d;
  const NetworkSpec spec = expand_network(
      parsed(
          "input = [3]\nlayers = [\n  { name = \"a\", type = \"relu\" },\n"
          "  { name = \"b\", type = \"pair\", repeat = 2, device = \"/job:worker/task:1\" },\n"
          "  { name = \"c\", type = \"tanh\", device = \"/job:w/task:3\" },\n  { name = \"d\", type = \"tanh\" },\n]\n"
          "[block.pair]\nlayers = [\n  { name = \"x\", type = \"tanh\" },\n"
          "  { name = \"y\", type = \"tanh\", device = \"/job:worker/task:2\" },\n]\n"),
      d);
  EXPECT_EQ(message_of(d), "");
  std::vector<std::string> devices;
  for (const LayerSpec& l : spec.layers) {
    devices.push_back(l.name + (l.device ? fmt::format(" {}:{}", l.device->job, l.device->task) : ""));
    EXPECT_EQ(l.table.find("device"), nullptr);
  }
  EXPECT_THAT(devices,
              ElementsAre("a", "b.0.x worker:1", "b.0.y worker:2", "b.1.x worker:1", "b.1.y worker:2", "c w:3", "d"));
  EXPECT_EQ(to_string(spec.layers[1].device->position), "run.toml:4:53");
  EXPECT_THAT(errors_of("input = [3]\nlayers = [ { type = \"relu\", device = \"task:1\" } ]\n"),
              HasSubstr("layer 'relu1': 'task:1' names no task"));
}

TEST(NetworkSpec, PositionsAreThoseOfTheLayer) {
  Diagnostics d;
  const NetworkSpec spec = expand_network(
      parsed("input = [3]\nlayers = [\n  { name = \"a\", type = \"relu\" },\n  { type = \"tanh\" },\n]\n"), d);
  ASSERT_EQ(spec.layers.size(), 2u);
  EXPECT_THAT(spec.input, ElementsAre(3));
  EXPECT_EQ(to_string(spec.layers[0].position), "run.toml:3:3");
  EXPECT_EQ(to_string(spec.layers[0].type_position), "run.toml:3:24");
  EXPECT_EQ(to_string(spec.layers[1].table.position()), "run.toml:4:3");
}

const std::string kResidual =
    "input = [3, 9, 9]\n"
    "layers = [\n"
    "  { name = \"stem\", type = \"conv2d\", filters = 8 },\n"
    "  { name = \"stage1\", type = \"basic\", repeat = 2, filters = 8 },\n"
    "  { name = \"stage2\", type = \"down\", filters = 12, stride = 2 },\n"
    "  { type = \"down\", inputs = [\"stem\"] },\n"
    "  { name = \"out\", type = \"linear\", units = 5 },\n"
    "]\n"
    "[block.basic]\n"
    "args = { filters = 16 }\n"
    "layers = [\n"
    "  { name = \"c1\", type = \"conv2d\", filters = \"$filters\" },\n"
    "  { type = \"relu\" },\n"
    "  { name = \"sum\", type = \"add\", inputs = [\"relu1\", \"input\"], activation = \"relu\" },\n"
    "]\n"
    "[block.down]\n"
    "args = { filters = 16, stride = 1 }\n"
    "layers = [\n"
    "  { name = \"c1\", type = \"conv2d\", filters = \"$filters\", stride = [\"$stride\", 1] },\n"
    "  { name = \"proj\", type = \"conv2d\", inputs = [\"input\"] },\n"
    "]\n";

TEST(NetworkSpec, BlocksAreUnrolled) {
  EXPECT_THAT(
      expanded(kResidual),
      ElementsAre("stem conv2d <- input {\"filters\"=8}", "stage1.0.c1 conv2d <- stem {\"filters\"=8}",
                  "stage1.0.relu1 relu <- stage1.0.c1 {}",
                  "stage1.0.sum add <- stage1.0.relu1,stem {\"activation\"=\"relu\"}",
                  "stage1.1.c1 conv2d <- stage1.0.sum {\"filters\"=8}", "stage1.1.relu1 relu <- stage1.1.c1 {}",
                  "stage1.1.sum add <- stage1.1.relu1,stage1.0.sum {\"activation\"=\"relu\"}",
                  "stage2.c1 conv2d <- stage1.1.sum {\"filters\"=12,\"stride\"=[2,1]}",
                  "stage2.proj conv2d <- stage1.1.sum {}", "down2.c1 conv2d <- stem {\"filters\"=16,\"stride\"=[1,1]}",
                  "down2.proj conv2d <- stem {}", "out linear <- down2.proj {\"units\"=5}"));
}

TEST(NetworkSpec, BlocksUseBlocksAndHandArgumentsOn) {
  EXPECT_THAT(
      expanded("input = [4]\n"
               "layers = [{ type = \"outer\", width = 7, kind = \"tanh\" }, { name = \"x\", type = \"inner\", repeat = "
               "1 }]\n"
               "[block.outer]\nargs = { width = 1, kind = \"relu\" }\n"
               "layers = [{ type = \"inner\", width = \"$width\", repeat = 2 }, { type = \"$kind\" }]\n"
               "[block.inner]\nargs = { width = 3 }\nlayers = [{ type = \"linear\", units = \"$width\" }]\n"),
      ElementsAre("outer1.inner1.0.linear1 linear <- input {\"units\"=7}",
                  "outer1.inner1.1.linear1 linear <- outer1.inner1.0.linear1 {\"units\"=7}",
                  "outer1.tanh1 tanh <- outer1.inner1.1.linear1 {}", "x.linear1 linear <- outer1.tanh1 {\"units\"=3}"));
}

TEST(NetworkSpec, AnArgumentKeepsThePlaceWhereItWasGiven) {
  Diagnostics d;
  const NetworkSpec spec = expand_network(parsed(kResidual), d);
  EXPECT_EQ(to_string(spec.layers[1].table.find("filters")->position()), "run.toml:4:60");
  EXPECT_EQ(to_string(spec.layers[1].position), "run.toml:12:3");
  EXPECT_THAT(spec.blocks, ElementsAre("basic", "down"));
}

TEST(NetworkSpec, ABlockMayTakeAnActivationAsArgument) {
  EXPECT_THAT(
      expanded("input = [4]\nlayers = [{ type = \"b\", activation = \"tanh\" }]\n[block.b]\n"
               "args = { activation = \"relu\" }\nlayers = [{ type = \"linear\", activation = \"$activation\" }]\n"),
      ElementsAre("b1.linear1 linear <- input {\"activation\"=\"tanh\"}"));
}

TEST(NetworkSpec, MistakesInBlocks) {
  const std::string block = "[block.b]\nargs = { width = 8 }\nlayers = [{ type = \"linear\", units = \"$width\" }]\n";
  const std::string head = "input = [4]\nlayers = [\n";
  EXPECT_EQ(errors_of(head + "{ type = \"b\", widht = 3 }]\n" + block),
            "run.toml:3:15: error: block 'b' has no argument 'widht' (did you mean 'width'?)");
  EXPECT_THAT(errors_of(head + "{ type = \"b\", activation = \"relu\" }]\n" + block),
              HasSubstr("run.toml:3:15: error: 'activation' cannot follow a block"));
  EXPECT_EQ(errors_of(head + "{ name = \"s\", type = \"b\", repeat = 0 }]\n" + block),
            "run.toml:3:36: error: 'repeat' in layer 's' must be from 1 to 10000, got 0");
  EXPECT_EQ(errors_of(head + "{ type = \"relu\" }, { type = \"b\", inputs = [\"relu1\", \"input\"] }]\n" + block),
            "run.toml:3:43: error: block 'b' has one input");
  EXPECT_EQ(errors_of(head + "{ type = \"b\", repeat = 3 }]\n[block.b]\nargs = { width = 8 }\n"
                             "layers = [{ type = \"linear\", units = \"$widt\" }]\n"),
            "run.toml:6:38: error: '$widt': this block has no argument 'widt' (did you mean 'width'?)");
  EXPECT_EQ(errors_of(head + "{ type = \"linear\", units = \"$width\" }]\n"),
            "run.toml:3:28: error: '$width': arguments exist inside a block only");
  EXPECT_EQ(errors_of(head + "{ type = \"b\" }]\n[block.b]\nlayer = []\n"),
            "run.toml:4:1: error: block 'b' has no layers\n"
            "run.toml:5:1: error: unknown key 'layer' in block 'b' (did you mean 'layers'?)");
  EXPECT_EQ(errors_of(head + "{ type = \"b\" }]\n[block.b]\nargs = { name = 1 }\nlayers = [{ type = \"x\" }]\n"),
            "run.toml:5:10: error: 'name' cannot be a block's argument");
}

TEST(NetworkSpec, BlocksCannotContainThemselves) {
  EXPECT_EQ(errors_of("input = [4]\nlayers = [{ type = \"a\" }]\n[block.a]\nlayers = [{ type = \"b\" }]\n[block.b]\n"
                      "layers = [{ type = \"relu\" }, { type = \"a\" }]\n"),
            "run.toml:6:39: error: blocks contain each other: a -> b -> a");
}

TEST(NetworkSpec, UnknownInputs) {
  const std::string text =
      "input = [4]\nlayers = [\n"
      "  { name = \"stem\", type = \"relu\" },\n"
      "  { type = \"add\", inputs = [\"stm\", \"late\"] },\n"
      "  { name = \"late\", type = \"relu\", inputs = [\"late\"] },\n"
      "  { type = \"b\", inputs = [3] },\n"
      "]\n[block.b]\nlayers = [{ type = \"add\", inputs = [\"input\", \"stem\"] }]\n";
  EXPECT_EQ(
      errors_of(text),
      "run.toml:4:29: error: unknown input 'stm' (did you mean 'stem'?)\n"
      "run.toml:4:36: error: input 'late' comes further down; a layer can read those above it\n"
      "run.toml:5:45: error: input 'late' is the layer itself; a layer can read those above it\n"
      "run.toml:6:27: error: 'inputs': expected the name of a layer, got the integer 3\n"
      "run.toml:9:46: error: unknown input 'stem' (known: input); inside a block only its own layers can be seen");
}

TEST(NetworkSpec, NamesMustBeDifferentAndProper) {
  EXPECT_EQ(errors_of("input = [4]\nlayers = [\n"
                      "  { name = \"linear2\", type = \"linear\" },\n"
                      "  { type = \"linear\" },\n"
                      "  { name = \"a b\", type = \"relu\" },\n"
                      "  { name = \"input\", type = \"relu\" },\n"
                      "  { name = \"s.relu1\", type = \"relu\" },\n"
                      "  { name = \"s\", type = \"b\" },\n"
                      "  { name = \"..\", type = \"relu\" },\n"
                      "]\n[block.b]\nlayers = [{ type = \"relu\" }]\n"),
            "run.toml:4:3: error: a second layer is called 'linear2'; give this one a name of its own\n"
            "run.toml:5:12: error: 'a b' is no name for a layer: letters, digits, '_', '-' and single dots\n"
            "run.toml:6:12: error: no layer can be called 'input': that is the sample, or the block's input\n"
            "run.toml:9:12: error: '..' is no name for a layer: letters, digits, '_', '-' and single dots\n"
            "run.toml:12:11: error: a second layer is called 's.relu1'; give this one a name of its own");
}

TEST(NetworkSpec, LayersThatAreNone) {
  EXPECT_EQ(errors_of("input = [4]\nlayers = [\n  { name = \"x\" },\n  3,\n  { type = \"\" },\n  { type = 7 },\n"
                      "  { type = \"add\", inputs = [\"x\"] },\n]\n"),
            "run.toml:3:3: error: a layer needs 'type'\n"
            "run.toml:4:3: error: expected a layer, such as { type = \"relu\" }, got the integer 3\n"
            "run.toml:5:12: error: a layer's type is empty\n"
            "run.toml:6:12: error: 'type' in a layer: expected a string, got the integer 7");
}

TEST(NetworkSpec, TheTableItself) {
  EXPECT_EQ(errors_of("input = []\nlayers = [{ type = \"relu\" }]\n"),
            "run.toml:1:9: error: 'input' in [network] must have 1 to 8 extents, such as [3, 32, 32]");
  EXPECT_EQ(errors_of("input = [0]\nlayers = [{ type = \"relu\" }]\n"),
            "run.toml:1:10: error: 'input' in [network] must be from 1 to 2147483647, got 0");
  EXPECT_EQ(errors_of("input = [2000000000, 2000000000, 2000000000]\nlayers = [{ type = \"relu\" }]\n"),
            "run.toml:1:9: error: 'input' in [network]: a sample of more than 2^40 elements");
  EXPECT_EQ(errors_of("layer = 1\n"),
            "run.toml:1:1: error: [network] needs 'input'\n"
            "run.toml:1:1: error: [network] has no layers\n"
            "run.toml:1:1: error: unknown key 'layer' in [network] (did you mean 'layers'?)");
  EXPECT_EQ(errors_of("input = [1]\nlayers = 3\n"),
            "run.toml:2:10: error: 'layers' in [network]: expected a list, got the integer 3");
}

TEST(NetworkSpec, WorkIsBounded) {
  std::string huge = "input = [1]\nlayers = [{ type = \"b0\", repeat = 10000 }]\n", empty = huge, chain = huge;
  for (int i = 0; i < 6; ++i) {
    const std::string next = fmt::format("[block.b{}]\nlayers = [{{ type = \"b{}\", repeat = 10000 }}]\n", i, i + 1);
    huge += next;
    empty += next;
  }
  EXPECT_THAT(errors_of(huge + "[block.b6]\nlayers = [{ type = \"relu\" }]\n"), HasSubstr("more than 50000 layers"));
  EXPECT_THAT(errors_of(empty + "[block.b6]\nlayers = [{ typo = \"relu\" }]\n"), HasSubstr("more than 50000 layers"));
  for (int i = 0; i < 1000; ++i) chain += fmt::format("[block.b{}]\nlayers = [{{ type = \"b{}\" }}]\n", i, i + 1);
  EXPECT_THAT(errors_of(chain), HasSubstr("more than 64 blocks inside each other"));
}

}  // namespace
}  // namespace dtrain::config
