// dtrain benchmark compress: how fast gradients are encoded and decoded, one thread, in the units of the wire.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <vector>

#include "base/clock.h"
#include "base/philox.h"
#include "benchmark_parts.h"
#include "compress/compressor.h"
#include "report_flags.h"
#include "tensor/parameter.h"

namespace dtrain::cmd {
namespace {

struct CompressFlags {
  int rounds = 20;
  ReportFlags report;
};

constexpr size_t kElements = kChunkElements, kChunks = 64;  // 16 MiB of gradients: in no cache but the last

// Of all rounds, in GB/s of fp32.
struct Speeds {
  std::vector<double> encode, decode, add;
  size_t bytes = 0;  // of an encoded chunk
};

Speeds measure(const compress::Method& method, const std::vector<float>& gradients, int rounds) {
  SteadyClock clock;
  std::vector<std::vector<float>> state(method.state_arrays() * kChunks, std::vector<float>(kElements));
  std::vector<std::vector<std::byte>> encoded(kChunks, std::vector<std::byte>(method.most_bytes(kElements)));
  std::vector<float> sums(gradients.size());
  std::vector<size_t> sizes(kChunks);
  const auto speed = [&](auto&& one) {
    const Instant before = clock.now();
    for (size_t c = 0; c < kChunks; ++c) one(c, std::span(sums).subspan(c * kElements, kElements));
    return static_cast<double>(gradients.size() * sizeof(float)) / static_cast<double>(clock.now() - before);
  };
  Speeds all;
  for (int round = -1; round < rounds; ++round) {  // the first only warms memory
    const double encode = speed([&](size_t c, std::span<float>) {
      std::vector<float*> at;
      for (size_t a = 0; a < method.state_arrays(); ++a) at.push_back(state[c * method.state_arrays() + a].data());
      sizes[c] = method.encode({.step = round + 1, .samples = 32}, {gradients.data() + c * kElements, kElements},
                               at.data(), encoded[c]);
    });
    const double decode = speed([&](size_t c, std::span<float> out) {
      method.codec().decode({encoded[c].data(), sizes[c]}, out);
    });
    const double add = speed([&](size_t c, std::span<float> into) {
      method.codec().decode_add({encoded[c].data(), sizes[c]}, into);
    });
    if (round < 0) continue;
    all.encode.push_back(encode);
    all.decode.push_back(decode);
    all.add.push_back(add);
  }
  all.bytes = sizes[0];
  return all;
}

Status time_methods(const CompressFlags& flags) {
  DTRAIN_TRY_ASSIGN(const auto then, flags.report.earlier("compress", ""));
  std::vector<float> gradients(kElements * kChunks);
  const Philox random(1, stream_id("gradients"), 0, 0);
  for (size_t i = 0; i < gradients.size(); ++i) gradients[i] = 0.01f * standard_normal(random.at(i));
  figures::Report r{.program = "dtrain " DTRAIN_VERSION, .part = "compress"};
  r.machine = measure_machine(1);
  r.title = fmt::format("GB/s of fp32 values, one thread, {} rounds", flags.rounds);
  r.settings = {{"elements", int64_t{kElements}}};
  for (const std::string& name : compress::MethodRegistry::instance().names()) {
    config::Diagnostics diagnostics;
    const auto method =
        compress::read_method(config::Value(name, config::Position()), "compression", {.momentum = 0.9}, diagnostics);
    if (!method) continue;  // "none"
    const Speeds s = measure(*method, gradients, flags.rounds);
    const std::string group =
        fmt::format("{}, {:.1f} times smaller", name,
                    static_cast<double>(kElements * sizeof(float)) / static_cast<double>(s.bytes));
    for (const auto& [what, values] : {std::pair("encode", &s.encode), {"decode", &s.decode}, {"add", &s.add}})
      r.figures.push_back(figures::summarise({.name = name + "." + what,
                                              .text = what,
                                              .unit = "GB/s",
                                              .group = group,
                                              .peak = r.machine.gbytes,
                                              .peak_of = "memory"},
                                             *values));
    r.also.emplace_back(name + "_bytes", static_cast<int64_t>(s.bytes));
  }
  return flags.report.print(r, then);
}

}  // namespace

BenchmarkPart benchmark_compress(CLI::App& app) {
  auto* part = app.add_subcommand("compress", "time encoding and decoding of gradients");
  auto flags = std::make_shared<CompressFlags>();
  add_flag_value(*part, "--rounds", flags->rounds, "how often each is measured")
      ->check(CLI::Range(1, 100000))
      ->capture_default_str();
  flags->report.declare(*part);
  return {part, [flags] {
            const Status done = time_methods(*flags);
            return done ? ExitCode::kDone : report(done.error());
          }};
}

}  // namespace dtrain::cmd
