// Pictures in files of their own, JPEG or PNG, that are decoded when they are read: a folder for each class, or a list.
// Values are between 0 and 1.
//
//   [data.train]
//   format = "images"
//   folder = "train"            train/<class>/….jpg: classes are the folders' names, sorted
//   list = "train.csv"          instead: lines of "path,class", or path, tab, class; paths as seen from the list
//   max_pixels = 67108864       of one picture; more are refused before they are decoded
//   transforms = […]
//   limit = …
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/check.h"
#include "base/crc32c.h"
#include "data/array_dataset.h"
#include "data/image_list.h"
#include "data/image_source.h"
#include "data/pixels.h"
#include "data/registry.h"

namespace dtrain::data {
namespace {

constexpr uint64_t kMaxFile = uint64_t{1} << 30;

// Bytes as numbers between 0 and 1, channels first. Grey becomes three equal channels, colour becomes grey by ITU-R
// 601-2 as Pillow does it: (19595 R + 38470 G + 7471 B + 2^15) / 2^16.
Image to_image(const Pixels& pixels, int64_t channels) {
  constexpr float kScale = 1.0f / 255.0f;
  Image image = make_image({channels, pixels.height, pixels.width});
  const auto n = static_cast<size_t>(pixels.height * pixels.width);
  const uint8_t* from = pixels.bytes.data();
  if (pixels.channels == 1) {
    for (size_t c = 0; c < static_cast<size_t>(channels); ++c)
      for (size_t i = 0; i < n; ++i) image.values[c * n + i] = static_cast<float>(from[i]) * kScale;
  } else if (channels == 3) {
    for (size_t i = 0; i < n; ++i)
      for (size_t c = 0; c < 3; ++c) image.values[c * n + i] = static_cast<float>(from[3 * i + c]) * kScale;
  } else {
    for (size_t i = 0; i < n; ++i) {
      const uint32_t grey = (19595u * from[3 * i] + 38470u * from[3 * i + 1] + 7471u * from[3 * i + 2] + 0x8000u) >> 16;
      image.values[i] = static_cast<float>(grey) * kScale;
    }
  }
  return image;
}

class ImageFiles final : public ImageSource {
 public:
  ImageFiles(const FileSystem& files, ImageList list, int64_t channels, int64_t max_pixels, Digest digest)
      : files_(files), list_(std::move(list)), channels_(channels), max_pixels_(max_pixels), digest_(digest) {
    for (const ImageList::Item& item : list_.items) max_label_ = std::max(max_label_, int64_t{item.label});
  }

  int64_t size() const override { return static_cast<int64_t>(list_.items.size()); }
  const LabelSpec& labels() const override { return spec_; }
  int64_t max_label() const override { return max_label_; }
  std::span<const std::string> label_names() const override { return list_.classes; }
  std::string name(int64_t index) const override { return fmt::format("'{}'", list_.path(static_cast<size_t>(index))); }
  Digest digest() const override { return digest_; }

  Status read(const Draw& draw, Image& image, LabelOut label) const override {
    DTRAIN_CHECK(draw.index >= 0 && draw.index < size(), "sample {} of {}", draw.index, size());
    const auto at = static_cast<size_t>(draw.index);
    const std::string path = list_.path(at);
    DTRAIN_TRY_ASSIGN(const std::string content, files_.read_file(path, kMaxFile));
    Result<Pixels> pixels = decode_image(std::as_bytes(std::span(content.data(), content.size())), max_pixels_);
    if (!pixels) return fail(ExitCode::kData, fmt::format("cannot decode '{}': {}", path, pixels.error().message));
    image = to_image(*pixels, channels_);
    label.classes[0] = list_.items[at].label;
    return {};
  }

 private:
  const FileSystem& files_;
  ImageList list_;
  int64_t channels_, max_pixels_;
  Digest digest_;
  LabelSpec spec_;
  int64_t max_label_ = 0;
};

// All names and labels; of up to kDigestFiles files, evenly spaced, size and the first and last 4 KiB: reading millions
// of files before a run would take longer than many a run. And the first picture's pixels, since another version of a
// decoder may make others of the same file.
Result<Digest> digest_of(const FileSystem& files, const ImageList& list, int64_t max_pixels) {
  constexpr size_t kDigestFiles = 1024;
  constexpr uint64_t kPiece = 4096;
  Sha256 hash;
  hash.update("image files ");
  for (const std::string& name : list.classes) hash.update(fmt::format("{} {} ", name.size(), name));
  for (const ImageList::Item& item : list.items)
    hash.update(fmt::format("{} {} {} ", item.name.size(), item.name, item.label));
  const size_t n = list.items.size(), looked_at = std::min(n, kDigestFiles);
  std::vector<std::byte> piece(kPiece);
  for (size_t i = 0; i < looked_at; ++i) {
    DTRAIN_TRY_ASSIGN(const auto file, files.open(list.path(i * n / looked_at)));
    const uint64_t size = file->size();
    const auto part = std::span(piece).first(std::min(size, kPiece));
    hash.update(fmt::format("{} ", size));
    for (const uint64_t offset : {uint64_t{0}, size - part.size()}) {
      DTRAIN_TRY(file->read(offset, part));
      hash.update(part);
    }
  }
  DTRAIN_TRY_ASSIGN(const std::string first, files.read_file(list.path(0), kMaxFile));
  const Result<Pixels> pixels = decode_image(std::as_bytes(std::span(first.data(), first.size())), max_pixels);
  if (pixels) hash.update(std::as_bytes(std::span(pixels->bytes)));  // else read() will say why not
  return hash.finish();
}

std::unique_ptr<Dataset> make_images(config::TableReader& table, const DatasetContext& context) {
  const std::string folder = table.path("folder"), list_file = table.path("list");
  if (table.has("folder") == table.has("list"))
    table.error(table.has("list") ? "list" : "format", "format images needs folder or list, one of them");
  const int64_t max_pixels = table.integer("max_pixels", int64_t{1} << 26, 1, int64_t{1} << 32);
  table.also_known("limit");
  const int64_t limit = table.has("limit") ? table.integer("limit", 1, 1) : 0;
  const Shape& input = context.network_input;
  const bool fits = input.rank() == 3 && (input[0] == 1 || input[0] == 3);
  if (!fits)
    table.error("format", fmt::format("images are [1, height, width] or [3, height, width], the network's input is {}",
                                      to_string(input)));
  TransformList transforms = TransformList::read(table, {fits ? input[0] : 3, 0, 0}, context);
  const ImageShape& after = transforms.shape();
  if (!transforms.empty() && !after.fixed())
    table.error(
        "transforms",
        "images have sizes of their own after these transforms; end with a resize to [height, width] or a crop");
  if (!table.diagnostics().ok()) return nullptr;

  const char* key = folder.empty() ? "list" : "folder";
  Result<ImageList> list = folder.empty()
                               ? list_images(context.files, list_file, context.label_classes, context.labelled)
                           : context.labelled ? images_in_folder(context.files, folder)
                                              : unlabelled_images(context.files, folder);
  if (list && limit > 0) list->keep(static_cast<size_t>(limit));
  Result<Digest> digest{};
  if (list) digest = digest_of(context.files, *list, max_pixels);
  if (!list || !digest) {
    report(table, key, !list ? list.error() : digest.error());
    return nullptr;
  }
  const Shape sample = transforms.empty() ? input : Shape{after.channels, after.height, after.width};
  auto source = std::make_unique<ImageFiles>(context.files, std::move(*list), input[0], max_pixels, *digest);
  return make_image_dataset(std::move(source), std::move(transforms), sample);
}

const DatasetRegistration kRegistration("images", make_images);

}  // namespace
}  // namespace dtrain::data
