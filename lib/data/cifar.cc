// The binary version of CIFAR-10 and CIFAR-100 (https://www.cs.toronto.edu/~kriz/cifar.html): records of one label, or
// of a coarse and a fine one, and 3 · 32 · 32 bytes, channels first.
//
//   [data.train]
//   format = "cifar"
//   files = ["data_batch_1.bin", …]
//   classes = 10          or 100
//   labels = "fine"       of 100 classes; or "coarse": 20 groups of them
//   scale = …, mean = […], std = […], limit = …
#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"
#include "data/array_dataset.h"
#include "data/image_transforms.h"
#include "data/registry.h"

namespace dtrain::data {
namespace {

const Shape kImage{3, 32, 32};
constexpr uint64_t kImageBytes = 3 * 32 * 32;
const std::string kLabels[] = {"fine", "coarse"};

// Where the label stands in a record, and what it may be.
struct Layout {
  uint64_t labels = 1;  // bytes before the image
  uint64_t label = 0;   // which of them
  int64_t classes = 10;
};

// The records of all files: images and labels apart.
struct Records {
  Array images, labels;
};

struct OpenFile {
  std::string path;
  std::unique_ptr<ReadableFile> file;
  uint64_t records = 0;
};

Result<std::vector<OpenFile>> open_files(const FileSystem& files, const std::vector<std::string>& paths,
                                         uint64_t record) {
  std::vector<OpenFile> opened;
  for (const std::string& path : paths) {
    DTRAIN_TRY_ASSIGN(auto file, files.open(path));
    const uint64_t bytes = file->size();
    if (bytes == 0 || bytes % record != 0)
      return fail(ExitCode::kData,
                  fmt::format("'{}' has {} bytes, which are no whole records of {}: not a binary file of this CIFAR",
                              path, bytes, record));
    opened.push_back({path, std::move(file), bytes / record});
  }
  return opened;
}

Result<Records> read_records(const FileSystem& files, const std::vector<std::string>& paths, const Layout& layout) {
  const uint64_t record = layout.labels + kImageBytes;
  DTRAIN_TRY_ASSIGN(const std::vector<OpenFile> opened, open_files(files, paths, record));
  uint64_t total = 0;
  for (const OpenFile& f : opened) total += f.records;
  Records out;
  out.images.shape = Shape({static_cast<int64_t>(total), 3, 32, 32});
  out.labels.shape = Shape({static_cast<int64_t>(total)});
  out.images.storage = Buffer(total * kImageBytes);
  out.labels.storage = Buffer(total);
  out.images.path = out.labels.path = paths.front();
  Sha256 hash;
  std::vector<std::byte> one(record);
  uint64_t at = 0;
  for (const OpenFile& f : opened)
    for (uint64_t i = 0; i < f.records; ++i, ++at) {
      DTRAIN_TRY(f.file->read(i * record, one));
      hash.update(one);
      const std::byte label = one[layout.label];
      if (static_cast<int64_t>(label) >= layout.classes)
        return fail(ExitCode::kData, fmt::format("'{}': record {} has the label {}, which is not one of {} classes",
                                                 f.path, i, static_cast<int>(label), layout.classes));
      out.labels.storage.data()[at] = label;
      std::copy(one.begin() + static_cast<std::ptrdiff_t>(layout.labels), one.end(),
                out.images.storage.data() + at * kImageBytes);
    }
  out.images.digest = hash.finish();
  return out;
}

std::unique_ptr<Dataset> make_cifar(config::TableReader& table, const DatasetContext& context) {
  const std::vector<std::string> paths = table.require_paths("files");
  const int64_t classes = table.require_integer("classes", 10, 100);
  if (classes != 10 && classes != 100) table.error("classes", "classes is 10 or 100: CIFAR-10 or CIFAR-100");
  const std::string labels = table.choice("labels", "fine", kLabels);
  if (classes == 10 && table.has("labels")) table.error("labels", "labels is a choice of CIFAR-100 (classes = 100)");
  ArrayOptions options = ArrayOptions::read(table, true, kImage, context);
  ImageTransforms transforms = ImageTransforms::read(table, kImage, context);
  if (!table.diagnostics().ok()) return nullptr;
  Layout layout;
  if (classes == 100) layout = labels == "fine" ? Layout{2, 1, 100} : Layout{2, 0, 20};
  Result<Records> records = read_records(context.files, paths, layout);
  if (!records) {
    report(table, "files", records.error());
    return nullptr;
  }
  // The digest covers the labels of the files; which of two is meant, the label array's own stands for.
  records->labels.digest = sha256(fmt::format("label {} of {}", layout.label, layout.labels));
  Result<std::unique_ptr<Dataset>> dataset =
      make_array_dataset(std::move(records->images), std::move(records->labels), std::move(options));
  if (dataset) return transforms.wrap(std::move(*dataset), table);
  report(table, "files", dataset.error());
  return nullptr;
}

const DatasetRegistration kRegistration("cifar", make_cifar);

}  // namespace
}  // namespace dtrain::data
