#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "base/check.h"
#include "base/nearest.h"
#include "graph/layer_registry.h"
#include "graph/network.h"
#include "graph/parameter_keys.h"

namespace dtrain::graph {

// Network::build in parts: layers one by one, then what holds for the network as a whole.
class NetworkBuilder {
 public:
  NetworkBuilder(const config::NetworkSpec& spec, config::Diagnostics& diagnostics)
      : spec_(spec), diagnostics_(diagnostics) {}

  std::optional<Network> run() {
    if (!diagnostics_.ok()) return std::nullopt;
    network_.input_ = Shape(spec_.input);
    for (const config::LayerSpec& layer : spec_.layers) {
      add(layer);
      if (diagnostics_.full()) break;
    }
    if (!diagnostics_.ok()) return std::nullopt;
    check_loss();
    check_all_used();
    if (!diagnostics_.ok()) return std::nullopt;
    find_input_classes();
    if (!diagnostics_.ok()) return std::nullopt;
    return std::move(network_);
  }

 private:
  static constexpr ParameterIndex kOwn = -1;
  static constexpr int64_t kWholeFloats = int64_t{1} << 24;

  void add(const config::LayerSpec& spec) {
    index_[spec.name] = static_cast<int>(network_.layers_.size());
    NetworkLayer out;
    out.name = spec.name;
    out.type = spec.type;
    out.device = spec.device;
    std::unique_ptr<Layer> layer = LayerRegistry::instance().make(spec.type);
    if (!layer) {
      std::vector<std::string> known = LayerRegistry::instance().types();
      known.insert(known.end(), spec_.blocks.begin(), spec_.blocks.end());
      diagnostics_.error(spec.type_position, fmt::format("layer '{}': unknown type '{}'{}", spec.name, spec.type,
                                                         suggestion(spec.type, known)));
    }
    const bool inputs_known = resolve_inputs(spec, out);
    const bool good = layer && inputs_known && set_up(spec, *layer, out);
    if (layer && !inputs_known) read_keys(spec, *layer, out);
    if (!good) out.output = shape_of(out.inputs.front());  // a guess, so that the layers below can be read
    out.layer = std::move(layer);
    known_.push_back(good);
    network_.layers_.push_back(std::move(out));
  }

  // Whether every input has a shape: one whose layer is in error has none, and is no second mistake.
  bool resolve_inputs(const config::LayerSpec& spec, NetworkLayer& out) {
    bool known = true;
    for (const std::string& name : spec.inputs) {
      if (name == config::kSampleName) {
        out.inputs.push_back(kSampleInput);
        continue;
      }
      const auto at = index_.find(name);
      DTRAIN_CHECK(at != index_.end(), "layer {} reads {}, which is not above it", spec.name, name);
      out.inputs.push_back(at->second);
      known = known && known_[static_cast<size_t>(at->second)];
    }
    return known;
  }

  bool set_up(const config::LayerSpec& spec, Layer& layer, NetworkLayer& out) {
    const std::string what = fmt::format("layer '{}' ({})", spec.name, spec.type);
    const size_t errors = diagnostics_.errors().size();
    config::TableReader keys(spec.table, diagnostics_, what);
    std::vector<LayerSetup::Input> inputs;
    for (int i : out.inputs) {
      inputs.push_back({shape_of(i), describe(i)});
      if (i != kSampleInput && network_.layers_[static_cast<size_t>(i)].layer->is_loss()) {
        diagnostics_.error(spec.position, fmt::format("{}: reads the loss '{}', which must be the last layer", what,
                                                      network_.layers_[static_cast<size_t>(i)].name));
        return false;
      }
    }
    LayerSetup setup(what, spec.type, spec.name, keys, std::move(inputs));
    const std::optional<Shape> output = layer.setup(setup);
    if (!layer.is_loss()) read_activation(keys, setup, out);
    std::vector<ParameterChoice> choices;
    if (output) choices = read_parameter_keys(setup);
    keys.also_known("params");
    keys.finish();
    if (output) check_size(*output, setup);
    if (output) check_tokens(setup, out);
    std::vector<int32_t> places;  // that a sparse table is asked for
    if (output && has_sparse_table(setup)) places = find_places(setup, out);
    const std::vector<ParameterIndex> shared = find_shared(spec, setup, choices);
    if (!output || diagnostics_.errors().size() != errors) {
      DTRAIN_CHECK(!diagnostics_.ok(), "{} failed without saying why", what);
      return false;
    }
    out.output = *output;
    out.forward_flops = setup.flops();
    add_parameters(setup, choices, shared, out);
    if (!places.empty())
      network_.lookups_.push_back(
          {static_cast<int>(network_.layers_.size()), out.parameters.front(), std::move(places)});
    note_sample(setup, out);
    if (setup.labels()) network_.labels_ = *setup.labels();
    return true;
  }

  // The mistakes in a layer's own keys, where what it reads has no shape.
  void read_keys(const config::LayerSpec& spec, Layer& layer, NetworkLayer& out) {
    const std::string what = fmt::format("layer '{}' ({})", spec.name, spec.type);
    config::TableReader keys(spec.table, diagnostics_, what);
    std::vector<LayerSetup::Input> inputs;
    for (int i : out.inputs) inputs.push_back({shape_of(i), "input"});
    LayerSetup setup(what, spec.type, spec.name, keys, std::move(inputs), true);
    layer.setup(setup);
    if (!layer.is_loss()) read_activation(keys, setup, out);
    keys.also_known("params");
    keys.finish();
  }

  void read_activation(config::TableReader& keys, LayerSetup& setup, NetworkLayer& out) {
    const std::string name = keys.choice("activation", "none", activation_choices());
    if (const auto kind = ops::activation_by_name(name)) out.activation = setup.read_activation(*kind);
  }

  static std::vector<std::string> activation_choices() {
    std::vector<std::string> names = ops::activation_names();
    names.emplace_back("none");
    return names;
  }

  void check_size(const Shape& output, LayerSetup& setup) {
    const auto check = [&](const Shape& shape, std::string_view what) {
      double elements = 1;
      for (int64_t d : shape.dims()) elements *= static_cast<double>(d);
      if (elements > static_cast<double>(LayerSetup::kMaxElements))
        setup.error(fmt::format("{} of shape {} is larger than 2^40 elements", what, to_string(shape)));
    };
    check(output, "its output");
    for (const LayerParameter& p : setup.parameters()) check(p.shape, "its " + p.suffix);
  }

  // A look-up has no derivative: what it reads must not be trained.
  void check_tokens(LayerSetup& setup, const NetworkLayer& out) {
    for (size_t i = 0; i < out.inputs.size(); ++i) {
      const int at = out.inputs[i], input = static_cast<int>(i);
      if (at == kSampleInput || setup.token_classes(input) == 0) continue;
      if (network_.layers_[static_cast<size_t>(at)].needs_gradient)
        setup.error(fmt::format("looks class numbers up, but its {} is trained, which no look-up lets through",
                                setup.describe_input(input)));
    }
  }

  static bool has_sparse_table(const LayerSetup& setup) {
    const auto& parameters = setup.parameters();
    return !parameters.empty() && parameters.front().kind == ParameterKind::kSparse;
  }

  // Which of a sample's elements the layer's input is: only of these can be known ahead which rows they use. Empty
  // after an error.
  std::vector<int32_t> find_places(LayerSetup& setup, const NetworkLayer& out) {
    std::vector<int> way;  // layers between the sample and this one, last first
    int at = out.inputs.front();
    for (; at != kSampleInput; at = network_.layers_[static_cast<size_t>(at)].inputs.front()) way.push_back(at);
    std::vector<int32_t> places(static_cast<size_t>(network_.input_.elements()));
    std::iota(places.begin(), places.end(), 0);
    while (!way.empty()) {
      const NetworkLayer& layer = network_.layers_[static_cast<size_t>(way.back())];
      if (!picks(layer)) {
        setup.error(
            fmt::format("a sparse table is asked for rows before anything is computed, so that its input must be "
                        "the sample or a part of it (slice, reshape, flatten); its {}",
                        setup.describe_input(0)));
        return {};
      }
      layer.layer->pick(shape_of(layer.inputs.front()), layer.output, places);
      way.pop_back();
    }
    return places;
  }

  static bool picks(const NetworkLayer& layer) {
    return layer.inputs.size() == 1 && layer.activation.kind == ops::ActivationKind::kNone && layer.layer->picks();
  }

  // Whether a layer only picks elements of the sample, and all who read them look them up in sparse tables: such a
  // layer computes nothing.
  bool only_looked_up(size_t at) const {
    const std::vector<NetworkLayer>& layers = network_.layers_;
    if (!picks(layers[at])) return false;
    for (size_t i = at + 1; i < layers.size(); ++i)
      for (int input : layers[i].inputs)
        if (input == static_cast<int>(at) && !is_lookup(i) && !only_looked_up(i)) return false;
    return true;
  }
  bool is_lookup(size_t layer) const {
    return std::any_of(network_.lookups_.begin(), network_.lookups_.end(),
                       [&](const TableLookup& l) { return l.layer == static_cast<int>(layer); });
  }

  // A sample whose every reader looks it up arrives as I32 tokens, up to the largest that any of its elements may be.
  void find_input_classes() {
    for (size_t i = 0; i < network_.layers_.size(); ++i)
      for (int input : network_.layers_[i].inputs)
        if (input == kSampleInput && only_looked_up(i)) ++token_readers_;
    const bool tokens = token_readers_ == sample_readers_;
    std::vector<int64_t> of_place(static_cast<size_t>(tokens ? network_.input_.elements() : 0), input_classes_);
    for (const TableLookup& l : network_.lookups_) {
      const int64_t rows = network_.parameters_[static_cast<size_t>(l.table)].shape[0];
      if (!tokens && rows > kWholeFloats)
        diagnostics_.error(
            spec_.layers[static_cast<size_t>(l.layer)].position,
            fmt::format("layer '{}' ({}): a sample that is not all tokens arrives as fp32 numbers, which "
                        "are exact up to 2^24 only: 'vocab' must not be above it",
                        network_.layers_[static_cast<size_t>(l.layer)].name,
                        network_.layers_[static_cast<size_t>(l.layer)].type));
      for (int32_t place : l.places) {
        if (!tokens) continue;
        int64_t& classes = of_place[static_cast<size_t>(place)];
        classes = classes == 0 ? rows : std::min(classes, rows);
      }
    }
    if (tokens && sample_readers_ > 0)
      network_.input_classes_ = of_place.empty() ? 0 : *std::max_element(of_place.begin(), of_place.end());
  }

  // Of each parameter the one above that it is, or kOwn.
  std::vector<ParameterIndex> find_shared(const config::LayerSpec& spec, const LayerSetup& setup,
                                          const std::vector<ParameterChoice>& choices) {
    std::vector<ParameterIndex> shared;
    for (size_t i = 0; i < choices.size(); ++i) {
      shared.push_back(kOwn);
      if (choices[i].share.empty()) continue;
      const auto error = [&](std::string_view message) {
        diagnostics_.error(choices[i].share_position, fmt::format("{}: {}", setup.what(), message));
      };
      const auto at = parameter_index_.find(spec.prefix + choices[i].share);
      if (at == parameter_index_.end()) {
        if (!hidden_by_a_mistake(spec.prefix + choices[i].share)) error(no_parameter(spec, choices[i].share));
        continue;
      }
      const ParameterInfo& other = network_.parameters_[static_cast<size_t>(at->second)];
      const LayerParameter& own = setup.parameters()[i];
      if (other.kind == ParameterKind::kStatistic)
        error(fmt::format("'{}' is a running statistic, which cannot be shared", choices[i].share));
      else if ((other.kind == ParameterKind::kSparse) != (own.kind == ParameterKind::kSparse))
        error(fmt::format("'{}' is {} sparse table: only embeddings with sparse = true share one", choices[i].share,
                          other.kind == ParameterKind::kSparse ? "a" : "no"));
      else if (other.shape != own.shape)
        error(fmt::format("its {} has the shape {}, but '{}' has {}", own.suffix, to_string(own.shape),
                          choices[i].share, to_string(other.shape)));
      else
        shared.back() = at->second;
    }
    return shared;
  }

  // Whether that is a parameter of a layer above that is in error.
  bool hidden_by_a_mistake(std::string layer) const {
    for (size_t dot; (dot = layer.rfind('.')) != std::string::npos;) {
      layer.resize(dot);
      const auto at = index_.find(layer);
      if (at != index_.end())
        return static_cast<size_t>(at->second) < known_.size() && !known_[static_cast<size_t>(at->second)];
    }
    return false;
  }

  std::string no_parameter(const config::LayerSpec& spec, const std::string& share) const {
    for (size_t i = network_.layers_.size(); i < spec_.layers.size(); ++i) {
      const std::string& name = spec_.layers[i].name;
      if ((spec.prefix + share).starts_with(name + "."))
        return fmt::format("'{}' is of {}; a parameter can be that of a layer above", share,
                           name == spec.name ? "this layer itself" : "a layer further down");
    }
    std::vector<std::string> visible;
    for (const auto& [name, index] : parameter_index_)
      if (name.starts_with(spec.prefix)) visible.push_back(name.substr(spec.prefix.size()));
    const std::string near = nearest(share, visible);
    return fmt::format("there is no parameter '{}' above{}{}", share,
                       near.empty() ? "" : fmt::format(" (did you mean '{}'?)", near),
                       spec.prefix.empty() ? "" : "; inside a block only its own layers can be seen");
  }

  void add_parameters(const LayerSetup& setup, const std::vector<ParameterChoice>& choices,
                      const std::vector<ParameterIndex>& shared, NetworkLayer& out) {
    bool trains = false;
    for (size_t i = 0; i < choices.size(); ++i) {
      const LayerParameter& p = setup.parameters()[i];
      ParameterIndex index = shared[i];
      if (index == kOwn) {
        index = static_cast<ParameterIndex>(network_.parameters_.size());
        network_.parameters_.push_back({out.name + "." + p.suffix, p.shape, choices[i].kind, choices[i].rate_multiplier,
                                        choices[i].decay_multiplier});
        network_.initializers_.push_back(choices[i].initializer);
        if (choices[i].kind == ParameterKind::kTrainable) out.parameter_elements += p.shape.elements();
      }
      parameter_index_[out.name + "." + p.suffix] = index;
      out.parameters.push_back(index);
      const ParameterKind kind = network_.parameters_[static_cast<size_t>(index)].kind;
      trains = trains || kind == ParameterKind::kTrainable || kind == ParameterKind::kSparse;
    }
    out.needs_gradient = trains;
    for (int i : out.inputs)
      if (i != kSampleInput && network_.layers_[static_cast<size_t>(i)].needs_gradient) out.needs_gradient = true;
  }

  void note_sample(const LayerSetup& setup, const NetworkLayer& layer) {
    for (size_t i = 0; i < layer.inputs.size(); ++i) {
      if (layer.inputs[i] != kSampleInput) continue;
      ++sample_readers_;
      const int64_t classes = setup.token_classes(static_cast<int>(i));
      if (classes == 0) continue;
      ++token_readers_;
      if (has_sparse_table(setup)) continue;
      input_classes_ = input_classes_ == 0 ? classes : std::min(input_classes_, classes);
    }
  }

  const Shape& shape_of(int layer) const {
    return layer == kSampleInput ? network_.input_ : network_.layers_[static_cast<size_t>(layer)].output;
  }

  // Names the input and, where layers in between have only passed its shape on, the layer that made it.
  std::string describe(int input) const {
    if (input == kSampleInput) return fmt::format("input 'input' (the sample) of shape {}", to_string(network_.input_));
    const NetworkLayer& layer = network_.layers_[static_cast<size_t>(input)];
    std::string text = fmt::format("input '{}' ({}) of shape {}", layer.name, layer.type, to_string(layer.output));
    int made_by = input;
    while (made_by != kSampleInput && network_.layers_[static_cast<size_t>(made_by)].layer->keeps_shape())
      made_by = network_.layers_[static_cast<size_t>(made_by)].inputs.front();
    if (made_by == input) return text;
    if (made_by == kSampleInput) return text + ", which is the sample's";
    const NetworkLayer& maker = network_.layers_[static_cast<size_t>(made_by)];
    return text + fmt::format(", which '{}' ({}) made", maker.name, maker.type);
  }

  void check_loss() {
    const std::vector<NetworkLayer>& layers = network_.layers_;
    if (layers.empty()) return;
    for (size_t i = 0; i + 1 < layers.size(); ++i) {
      if (layers[i].layer->is_loss())
        diagnostics_.error(spec_.layers[i].position,
                           fmt::format("layer '{}' ({}) is a loss, but not the last layer: a network has exactly one "
                                       "loss, at its end",
                                       layers[i].name, layers[i].type));
    }
    if (layers.back().layer->is_loss()) return;
    diagnostics_.error(spec_.layers.back().position,
                       fmt::format("the last layer '{}' ({}) is no loss: end the network with one of {}",
                                   layers.back().name, layers.back().type, losses()));
  }

  static std::string losses() {
    std::string names;
    for (const std::string& type : LayerRegistry::instance().types())
      if (LayerRegistry::instance().make(type)->is_loss()) names += (names.empty() ? "" : ", ") + type;
    return names;
  }

  void check_all_used() {
    if (!diagnostics_.ok() || network_.layers_.empty()) return;
    std::vector<NetworkLayer>& layers = network_.layers_;
    std::vector<bool> used(layers.size(), false);
    used.back() = true;
    for (size_t i = layers.size(); i-- > 0;) {
      if (!used[i]) {
        diagnostics_.error(
            spec_.layers[i].position,
            fmt::format("layer '{}' ({}) does not reach the loss '{}': nothing reads it{}", layers[i].name,
                        layers[i].type, layers.back().name,
                        !layers[i].parameters.empty() ? ", so its parameters would never be trained" : ""));
        continue;
      }
      for (int input : layers[i].inputs)
        if (input != kSampleInput) used[static_cast<size_t>(input)] = true;
    }
    if (!layers.back().needs_gradient)
      diagnostics_.error(spec_.layers.back().position,
                         network_.parameters_.empty()
                             ? "the network has no parameters to train"
                             : "the network has nothing to train: all its parameters are frozen");
  }

  const config::NetworkSpec& spec_;
  config::Diagnostics& diagnostics_;
  Network network_;
  std::map<std::string, int> index_;                       // by full name
  std::map<std::string, ParameterIndex> parameter_index_;  // by the name that it has, or would have, in its layer
  std::vector<bool> known_;                                // whether the layer's output shape is known
  int sample_readers_ = 0, token_readers_ = 0;
  int64_t input_classes_ = 0;  // the fewest that a reader of the sample knows
};

std::optional<Network> Network::build(const config::NetworkSpec& spec, config::Diagnostics& diagnostics) {
  return NetworkBuilder(spec, diagnostics).run();
}

}  // namespace dtrain::graph
