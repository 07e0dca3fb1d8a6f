#include "graph/parameter_keys.h"

#include <fmt/format.h>

#include <cmath>

namespace dtrain::graph {
namespace {

constexpr double kLargestValue = 1e30, kLargestMultiplier = 1e6;
constexpr double kRoot2 = 1.4142135623730951, kRoot3 = 1.7320508075688772;

const std::vector<std::string> kInitializers = {
    "zeros",          "ones",          "constant", "uniform",    "normal",    "truncated_normal", "xavier",
    "xavier_uniform", "xavier_normal", "he",       "he_uniform", "he_normal", "orthogonal"};

struct Fans {
  double in, out;
};

// As torch.nn.init has it: of [outputs, inputs, …] the product of what follows is a receptive field, which counts in
// both.
Fans fans_of(const Shape& shape) {
  double field = 1;
  for (int a = 2; a < shape.rank(); ++a) field *= static_cast<double>(shape[a]);
  return {static_cast<double>(shape[1]) * field, static_cast<double>(shape[0]) * field};
}

// The initializer `type`, whose other keys are in `keys`. Always something usable; mistakes are reported.
class InitializerReader {
 public:
  InitializerReader(config::TableReader& keys, std::string what, const Shape& shape)
      : keys_(keys), what_(std::move(what)), shape_(shape) {}

  Initializer read(const std::string& type) {
    if (type == "zeros") return Initializer::constant(0.0f);
    if (type == "ones") return Initializer::constant(1.0f);
    if (type == "constant") return Initializer::constant(value(require("value")));
    if (type == "uniform") return read_uniform();
    if (type == "normal") return {Initializer::Kind::kNormal, read_mean(), read_deviation()};
    if (type == "truncated_normal") return {Initializer::Kind::kTruncatedNormal, read_mean(), read_deviation()};
    if (type == "orthogonal") return read_orthogonal();
    return read_scaled(type);
  }

 private:
  static float value(double x) { return static_cast<float>(x); }
  double require(const char* key) { return keys_.require_number(key, -kLargestValue, kLargestValue); }

  float read_mean() { return value(keys_.number("mean", 0.0, -kLargestValue, kLargestValue)); }
  float read_deviation() { return value(keys_.require_number("std", 0.0, kLargestValue)); }

  Initializer read_uniform() {
    const double low = require("low"), high = require("high");
    if (keys_.has("low") && keys_.has("high") && low > high)
      keys_.error("high", fmt::format("{}: 'high' = {} is below 'low' = {}", what_, high, low));
    return {Initializer::Kind::kUniform, value((low + high) / 2), value((high - low) / 2)};
  }

  bool is_matrix(const std::string& type) {
    if (shape_.rank() >= 2) return true;
    keys_.diagnostics().error(keys_.position(),
                              fmt::format("{}: '{}' needs a parameter of two or more axes, but this one's shape is {}",
                                          what_, type, to_string(shape_)));
    return false;
  }

  Initializer read_orthogonal() {
    const float gain = value(keys_.positive_number("gain", 1.0));
    if (!is_matrix("orthogonal")) return {};
    if (shape_.elements() > Initializer::kMaxOrthogonal) {
      keys_.diagnostics().error(
          keys_.position(),
          fmt::format("{}: 'orthogonal' is for parameters of at most {} elements, but this one's shape "
                      "is {}",
                      what_, Initializer::kMaxOrthogonal, to_string(shape_)));
      return {};
    }
    return {Initializer::Kind::kOrthogonal, 0.0f, gain, shape_[0], shape_.elements() / shape_[0]};
  }

  // Glorot and Bengio, "Understanding the difficulty of training deep feedforward neural networks" (2010); He et al.,
  // "Delving deep into rectifiers" (2015).
  Initializer read_scaled(const std::string& type) {
    const bool he = type.starts_with("he");
    const bool uniform = type == "xavier" || type.ends_with("_uniform");
    const double gain = keys_.positive_number("gain", he ? kRoot2 : 1.0);
    static const std::vector<std::string> kModes = {"fan_in", "fan_out"};
    const std::string mode = he ? keys_.choice("mode", "fan_in", kModes) : "";
    if (!is_matrix(type)) return {};
    const Fans fans = fans_of(shape_);
    const double scale = he ? (mode == "fan_in" ? fans.in : fans.out) : (fans.in + fans.out) / 2;
    const double deviation = gain / std::sqrt(scale);
    return uniform ? Initializer::uniform(value(kRoot3 * deviation)) : Initializer::normal(value(deviation));
  }

  config::TableReader& keys_;
  const std::string what_;
  const Shape& shape_;
};

// init = "he", or init = { type = "he", mode = "fan_out" }.
Initializer read_initializer(const config::Value& init, const std::string& what, const Shape& shape,
                             config::Diagnostics& diagnostics) {
  if (!init.is_string() && !init.is_table()) {
    diagnostics.error(init.position(), fmt::format("{}: expected a name such as \"he\", or a table, got {}", what,
                                                   config::describe(init)));
    return {};
  }
  config::Value table = init;
  if (init.is_string()) table = config::Value(config::Value::Table{{"type", init, init.position()}}, init.position());
  config::TableReader keys(table, diagnostics, what);
  const std::string type = keys.require_choice("type", kInitializers);
  if (type.empty()) return {};
  const Initializer initializer = InitializerReader(keys, what, shape).read(type);
  keys.finish();
  return initializer;
}

ParameterChoice own_choice(const LayerParameter& parameter) {
  return {parameter.initializer, parameter.kind, 1, 1, "", {}};
}

ParameterChoice read_choice(const config::Value& table, const std::string& where, const LayerParameter& parameter,
                            LayerSetup& setup) {
  config::Diagnostics& diagnostics = setup.keys().diagnostics();
  ParameterChoice choice = own_choice(parameter);
  const std::string what = fmt::format("'{}' of {}", where, setup.what());
  config::TableReader keys(table, diagnostics, what);
  if (const config::Value* init = keys.value("init"))
    choice.initializer =
        read_initializer(*init, fmt::format("'{}.init' of {}", where, setup.what()), parameter.shape, diagnostics);
  choice.rate_multiplier = static_cast<float>(keys.number("lr_mult", 1.0, 0.0, kLargestMultiplier));
  choice.decay_multiplier = static_cast<float>(keys.number("decay_mult", 1.0, 0.0, kLargestMultiplier));
  const bool frozen = keys.boolean("frozen", false);
  choice.share = keys.string("share", "");
  choice.share_position = keys.position_of("share");
  keys.finish();
  if (parameter.kind == ParameterKind::kStatistic) {
    for (const char* key : {"lr_mult", "decay_mult", "frozen", "share"})
      if (keys.has(key)) keys.error(key, fmt::format("{} is a running statistic, which takes 'init' only", what));
  } else if (frozen) {
    choice.kind = ParameterKind::kFrozen;
    for (const char* key : {"lr_mult", "decay_mult"})
      if (keys.has(key)) keys.error(key, fmt::format("{} is frozen: '{}' would change nothing", what, key));
  }
  if (parameter.kind == ParameterKind::kSparse) {
    if (frozen)
      keys.error(
          "frozen",
          fmt::format("{} is a sparse table, which is there to be trained: leave 'frozen' or 'sparse' out", what));
    if (choice.initializer.kind == Initializer::Kind::kOrthogonal)
      keys.error("init",
                 fmt::format("{} is a sparse table, of which each row begins by itself: not 'orthogonal'", what));
  }
  if (keys.has("share")) {
    for (const char* key : {"init", "lr_mult", "decay_mult", "frozen"})
      if (keys.has(key))
        keys.error(key, fmt::format("{} is the parameter of another layer: say '{}' there", what, key));
  }
  return choice;
}

}  // namespace

std::vector<ParameterChoice> read_parameter_keys(LayerSetup& setup) {
  std::vector<ParameterChoice> choices;
  for (const LayerParameter& p : setup.parameters()) choices.push_back(own_choice(p));
  const config::Value* params = setup.keys().table("params");
  if (!params) return choices;
  if (choices.empty()) {
    setup.key_error("has no parameters, and so no 'params'", "params");
    return choices;
  }
  config::TableReader tables(*params, setup.keys().diagnostics(), fmt::format("'params' of {}", setup.what()));
  for (size_t i = 0; i < choices.size(); ++i) {
    const LayerParameter& p = setup.parameters()[i];
    if (const config::Value* table = tables.table(p.suffix))
      choices[i] = read_choice(*table, "params." + p.suffix, p, setup);
  }
  tables.finish();
  return choices;
}

}  // namespace dtrain::graph
