#include "data/idx.h"

#include <fmt/format.h>

#include <optional>

#include "data/array_dataset.h"
#include "data/gunzip.h"
#include "data/image_transforms.h"
#include "data/registry.h"

namespace dtrain::data {
namespace {

constexpr size_t kMaxAxes = 4;

tl::unexpected<Error> bad(const std::string& path, std::string_view reason) {
  return fail(ExitCode::kData, fmt::format("'{}' is not a valid IDX file: {}", path, reason));
}

// The bytes of a plain file or the inflated ones of a compressed file, front to back.
class Source {
 public:
  Source(ByteSpan file, bool compressed) : plain_(file) {
    if (compressed) gunzip_.emplace(file);
  }

  // An upper bound of what is there altogether.
  uint64_t most() const { return gunzip_ ? plain_.size() * Gunzip::kMaxRatio : plain_.size(); }

  Result<size_t> read(MutableByteSpan into) {
    if (gunzip_) return gunzip_->read(into);
    const size_t n = std::min(into.size(), plain_.size());
    std::copy_n(plain_.begin(), n, into.begin());
    plain_ = plain_.subspan(n);
    return n;
  }

 private:
  ByteSpan plain_;
  std::optional<Gunzip> gunzip_;
};

uint32_t big_endian(const std::byte* from) {
  uint32_t value = 0;
  for (int i = 0; i < 4; ++i) value = value << 8 | static_cast<uint32_t>(from[i]);
  return value;
}

Result<Array> parse(Source& source, const std::string& path) {
  std::byte header[4 + 4 * kMaxAxes];
  const auto fill = [&](MutableByteSpan into, std::string_view what) -> Status {
    Result<size_t> n = source.read(into);
    if (!n) return bad(path, n.error().message);
    if (*n < into.size()) return bad(path, fmt::format("it ends within its {}", what));
    return {};
  };
  DTRAIN_TRY(fill(MutableByteSpan(header).first(4), "header"));
  if (header[0] != std::byte{0} || header[1] != std::byte{0})
    return bad(path, fmt::format("it begins with {:02x} {:02x} instead of two zero bytes", header[0], header[1]));
  if (header[2] != std::byte{8})
    return bad(path, fmt::format("its elements are of type {:02x}; only bytes (08) are read", header[2]));
  const auto axes = static_cast<size_t>(header[3]);
  if (axes < 1 || axes > kMaxAxes) return bad(path, fmt::format("it has {} axes; 1 to {} are read", axes, kMaxAxes));
  DTRAIN_TRY(fill(MutableByteSpan(header).subspan(4, 4 * axes), "header"));
  std::vector<int64_t> dims;
  for (size_t i = 0; i < axes; ++i) dims.push_back(big_endian(header + 4 + 4 * i));
  Array array;
  array.shape = Shape(std::move(dims));
  const std::optional<uint64_t> bytes = array_bytes(array.type, array.shape);
  // The declared size is believed only as far as the file could hold it.
  if (!bytes || *bytes > source.most())
    return bad(path,
               fmt::format("its header declares the shape {}, more than the file can hold", to_string(array.shape)));
  array.storage = Buffer(*bytes);
  DTRAIN_TRY(
      fill(MutableByteSpan(array.storage.data(), *bytes), fmt::format("elements of shape {}", to_string(array.shape))));
  std::byte more[1];
  Result<size_t> n = source.read(more);
  if (!n) return bad(path, n.error().message);
  if (*n > 0) return bad(path, fmt::format("it goes on after its elements of shape {}", to_string(array.shape)));
  return array;
}

std::unique_ptr<Dataset> make_idx(config::TableReader& table, const DatasetContext& context) {
  const std::string images_path = table.require_path("images");
  table.also_known("labels");
  const std::string labels_path = context.labelled ? table.require_path("labels") : "";
  Shape sample_shape = context.network_input;
  const auto open = [&](const char* key, const std::string& path) -> std::optional<Array> {
    if (path.empty()) return std::nullopt;
    Result<Array> array = read_idx(context.files, path);
    if (array) return std::move(*array);
    report(table, key, array.error());
    return std::nullopt;
  };
  std::optional<Array> images = open("images", images_path), labels = open("labels", labels_path);
  if (images && !context.labelled) labels = no_labels(*images);
  if (images) {
    const Shape found = images->shape;
    if (found.rank() == 3) {
      images->shape = Shape{found[0], 1, found[1], found[2]};
    } else if (found.rank() != 4) {
      report(table, "images",
             {ExitCode::kData, fmt::format("'{}' has shape {}, not images", images_path, to_string(found))});
      images.reset();
    }
  }
  if (images) sample_shape = Shape({images->shape.dims().begin() + 1, images->shape.dims().end()});
  if (labels && labels->shape.rank() != 1) {
    report(table, "labels",
           {ExitCode::kData,
            fmt::format("'{}' has shape {}, one label an image was expected", labels_path, to_string(labels->shape))});
    labels.reset();
  }
  ArrayOptions options = ArrayOptions::read(table, true, sample_shape, context);
  ImageTransforms transforms;
  table.also_known("transforms");
  if (images) transforms = ImageTransforms::read(table, sample_shape, context);
  if (!images || !labels || !table.diagnostics().ok()) return nullptr;
  Result<std::unique_ptr<Dataset>> dataset =
      make_array_dataset(std::move(*images), std::move(*labels), std::move(options));
  if (dataset) return transforms.wrap(std::move(*dataset), table);
  report(table, "labels", dataset.error());
  return nullptr;
}

const DatasetRegistration kRegistration("idx", make_idx);

}  // namespace

Result<Array> read_idx(const FileSystem& files, const std::string& path) {
  DTRAIN_TRY_ASSIGN(auto file, files.open(path));
  Buffer content(file->size());
  const MutableByteSpan bytes(content.data(), content.size());
  DTRAIN_TRY(file->read(0, bytes));
  Source source(bytes, Gunzip::is_gzip(bytes));
  DTRAIN_TRY_ASSIGN(Array array, parse(source, path));
  Sha256 hash;
  hash.update(bytes);
  array.digest = hash.finish();
  array.path = path;
  return array;
}

}  // namespace dtrain::data
