// A sender of one chunk for tests: a method, read as a run file says it, and what it remembers.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "base/philox.h"
#include "compress/method.h"
#include "config/parse.h"

namespace dtrain::compress {

// Reads `text`, the value of a key: `"2bit"`, `{ type = "2bit", threshold = 1 }`.
inline std::shared_ptr<const Method> read_text(const std::string& text, config::Diagnostics& diagnostics,
                                               const MethodSetting& setting = {}) {
  const auto root = config::parse_toml("compression = " + text, "run.toml");
  EXPECT_TRUE(root) << text;
  return read_method(*root->find("compression"), "train.compression", setting, diagnostics);
}

struct Sender {
  explicit Sender(const std::string& text, size_t elements, const MethodSetting& setting = {}) : n(elements) {
    config::Diagnostics diagnostics;
    method = read_text(text, diagnostics, setting);
    EXPECT_TRUE(diagnostics.ok()) << diagnostics.status().error().message;
    state.resize(method->state_arrays(), std::vector<float>(n));
  }

  std::vector<std::byte> encode(const std::vector<float>& values, const EncodeContext& context = {}) {
    std::vector<float*> at;
    for (auto& array : state) at.push_back(array.data());
    std::vector<std::byte> out(method->most_bytes(n));
    out.resize(method->encode(context, values, at.data(), out));
    EXPECT_TRUE(method->codec().valid(out, n));
    return out;
  }
  std::vector<float> decode(ByteSpan payload) const {
    std::vector<float> out(n, 77.0f);
    method->codec().decode(payload, out);
    return out;
  }
  // What arrives.
  std::vector<float> send(const std::vector<float>& values, const EncodeContext& context = {}) {
    return decode(encode(values, context));
  }

  size_t n;
  std::shared_ptr<const Method> method;
  std::vector<std::vector<float>> state;
};

inline std::vector<float> normal(size_t n, uint32_t seed, float scale = 1.0f) {
  const Philox random(seed, 1, 2, 3);
  std::vector<float> v(n);
  for (size_t i = 0; i < n; ++i) v[i] = scale * standard_normal(random.at(i));
  return v;
}

inline bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

constexpr size_t kSizes[] = {1, 2, 15, 16, 17, 255, 256, 257, 511, 512, 513, 1000, 4097, 65'536};

}  // namespace dtrain::compress
