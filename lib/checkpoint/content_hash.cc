#include "checkpoint/content_hash.h"

#include "base/check.h"
#include "checkpoint/safetensors.h"

namespace dtrain::checkpoint {

void ContentHash::number(uint64_t value) {
  std::byte bytes[8];
  store_le(bytes, value);
  hash_.update(ByteSpan(bytes));
}

void ContentHash::text(std::string_view value) {
  number(value.size());
  hash_.update(value);
}

void ContentHash::end() { DTRAIN_CHECK(missing_ == 0, "tensor '{}' lacks {} bytes", last_, missing_); }

void ContentHash::begin(std::string_view name, DType dtype, const Shape& shape) {
  end();
  DTRAIN_CHECK(!any_ || last_ < name, "'{}' comes after '{}'", name, last_);
  any_ = true;
  last_ = name;
  text(name);
  text(name_of(dtype));
  number(static_cast<uint64_t>(shape.rank()));
  for (int64_t d : shape.dims()) number(static_cast<uint64_t>(d));
  const std::optional<uint64_t> bytes = bytes_of(dtype, shape);
  DTRAIN_CHECK(bytes.has_value(), "tensor '{}' of shape {}", name, to_string(shape));
  missing_ = *bytes;
  number(missing_);
}

void ContentHash::update(ByteSpan bytes) {
  DTRAIN_CHECK(bytes.size() <= missing_, "tensor '{}' gets too many bytes", last_);
  missing_ -= bytes.size();
  hash_.update(bytes);
}

Digest ContentHash::finish() {
  end();
  return hash_.finish();
}

}  // namespace dtrain::checkpoint
