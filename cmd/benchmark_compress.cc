// dtrain benchmark compress: how fast gradients are encoded and decoded, one thread, in the units of the wire.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <vector>

#include "base/clock.h"
#include "base/philox.h"
#include "benchmark_parts.h"
#include "compress/compressor.h"
#include "flags.h"
#include "tensor/parameter.h"

namespace dtrain::cmd {
namespace {

struct CompressFlags {
  int rounds = 20;
  bool json = false;
};

constexpr size_t kElements = kChunkElements, kChunks = 64;  // 16 MiB of gradients: in no cache but the last

// The best of all rounds, in GB/s of fp32.
struct Speeds {
  double encode = 0, decode = 0, add = 0;
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
  Speeds best;
  for (int round = 0; round < rounds; ++round) {
    best.encode = std::max(best.encode, speed([&](size_t c, std::span<float>) {
                             std::vector<float*> at;
                             for (size_t a = 0; a < method.state_arrays(); ++a)
                               at.push_back(state[c * method.state_arrays() + a].data());
                             sizes[c] =
                                 method.encode({.step = round, .samples = 32},
                                               {gradients.data() + c * kElements, kElements}, at.data(), encoded[c]);
                           }));
    best.decode = std::max(best.decode, speed([&](size_t c, std::span<float> out) {
                             method.codec().decode({encoded[c].data(), sizes[c]}, out);
                           }));
    best.add = std::max(best.add, speed([&](size_t c, std::span<float> into) {
                          method.codec().decode_add({encoded[c].data(), sizes[c]}, into);
                        }));
  }
  best.bytes = sizes[0];
  return best;
}

ExitCode run(const CompressFlags& flags) {
  std::vector<float> gradients(kElements * kChunks);
  const Philox random(1, stream_id("gradients"), 0, 0);
  for (size_t i = 0; i < gradients.size(); ++i) gradients[i] = 0.01f * standard_normal(random.at(i));
  std::string lines;
  if (!flags.json)
    fmt::print("GB/s of fp32, one thread, best of {}\n{:8}{:>10}{:>10}{:>10}{:>14}\n", flags.rounds, "", "encode",
               "decode", "add", "times smaller");
  for (const std::string& name : compress::MethodRegistry::instance().names()) {
    config::Diagnostics diagnostics;
    const auto method =
        compress::read_method(config::Value(name, config::Position()), "compression", {.momentum = 0.9}, diagnostics);
    if (!method) continue;  // "none"
    const Speeds s = measure(*method, gradients, flags.rounds);
    if (flags.json) {
      lines += fmt::format(R"({}"{}": {{"encode": {:.2f}, "decode": {:.2f}, "add": {:.2f}, "bytes": {}}})",
                           lines.empty() ? "" : ", ", name, s.encode, s.decode, s.add, s.bytes);
    } else {
      fmt::print("{:8}{:10.1f}{:10.1f}{:10.1f}{:14.1f}\n", name, s.encode, s.decode, s.add,
                 static_cast<double>(kElements * sizeof(float)) / static_cast<double>(s.bytes));
    }
  }
  if (flags.json)
    fmt::print(R"({{"elements": {}, "unit": "GB/s of fp32", "methods": {{{}}}}})"
               "\n",
               kElements, lines);
  return ExitCode::kDone;
}

}  // namespace

BenchmarkPart benchmark_compress(CLI::App& app) {
  auto* part = app.add_subcommand("compress", "time encoding and decoding of gradients");
  auto flags = std::make_shared<CompressFlags>();
  add_flag_value(*part, "--rounds", flags->rounds, "how often each is measured")
      ->check(CLI::Range(1, 100000))
      ->capture_default_str();
  add_switch(*part, "--json", flags->json, "print one line of JSON");
  return {part, [flags] { return run(*flags); }};
}

}  // namespace dtrain::cmd
