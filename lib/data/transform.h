// One change of an image between reading and the batch, and the registry of all kinds by name, into which each kind's
// file registers itself before main(). Immutable; const methods are thread-safe. What is random about a transform it
// draws from the stream that it is given, so that an image depends on the run's seed, the sample's place in the run and
// the transform's place in the list alone.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/philox.h"
#include "base/result.h"
#include "config/table_reader.h"
#include "data/image.h"

namespace dtrain::data {

constexpr int64_t kMaxExtent = 1 << 14;  // of what a transform makes

class Transform {
 public:
  virtual ~Transform() = default;
  virtual bool random() const { return false; }
  virtual ImageShape shape_after(const ImageShape& before) const { return before; }
  // The error is the bare reason (ExitCode::kData): an image that is too small.
  virtual Status apply(Image& image, const Philox& stream) const = 0;
};

// Reads the kind's own keys, but does not finish() the table; holds them against what is known of the images. Null, or
// anything, after an error in the diagnostics.
using TransformFactory = std::unique_ptr<Transform> (*)(config::TableReader& table, const ImageShape& before);

class TransformRegistration {
 public:
  TransformRegistration(std::string type, TransformFactory factory);
};

std::vector<std::string> transform_types();                   // sorted
TransformFactory transform_factory(const std::string& type);  // null where unknown

// Uniform in [0, n): the high half of word · n, uneven by less than n / 2^32.
inline int64_t uniform_below(uint32_t word, int64_t n) {
  return static_cast<int64_t>((word * static_cast<uint64_t>(n)) >> 32);
}

// For transforms that cut out a part: the error where the images, of a fixed size or the one at hand, are smaller.
void expect_at_least(config::TableReader& table, const ImageShape& images, int64_t height, int64_t width);
Status check_at_least(const ImageShape& image, int64_t height, int64_t width);

}  // namespace dtrain::data
