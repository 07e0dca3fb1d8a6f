// dtrain params: the tensors of a running job, as a store of named values.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <cstdio>
#include <memory>

#include "base/nearest.h"
#include "checkpoint/safetensors.h"
#include "commands.h"
#include "data/npy.h"
#include "guest.h"
#include "net/handshake.h"
#include "observe/metrics_file.h"
#include "process.h"
#include "tensor/parameter.h"
#include "watch/npy_writer.h"
#include "watch/tensor_stats.h"

namespace dtrain::cmd {
namespace {

struct ParamsFlags {
  GuestFlags guest;
  bool json = false;
  std::vector<std::string> names;
  std::string name;  // of put
  std::string out;
  bool gradient = false;
  std::optional<int64_t> version;
  std::string file;  // of put
};

const char* kind_text(uint8_t kind) {
  switch (static_cast<ParameterKind>(kind)) {
    case ParameterKind::kTrainable:
      return "trainable";
    case ParameterKind::kStatistic:
      return "statistic";
    case ParameterKind::kFrozen:
      return "frozen";
    case ParameterKind::kSparse:
      return "sparse";
  }
  return "?";
}

std::string json_shape(const wire::NamedTensor& t) { return fmt::format("[{}]", fmt::join(t.shape, ", ")); }
std::string json_version(int64_t version) { return version < 0 ? "null" : std::to_string(version); }
// "version 12", "step 12" of a gradient.
std::string version_text(int64_t version, bool gradient) {
  if (version < 0) return "each block at its own version";
  return fmt::format("{} {}", gradient ? "step" : "version", version);
}

Status list(const ParamsFlags& flags) {
  DTRAIN_TRY_ASSIGN(const auto run, RunGuest::open(flags.guest));
  DTRAIN_TRY_ASSIGN(const auto chosen, run->find(flags.names));
  DTRAIN_TRY_ASSIGN(const std::optional<int64_t> version, run->version());
  int64_t elements = 0;
  size_t widest = 4;
  for (const uint32_t i : chosen) widest = std::max(widest, run->tensors()[i].name.size());
  std::string json;
  if (!flags.json) fmt::print("{:<{}}  {:<16} {:<9} {:>12}\n", "name", widest, "shape", "kind", "elements");
  for (const uint32_t i : chosen) {
    const wire::NamedTensor& t = run->tensors()[i];
    const int64_t n = Shape(t.shape).elements();
    elements += n;
    if (flags.json)
      json += fmt::format(R"({}{{"name": {}, "shape": {}, "kind": "{}", "elements": {}}})", json.empty() ? "" : ", ",
                          observe::json_string(t.name), json_shape(t), kind_text(t.kind), n);
    else
      fmt::print("{:<{}}  {:<16} {:<9} {:>12}\n", net::printable(t.name), widest, to_string(Shape(t.shape)),
                 kind_text(t.kind), n);
  }
  if (flags.json)
    fmt::print("{{\"run\": {}, \"version\": {}, \"tensors\": [{}]}}\n", observe::json_string(run->info().name),
               json_version(version.value_or(-1)), json);
  else
    fmt::print("{} tensors, {} elements; run '{}' {}\n", chosen.size(), elements, net::printable(run->info().name),
               version == -1 ? "has not begun" : "at " + version_text(version.value_or(-1), false));
  return {};
}

Status stat(const ParamsFlags& flags) {
  DTRAIN_TRY_ASSIGN(const auto run, RunGuest::open(flags.guest));
  DTRAIN_TRY_ASSIGN(const auto chosen, run->find_readable(flags.names, flags.gradient));
  DTRAIN_TRY_ASSIGN(const auto reading, run->read(chosen, flags.gradient, flags.version));
  size_t widest = 4;
  for (const uint32_t i : chosen) widest = std::max(widest, run->tensors()[i].name.size());
  if (flags.json)
    fmt::print("{{\"run\": {}, \"gradient\": {}, \"version\": {}, \"tensors\": [",
               observe::json_string(run->info().name), flags.gradient, json_version(reading->version()));
  else
    fmt::print("{:<{}}  {:>12} {:>12} {:>12} {:>12} {:>12} {:>10}\n", "name", widest, "min", "max", "mean", "std",
               "norm", "not finite");
  for (size_t i = 0; i < chosen.size(); ++i) {
    const std::string& name = run->tensors()[chosen[i]].name;
    const watch::TensorStats s = watch::stats_of(reading->values(i));
    if (flags.json)
      fmt::print(
          R"({}{{"name": {}, "elements": {}, "min": {}, "max": {}, "mean": {}, "std": {}, "norm": {}, "not_finite": {}}})",
          i > 0 ? ", " : "", observe::json_string(name), reading->values(i).size(), observe::json_number(s.min),
          observe::json_number(s.max), observe::json_number(s.mean), observe::json_number(s.std),
          observe::json_number(s.norm), s.not_finite);
    else
      fmt::print("{:<{}}  {:>12.5g} {:>12.5g} {:>12.5g} {:>12.5g} {:>12.5g} {:>10}\n", net::printable(name), widest,
                 s.min, s.max, s.mean, s.std, s.norm, s.not_finite);
  }
  if (flags.json)
    fmt::print("]}}\n");
  else
    fmt::print("{}{} of run '{}'\n", flags.gradient ? "gradients, " : "",
               version_text(reading->version(), flags.gradient), net::printable(run->info().name));
  return {};
}

// A line for each row of the innermost axis.
void print_values(const wire::NamedTensor& t, std::span<const float> values, const std::string& at) {
  constexpr size_t kMost = 1000;
  const Shape shape(t.shape);
  fmt::print("{} {} {}\n", net::printable(t.name), to_string(shape), at);
  const size_t row = shape.rank() == 0 ? 1 : static_cast<size_t>(std::max<int64_t>(shape.at(-1), 1));
  const size_t shown = std::min(values.size(), kMost);
  for (size_t i = 0; i < shown; ++i) fmt::print("{}{}", values[i], (i + 1) % row == 0 || i + 1 == shown ? "\n" : " ");
  if (shown < values.size()) fmt::print("… {} more; -o FILE.npy takes all of them\n", values.size() - shown);
}

Status write_safetensors(FileSystem& files, const std::string& path, const RunGuest& run,
                         const std::vector<uint32_t>& chosen, const watch::ConsistentRead& reading, bool gradient) {
  std::vector<checkpoint::TensorDeclaration> declared;
  for (const uint32_t i : chosen)
    declared.push_back({run.tensors()[i].name, DType::kF32, Shape(run.tensors()[i].shape)});
  checkpoint::Metadata metadata{{"run", run.info().name}, {"of", gradient ? "gradients" : "values"}};
  if (reading.version() >= 0) metadata[gradient ? "step" : "version"] = std::to_string(reading.version());
  DTRAIN_TRY_ASSIGN(auto writer, checkpoint::SafetensorsWriter::create(files, path, std::move(declared), metadata));
  const std::vector<checkpoint::TensorDeclaration> order = writer.tensors();
  for (const checkpoint::TensorDeclaration& d : order) {
    size_t i = 0;
    while (run.tensors()[chosen[i]].name != d.name) ++i;
    DTRAIN_TRY(writer.write(d.name, std::as_bytes(reading.values(i))));
  }
  DTRAIN_TRY(writer.finish());
  return {};
}

Status get(const ParamsFlags& flags) {
  const bool npy = flags.out.ends_with(".npy"), safetensors = flags.out.ends_with(".safetensors");
  if (!flags.out.empty() && !npy && !safetensors)
    return fail(ExitCode::kUsage, fmt::format("{} should end in .npy (one tensor) or .safetensors", flags.out));
  DTRAIN_TRY_ASSIGN(const auto run, RunGuest::open(flags.guest));
  DTRAIN_TRY_ASSIGN(const auto chosen, run->find_readable(flags.names, flags.gradient));
  if (npy && chosen.size() != 1)
    return fail(
        ExitCode::kUsage,
        fmt::format("{} tensors are meant, and a .npy file holds one: give -o FILE.safetensors", chosen.size()));
  DTRAIN_TRY_ASSIGN(const auto reading, run->read(chosen, flags.gradient, flags.version));
  const std::string at =
      fmt::format("{}{}", flags.gradient ? "gradient of " : "at ", version_text(reading->version(), flags.gradient));
  RealFileSystem files;
  if (npy) {
    DTRAIN_TRY(watch::write_npy(files, flags.out, Shape(run->tensors()[chosen[0]].shape), reading->values(0)));
  } else if (safetensors) {
    DTRAIN_TRY(write_safetensors(files, flags.out, *run, chosen, *reading, flags.gradient));
  } else {
    for (size_t i = 0; i < chosen.size(); ++i) print_values(run->tensors()[chosen[i]], reading->values(i), at);
    return {};
  }
  fmt::print("{}: {} tensor{} {}\n", flags.out, chosen.size(), chosen.size() == 1 ? "" : "s", at);
  return {};
}

Status put(const ParamsFlags& flags) {
  RealFileSystem files;
  DTRAIN_TRY_ASSIGN(const data::Array array, data::read_npy(files, flags.file));
  if (array.type != data::ElementType::kF32)
    return fail(ExitCode::kData, fmt::format("{} does not hold floats of 4 bytes, which a run's tensors are made of; "
                                             "numpy.save(…, x.astype('float32')) writes some",
                                             flags.file));
  std::vector<float> values(static_cast<size_t>(array.shape.elements()));  // longer there than the connections
  data::convert(array, 0, values);
  for (size_t i = 0; i < values.size(); ++i)
    if (!std::isfinite(values[i]))
      return fail(ExitCode::kData, fmt::format("{}: element {} is {}", flags.file, i, values[i]));
  DTRAIN_TRY_ASSIGN(const auto run, RunGuest::open(flags.guest));
  DTRAIN_TRY_ASSIGN(const auto chosen, run->find({&flags.name, 1}));
  if (chosen.size() != 1)
    return fail(ExitCode::kUsage, fmt::format("'{}' means {} tensors; put replaces one", flags.name, chosen.size()));
  const wire::NamedTensor& t = run->tensors()[chosen[0]];
  if (static_cast<ParameterKind>(t.kind) == ParameterKind::kSparse)
    return fail(ExitCode::kUsage,
                fmt::format("'{}' was not replaced: it is a sparse table, of which no one puts the whole", t.name));
  if (array.shape != Shape(t.shape))
    return fail(ExitCode::kData, fmt::format("'{}' has the shape {}, {} the shape {}", t.name,
                                             to_string(Shape(t.shape)), flags.file, to_string(array.shape)));
  DTRAIN_TRY_ASSIGN(const int64_t version, run->put(chosen[0], values));
  fmt::print("'{}' is replaced since version {}\n", t.name, version);
  return {};
}

using Flags = std::shared_ptr<ParamsFlags>;

CLI::App* add(CLI::App& app, const Flags& flags, const char* name, const char* text) {
  CLI::App* sub = app.add_subcommand(name, text);
  flags->guest.declare(*sub);
  return sub;
}

void add_reading(CLI::App& sub, const Flags& flags) {
  sub.add_flag("--gradient", flags->gradient, "the mean gradient of a step instead of the values");
  sub.add_option("--version,--step", flags->version,
                 "of this version, or the gradient of this step; it may be one to come")
      ->check(CLI::Range(int64_t{0}, INT64_MAX));
}

}  // namespace

const Command kParams{
    "params", "read and write the tensors of a running job", [](CLI::App& app) -> std::function<ExitCode()> {
      auto flags = std::make_shared<ParamsFlags>();
      app.require_subcommand(1);
      CLI::App* ls = add(app, flags, "ls", "names, shapes, kinds and the version");
      CLI::App* st = add(app, flags, "stat", "smallest, largest, mean, deviation, norm, and what is not finite");
      CLI::App* ge = add(app, flags, "get", "values, printed or into a file");
      CLI::App* pu = add(app, flags, "put", "replace a tensor by what a .npy file holds");
      for (CLI::App* sub : {ls, st}) {
        sub->add_option("NAME", flags->names, "names or patterns with * and ?; default all");
        sub->add_flag("--json", flags->json, "one JSON object");
      }
      ge->add_option("NAME", flags->names, "names or patterns with * and ?")->required();
      ge->add_option("-o,--out", flags->out, "FILE.npy for one tensor, FILE.safetensors for any number")
          ->type_name("FILE");
      add_reading(*st, flags);
      add_reading(*ge, flags);
      pu->add_option("NAME", flags->name, "the tensor")->required();
      pu->add_option("FILE", flags->file, "a .npy file of its shape, of floats of 4 bytes")->required();
      return [flags, ls, st, ge] {
        catch_signals();
        const Status done = ls->parsed()   ? list(*flags)
                            : st->parsed() ? stat(*flags)
                            : ge->parsed() ? get(*flags)
                                           : put(*flags);
        return done ? ExitCode::kDone : report(done.error());
      };
    }};

}  // namespace dtrain::cmd
