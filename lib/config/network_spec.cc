#include "config/network_spec.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/nearest.h"
#include "config/table_reader.h"

namespace dtrain::config {
namespace {

constexpr size_t kMaxLayers = 50'000;
constexpr size_t kMaxVisits = 2 * kMaxLayers;  // bounds the work where mistakes keep layers from being added
constexpr size_t kMaxBlockDepth = 64;
constexpr int64_t kMaxRepeat = 10'000;
constexpr int64_t kMaxExtent = (int64_t{1} << 31) - 1;
constexpr int64_t kMaxElements = int64_t{1} << 40;
constexpr size_t kMaxRank = 8;

bool is_name(const std::string& name) {
  const bool letters = std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-' ||
           c == '.';
  });
  return letters && !name.empty() && name.front() != '.' && name.back() != '.' && name.find("..") == std::string::npos;
}

struct Block {
  const Value::Table* args = nullptr;  // null: none
  const Value::Array* layers = nullptr;
};

class Expander {
 public:
  Expander(NetworkSpec& out, Diagnostics& diagnostics) : out_(out), diagnostics_(diagnostics) {}

  void read_blocks(const Value& blocks) {
    for (const Entry& e : blocks.as_table()) {
      TableReader r(e.value, diagnostics_, fmt::format("block '{}'", e.key));
      Block block;
      if (const Value* args = r.table("args")) {
        block.args = &args->as_table();
        for (const Entry& arg : args->as_table()) check_argument_name(arg);
      }
      const Value* layers = r.list("layers");
      r.finish();
      if (!layers || layers->as_array().empty()) {
        if (e.value.is_table()) error(e.value.position(), fmt::format("block '{}' has no layers", e.key));
        continue;
      }
      block.layers = &layers->as_array();
      blocks_[e.key] = block;
    }
  }

  void mark_block_names(const Value& blocks) {
    for (const Entry& e : blocks.as_table()) out_.blocks.push_back(e.key);
  }

  // Adds a list of layers; the full name of the last one. `args`, null at the top, are what "$name" stands for.
  // `device`: of layers without one.
  std::string add_list(const Value::Array& layers, const std::string& prefix, const std::string& first_input,
                       const Value::Table* args, const std::optional<TaskDevice>& device) {
    List list{prefix, first_input, {{std::string(kSampleName), first_input}}, {}, device};
    for (size_t i = 0; i < layers.size() && !stopped_; ++i) {
      if (diagnostics_.full()) stopped_ = true;
      const Value layer = args ? substituted(layers[i], *args) : (reject_arguments(layers[i]), layers[i]);
      add_layer(layer, layers, i, list);
    }
    return list.previous;
  }

 private:
  struct List {
    std::string prefix;
    std::string previous;                      // full name
    std::map<std::string, std::string> local;  // what can be seen here: own name to full name
    std::map<std::string, int> counts;         // by type
    std::optional<TaskDevice> device;
  };

  void error(const Position& at, std::string message) { diagnostics_.error(at, std::move(message)); }

  void check_argument_name(const Entry& arg) {
    for (const char* taken : {"name", "type", "inputs", "repeat", "device"}) {
      if (arg.key == taken) error(arg.key_position, fmt::format("'{}' cannot be a block's argument", arg.key));
    }
  }

  // With every string "$x" replaced by the argument x.
  Value substituted(const Value& v, const Value::Table& args) {
    if (v.is_table()) {
      Value::Table entries;
      for (const Entry& e : v.as_table()) entries.push_back({e.key, substituted(e.value, args), e.key_position});
      return Value(std::move(entries), v.position());
    }
    if (v.is_array()) {
      Value::Array items;
      for (const Value& item : v.as_array()) items.push_back(substituted(item, args));
      return Value(std::move(items), v.position());
    }
    if (!v.is_string() || !v.as_string().starts_with('$')) return v;
    const std::string name = v.as_string().substr(1);
    std::vector<std::string> known;
    for (const Entry& arg : args) {
      if (arg.key == name) return arg.value;
      known.push_back(arg.key);
    }
    error(v.position(), fmt::format("'${}': this block has no argument '{}'{}", name, name, suggestion(name, known)));
    return v;
  }

  void reject_arguments(const Value& v) {
    if (v.is_table()) {
      for (const Entry& e : v.as_table()) reject_arguments(e.value);
    } else if (v.is_array()) {
      for (const Value& item : v.as_array()) reject_arguments(item);
    } else if (v.is_string() && v.as_string().starts_with('$')) {
      error(v.position(), fmt::format("'{}': arguments exist inside a block only", v.as_string()));
    }
  }

  void add_layer(const Value& layer, const Value::Array& siblings, size_t index, List& list) {
    if (++visits_ > kMaxVisits) return stop_at_limit(layer.position());
    if (!layer.is_table()) {
      error(layer.position(), fmt::format("expected a layer, such as {{ type = \"relu\" }}, got {}", describe(layer)));
      return;
    }
    TableReader r(layer, diagnostics_, "a layer");
    const std::string type = r.require_string("type");
    if (type.empty()) {
      if (const Value* v = layer.find("type"); v && v->is_string()) error(v->position(), "a layer's type is empty");
      // A later layer may name it as an input: that is no second mistake.
      if (const Value* name = layer.find("name"); name && name->is_string())
        list.local[name->as_string()] = list.previous;
      return;
    }
    const int count = ++list.counts[type];
    std::string name = r.string("name", fmt::format("{}{}", type, count));
    check_name(r, name, list);
    const std::vector<std::string> inputs = resolve_inputs(r, siblings, index, list);
    const std::string full = list.prefix + name;
    const std::optional<TaskDevice> device = read_device(r, layer, full, list);
    list.previous = blocks_.contains(type) ? add_block(layer, type, name, full, inputs, device)
                                           : add_plain(layer, type, full, list.prefix, inputs, device);
    list.local[std::move(name)] = list.previous;
  }

  std::optional<TaskDevice> read_device(TableReader& r, const Value& layer, const std::string& full, const List& list) {
    const Value* given = layer.find("device");
    if (!given) return list.device;
    const std::string text = r.string("device", "");
    if (!given->is_string()) return std::nullopt;
    return read_task_device(text, given->position(), fmt::format("layer '{}'", full), diagnostics_);
  }

  void check_name(TableReader& r, const std::string& name, const List& list) {
    if (name == kSampleName) {
      r.error("name", fmt::format("no layer can be called '{}': that is the sample, or the block's input", name));
    } else if (!is_name(name)) {
      r.error("name", fmt::format("'{}' is no name for a layer: letters, digits, '_', '-' and single dots", name));
    } else if (list.local.contains(name)) {
      r.error("name", fmt::format("a second layer is called '{}'; give this one a name of its own", name));
    }
  }

  std::vector<std::string> resolve_inputs(TableReader& r, const Value::Array& siblings, size_t index,
                                          const List& list) {
    const Value* given = r.list("inputs");
    if (!given || given->as_array().empty()) return {list.previous};
    std::vector<std::string> inputs;
    for (const Value& item : given->as_array()) {
      if (!item.is_string()) {
        error(item.position(), fmt::format("'inputs': expected the name of a layer, got {}", describe(item)));
        continue;
      }
      const std::string& name = item.as_string();
      if (auto found = list.local.find(name); found != list.local.end()) {
        inputs.push_back(found->second);
      } else {
        unknown_input(item, siblings, index, list);
      }
    }
    if (inputs.empty()) inputs.push_back(list.previous);
    return inputs;
  }

  void unknown_input(const Value& item, const Value::Array& siblings, size_t index, const List& list) {
    const std::string& name = item.as_string();
    for (size_t i = index; i < siblings.size(); ++i) {
      const Value* later = siblings[i].find("name");
      if (later && later->is_string() && later->as_string() == name) {
        return error(item.position(), fmt::format("input '{}' {}; a layer can read those above it", name,
                                                  i == index ? "is the layer itself" : "comes further down"));
      }
    }
    std::vector<std::string> visible;
    for (const auto& [own, full] : list.local) visible.push_back(own);
    error(item.position(), fmt::format("unknown input '{}'{}{}", name, suggestion(name, visible),
                                       list.prefix.empty() ? "" : "; inside a block only its own layers can be seen"));
  }

  void stop_at_limit(const Position& at) {
    error(at, fmt::format("the network has more than {} layers", kMaxLayers));
    stopped_ = true;
  }

  std::string add_plain(const Value& layer, const std::string& type, const std::string& full, const std::string& prefix,
                        std::vector<std::string> inputs, const std::optional<TaskDevice>& device) {
    if (out_.layers.size() >= kMaxLayers) {
      stop_at_limit(layer.position());
      return full;
    }
    // Within a list names were compared already; a dotted one can still meet a block's layer.
    if (is_name(full) && !names_.insert(full).second && full.find('.') != std::string::npos) {
      error(layer.position(), fmt::format("a second layer is called '{}'; give this one a name of its own", full));
    }
    LayerSpec spec{full,  prefix, type, std::move(inputs), layer, layer.position(), layer.find("type")->position(),
                   device};
    for (const char* key : {"name", "type", "inputs", "device"}) spec.table.erase(key);
    out_.layers.push_back(std::move(spec));
    return full;
  }

  std::string add_block(const Value& layer, const std::string& type, const std::string& name, const std::string& full,
                        const std::vector<std::string>& inputs, const std::optional<TaskDevice>& device) {
    const Block& block = blocks_.at(type);
    const Position& at = layer.find("type")->position();
    if (std::find(open_.begin(), open_.end(), type) != open_.end()) {
      error(at, fmt::format("blocks contain each other: {} -> {}", fmt::join(open_, " -> "), type));
      return full;
    }
    if (open_.size() >= kMaxBlockDepth) {
      error(at, fmt::format("more than {} blocks inside each other", kMaxBlockDepth));
      return full;
    }
    if (inputs.size() > 1) error(layer.find("inputs")->position(), fmt::format("block '{}' has one input", type));

    TableReader r(layer, diagnostics_, fmt::format("layer '{}'", name));
    const int64_t repeat = r.integer("repeat", 1, 1, kMaxRepeat);
    const Value::Table args = arguments(layer, type, block);
    open_.push_back(type);
    std::string last = inputs.front();
    for (int64_t i = 0; i < repeat && !stopped_; ++i) {
      const std::string prefix = repeat > 1 ? fmt::format("{}.{}.", full, i) : full + ".";
      last = add_list(*block.layers, prefix, last, &args, device);
    }
    open_.pop_back();
    return last;
  }

  // The defaults, with what the layer says in their place.
  Value::Table arguments(const Value& layer, const std::string& type, const Block& block) {
    Value::Table args = block.args ? *block.args : Value::Table{};
    std::vector<std::string> known;
    for (const Entry& arg : args) known.push_back(arg.key);
    for (const Entry& e : layer.as_table()) {
      if (e.key == "name" || e.key == "type" || e.key == "inputs" || e.key == "repeat" || e.key == "device") continue;
      auto arg = std::find_if(args.begin(), args.end(), [&e](const Entry& a) { return a.key == e.key; });
      if (arg != args.end()) {
        arg->value = e.value;
      } else if (e.key == "activation") {
        error(e.key_position, fmt::format("'activation' cannot follow a block; put it on the last layer of '{}', or a "
                                          "layer of that type behind this one",
                                          type));
      } else {
        error(e.key_position, fmt::format("block '{}' has no argument '{}'{}", type, e.key, suggestion(e.key, known)));
      }
    }
    return args;
  }

  NetworkSpec& out_;
  Diagnostics& diagnostics_;
  std::map<std::string, Block> blocks_;
  std::vector<std::string> open_;  // the blocks that are being unrolled, outermost first
  std::set<std::string> names_;
  size_t visits_ = 0;
  bool stopped_ = false;
};

std::vector<int64_t> read_input(TableReader& r) {
  std::vector<int64_t> input = r.require_integers("input", 1, kMaxExtent);
  const Value* given = r.value("input");
  if (!given || !given->is_array()) return {1};
  if (given->as_array().empty() || given->as_array().size() > kMaxRank) {
    r.error("input", fmt::format("'input' in [network] must have 1 to {} extents, such as [3, 32, 32]", kMaxRank));
    return {1};
  }
  int64_t elements = 1;
  for (const int64_t extent : input) {
    if (extent > kMaxElements / elements) {
      r.error("input", "'input' in [network]: a sample of more than 2^40 elements");
      return {1};
    }
    elements *= extent;
  }
  return input.empty() ? std::vector<int64_t>{1} : input;
}

}  // namespace

NetworkSpec expand_network(const Value& network, Diagnostics& diagnostics) {
  NetworkSpec spec;
  TableReader r(network, diagnostics, "[network]");
  spec.input = read_input(r);
  Expander expander(spec, diagnostics);
  if (const Value* blocks = r.table("block")) {
    expander.mark_block_names(*blocks);
    expander.read_blocks(*blocks);
  }
  const Value* layers = r.list("layers");
  if (layers && !layers->as_array().empty()) {
    expander.add_list(layers->as_array(), "", std::string(kSampleName), nullptr, std::nullopt);
  } else if (network.is_table() && (layers || !network.find("layers"))) {
    r.error("layers", "[network] has no layers");
  }
  r.finish();
  return spec;
}

}  // namespace dtrain::config
