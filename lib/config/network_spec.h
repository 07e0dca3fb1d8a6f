// The network of a run file with its blocks unrolled: a flat list of layers, each with its full name and explicit
// inputs. It knows no layer types: what is no block is a layer, for the graph to know.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "config/diagnostics.h"
#include "config/task_device.h"
#include "config/value.h"

namespace dtrain::config {

constexpr std::string_view kSampleName = "input";

struct LayerSpec {
  std::string name;    // full: "stage1.0.c1"
  std::string prefix;  // "stage1.0.", which the names in its own list begin with
  std::string type;
  std::vector<std::string> inputs;  // full names of layers above, or "input" for the sample; at least one
  Value table;                      // the other keys, block arguments filled in; for a TableReader
  Position position;                // of the layer
  Position type_position;
  std::optional<TaskDevice> device;  // its own, or that of the block around it
};

struct NetworkSpec {
  std::vector<int64_t> input;  // extents of one sample, without the batch
  std::vector<LayerSpec> layers;
  std::vector<std::string> blocks;  // the names that are defined; for "did you mean" beside the layer types
};

// Every mistake goes to `diagnostics`; the result is usable only if there is none. The rules:
// - A layer reads the one before it unless it says `inputs`. Without a name it is <type><n>, n counting all layers of
//   that type in the same list from 1, named ones too.
// - [network.block.NAME] with `args` (names and defaults) and `layers` is used like a type: its layers get the prefix
//   NAME-OF-THE-LAYER., with `repeat` above 1 a chain of them NAME.0., NAME.1. … Its output is its last layer's.
// - `device` on a layer says which task computes it; on a block it holds for its layers that have none of their own.
// - Inside a block "input" is the group's input, "$width" stands for an argument, only its own layers can be seen.
NetworkSpec expand_network(const Value& network, Diagnostics& diagnostics);

}  // namespace dtrain::config
