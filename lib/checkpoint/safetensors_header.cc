#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>

#include "checkpoint/safetensors.h"

namespace dtrain::checkpoint {
namespace {

constexpr const char* kMetadataKey = "__metadata__";

tl::unexpected<Error> bad(std::string reason) { return fail(ExitCode::kCheckpoint, std::move(reason)); }

// Receives the header's JSON piece by piece and keeps nothing but tensors and metadata, so that a hostile header costs
// no more memory than its own length times a small constant. Every callback returns false to end the parsing.
class HeaderHandler final : public nlohmann::json_sax<nlohmann::json> {
 public:
  bool null() override { return unexpected("null"); }
  bool boolean(bool) override { return unexpected("a boolean"); }
  bool number_float(double, const std::string&) override { return unexpected("a fraction"); }
  bool binary(binary_t&) override { return unexpected("binary data"); }
  bool number_integer(int64_t value) override { return unexpected(fmt::format("{}", value)); }

  bool number_unsigned(uint64_t value) override {
    if (place_ != Place::kShape && place_ != Place::kOffsets) return unexpected(fmt::format("{}", value));
    if (value > static_cast<uint64_t>(std::numeric_limits<int64_t>::max()))
      return refuse(fmt::format("tensor '{}': {} is too large", current_.name, value));
    std::vector<uint64_t>& list = place_ == Place::kShape ? shape_ : offsets_;
    if (list.size() == (place_ == Place::kShape ? kMaxRank : 2))
      return refuse(fmt::format("tensor '{}': its {} has too many numbers", current_.name, key_));
    list.push_back(value);
    return true;
  }

  bool string(std::string& value) override {
    if (place_ == Place::kMetadata) {
      if (!metadata_.emplace(key_, value).second) return refuse(fmt::format("metadata '{}' is there twice", key_));
      return true;
    }
    if (place_ != Place::kTensor || key_ != "dtype") return unexpected(fmt::format("'{}'", value));
    std::optional<DType> dtype = dtype_by_name(value);
    if (!dtype)
      return refuse(fmt::format("tensor '{}' has type '{}', which is not supported (known: F32, F64, I64, U8, I32)",
                                current_.name, value));
    current_.dtype = *dtype;
    return true;
  }

  bool start_object(size_t) override {
    switch (place_) {
      case Place::kStart:
        place_ = Place::kTop;
        return true;
      case Place::kTop:
        if (key_ == kMetadataKey) {
          place_ = Place::kMetadata;
          return true;
        }
        place_ = Place::kTensor;
        current_ = {};
        current_.name = key_;
        has_dtype_ = has_shape_ = has_offsets_ = false;
        shape_.clear();
        offsets_.clear();
        return true;
      default:
        return unexpected("an object");
    }
  }

  bool key(std::string& value) override {
    key_ = value;
    if (place_ == Place::kTop && !names_.insert(value).second) return refuse(fmt::format("'{}' is there twice", value));
    if (place_ == Place::kTensor) {
      bool* has = value == "dtype"          ? &has_dtype_
                  : value == "shape"        ? &has_shape_
                  : value == "data_offsets" ? &has_offsets_
                                            : nullptr;
      if (has == nullptr) return refuse(fmt::format("tensor '{}' has an unknown key '{}'", current_.name, value));
      if (*has) return refuse(fmt::format("tensor '{}' has '{}' twice", current_.name, value));
      *has = true;
    }
    return true;
  }

  bool end_object() override {
    if (place_ == Place::kMetadata) {
      place_ = Place::kTop;
      return true;
    }
    if (place_ == Place::kTop) {
      place_ = Place::kEnd;
      return true;
    }
    place_ = Place::kTop;
    return finish_tensor();
  }

  bool start_array(size_t) override {
    if (place_ == Place::kTensor && key_ == "shape") {
      place_ = Place::kShape;
    } else if (place_ == Place::kTensor && key_ == "data_offsets") {
      place_ = Place::kOffsets;
    } else {
      return unexpected("a list");
    }
    return true;
  }

  bool end_array() override {
    place_ = Place::kTensor;
    return true;
  }

  bool parse_error(size_t position, const std::string&, const nlohmann::json::exception&) override {
    return refuse(fmt::format("the header is not JSON at byte {}", position));
  }

  std::vector<TensorInfo> tensors_;
  Metadata metadata_;
  std::string reason_;

 private:
  enum class Place { kStart, kTop, kMetadata, kTensor, kShape, kOffsets, kEnd };
  static constexpr size_t kMaxRank = 32;

  bool refuse(std::string reason) {
    reason_ = std::move(reason);
    return false;
  }

  bool unexpected(std::string_view what) {
    if (place_ == Place::kStart) return refuse(fmt::format("the header is {}, not an object", what));
    const std::string where = place_ == Place::kTop || place_ == Place::kMetadata
                                  ? fmt::format("'{}'", key_)
                                  : fmt::format("tensor '{}': '{}'", current_.name, key_);
    return refuse(fmt::format("{} cannot be {}", where, what));
  }

  bool finish_tensor() {
    const char* missing = !has_dtype_ ? "dtype" : !has_shape_ ? "shape" : !has_offsets_ ? "data_offsets" : nullptr;
    if (missing != nullptr) return refuse(fmt::format("tensor '{}' has no {}", current_.name, missing));
    if (offsets_.size() != 2 || offsets_[0] > offsets_[1])
      return refuse(fmt::format("tensor '{}': data_offsets must be [begin, end]", current_.name));
    current_.shape = Shape(std::vector<int64_t>(shape_.begin(), shape_.end()));
    current_.begin = offsets_[0];
    current_.bytes = offsets_[1] - offsets_[0];
    const std::optional<uint64_t> bytes = bytes_of(current_.dtype, current_.shape);
    if (!bytes || *bytes != current_.bytes)
      return refuse(fmt::format("tensor '{}' of type {} and shape {} has {} bytes", current_.name,
                                name_of(current_.dtype), to_string(current_.shape), current_.bytes));
    tensors_.push_back(std::move(current_));
    return true;
  }

  Place place_ = Place::kStart;
  std::string key_;
  std::set<std::string> names_;
  TensorInfo current_;
  bool has_dtype_ = false, has_shape_ = false, has_offsets_ = false;
  std::vector<uint64_t> shape_, offsets_;
};

// Sorted by their place the tensors must follow each other without hole or overlap, from 0 to the end of the data.
Status check_places(const std::vector<TensorInfo>& tensors, uint64_t data_bytes) {
  std::vector<const TensorInfo*> by_place;
  for (const TensorInfo& t : tensors) by_place.push_back(&t);
  std::sort(by_place.begin(), by_place.end(), [](const TensorInfo* a, const TensorInfo* b) {
    return std::pair(a->begin, a->begin + a->bytes) < std::pair(b->begin, b->begin + b->bytes);
  });
  uint64_t at = 0;
  for (const TensorInfo* t : by_place) {
    if (t->begin < at) return bad(fmt::format("tensor '{}' overlaps the one before it", t->name));
    if (t->begin > at)
      return bad(fmt::format("there is a hole of {} bytes before tensor '{}'", t->begin - at, t->name));
    at += t->bytes;
    if (at > data_bytes)
      return bad(
          fmt::format("tensor '{}' ends at byte {} of {} bytes of data: the file is cut", t->name, at, data_bytes));
  }
  if (at != data_bytes) return bad(fmt::format("{} bytes belong to no tensor", data_bytes - at));
  return {};
}

}  // namespace

std::optional<uint64_t> bytes_of(DType dtype, const Shape& shape) {
  constexpr uint64_t kMost = std::numeric_limits<int64_t>::max();
  uint64_t bytes = size_of(dtype);
  bool zero = false;
  for (int64_t d : shape.dims()) {
    if (d < 0) return std::nullopt;
    if (d == 0) {
      zero = true;
      continue;
    }
    if (bytes > kMost / static_cast<uint64_t>(d)) return std::nullopt;
    bytes *= static_cast<uint64_t>(d);
  }
  return zero ? 0 : bytes;
}

Result<SafetensorsHeader> parse_safetensors_header(std::string_view json, uint64_t data_bytes) {
  if (json.empty() || json.front() != '{') return bad("the header does not begin with '{'");
  HeaderHandler handler;
  bool parsed = false;
  try {
    parsed = nlohmann::json::sax_parse(json.begin(), json.end(), &handler);
  } catch (const nlohmann::json::exception& e) {
    return bad(e.what());
  }
  if (!parsed) return bad(handler.reason_);
  DTRAIN_TRY(check_places(handler.tensors_, data_bytes));
  std::sort(handler.tensors_.begin(), handler.tensors_.end(),
            [](const TensorInfo& a, const TensorInfo& b) { return a.name < b.name; });
  return SafetensorsHeader{std::move(handler.tensors_), std::move(handler.metadata_)};
}

}  // namespace dtrain::checkpoint
