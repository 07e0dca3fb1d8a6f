#include "data/npy.h"

#include <fmt/format.h>

#include <charconv>
#include <optional>

#include "data/array_dataset.h"
#include "data/image_transforms.h"
#include "data/registry.h"

namespace dtrain::data {
namespace {

constexpr uint64_t kMaxHeader = 1u << 20;
constexpr size_t kMaxAxes = 32;
constexpr std::string_view kMagic = "\x93NUMPY";

struct TypeRow {
  std::string_view descr;
  ElementType type;
};
constexpr TypeRow kTypes[] = {{"|u1", ElementType::kU8},  {"<u1", ElementType::kU8},  {"|i1", ElementType::kI8},
                              {"<i1", ElementType::kI8},  {"<u2", ElementType::kU16}, {"<i2", ElementType::kI16},
                              {"<i4", ElementType::kI32}, {"<i8", ElementType::kI64}, {"<f4", ElementType::kF32},
                              {"<f8", ElementType::kF64}};

tl::unexpected<Error> reason(std::string text) { return fail(ExitCode::kData, std::move(text)); }

// Reads the header's dictionary: {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }.
class HeaderScanner {
 public:
  explicit HeaderScanner(std::string_view text) : rest_(text) {}

  Result<Array> scan() {
    Array array;
    bool has_descr = false, has_order = false, has_shape = false;
    if (!take('{')) return broken();
    while (!take('}')) {
      const std::optional<std::string_view> key = quoted();
      if (!key || !take(':')) return broken();
      if (*key == "descr" && !has_descr) {
        has_descr = true;
        const std::optional<std::string_view> descr = quoted();
        if (!descr) return reason("its elements are records; plain numbers are read");
        DTRAIN_TRY_ASSIGN(array.type, type_of(*descr));
      } else if (*key == "fortran_order" && !has_order) {
        has_order = true;
        if (word("True")) return reason("it is in Fortran order; save it with numpy.ascontiguousarray");
        if (!word("False")) return broken();
      } else if (*key == "shape" && !has_shape) {
        has_shape = true;
        DTRAIN_TRY_ASSIGN(array.shape, shape());
      } else {
        return reason(fmt::format("its header has the unexpected key '{}'", *key));
      }
      if (!take(',') && !next_is('}')) return broken();
    }
    skip_space();
    if (!rest_.empty()) return broken();
    if (!has_descr || !has_order || !has_shape) return reason("its header lacks descr, fortran_order or shape");
    return array;
  }

 private:
  static tl::unexpected<Error> broken() { return reason("its header is not a dictionary as NumPy writes it"); }

  static Result<ElementType> type_of(std::string_view descr) {
    for (const TypeRow& row : kTypes)
      if (row.descr == descr) return row.type;
    if (descr.starts_with('>'))
      return reason(fmt::format("its elements are big-endian ('{}'); save it as little-endian", descr));
    return reason(fmt::format("its elements are of type '{}' (known: u1, i1, u2, i2, i4, i8, f4, f8)", descr));
  }

  Result<Shape> shape() {
    std::vector<int64_t> dims;
    if (!take('(')) return broken();
    while (!take(')')) {
      skip_space();
      int64_t extent = 0;
      const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), extent);
      if (error != std::errc() || extent < 0) return broken();
      rest_.remove_prefix(static_cast<size_t>(end - rest_.data()));
      if (dims.size() == kMaxAxes) return reason(fmt::format("it has more than {} axes", kMaxAxes));
      dims.push_back(extent);
      if (!take(',') && !next_is(')')) return broken();
    }
    return Shape(std::move(dims));
  }

  void skip_space() {
    const size_t at = rest_.find_first_not_of(" \t\n");
    rest_.remove_prefix(at == std::string_view::npos ? rest_.size() : at);
  }
  bool next_is(char c) {
    skip_space();
    return rest_.starts_with(c);
  }
  bool take(char c) {
    if (!next_is(c)) return false;
    rest_.remove_prefix(1);
    return true;
  }
  bool word(std::string_view w) {
    skip_space();
    if (!rest_.starts_with(w)) return false;
    rest_.remove_prefix(w.size());
    return true;
  }
  std::optional<std::string_view> quoted() {
    skip_space();
    if (rest_.empty() || (rest_.front() != '\'' && rest_.front() != '"')) return std::nullopt;
    const size_t end = rest_.find(rest_.front(), 1);
    if (end == std::string_view::npos) return std::nullopt;
    const std::string_view inside = rest_.substr(1, end - 1);
    rest_.remove_prefix(end + 1);
    return inside;
  }

  std::string_view rest_;
};

Result<Array> parse(const ReadableFile& file, Sha256& hash) {
  std::string start(10, '\0');
  if (file.size() < start.size()) return reason("it is too short");
  DTRAIN_TRY(file.read(0, std::as_writable_bytes(std::span(start.data(), start.size()))));
  if (!start.starts_with(kMagic)) return reason("it does not begin with \\x93NUMPY");
  const int version = start[6];
  if (version < 1 || version > 3) return reason(fmt::format("it has version {}; 1 to 3 are read", version));
  if (version > 1) {
    start.resize(12);
    if (file.size() < start.size()) return reason("it is too short");
    DTRAIN_TRY(file.read(0, std::as_writable_bytes(std::span(start.data(), start.size()))));
  }
  const uint64_t length = version == 1 ? load_le<uint16_t>(start.data() + 8) : load_le<uint32_t>(start.data() + 8);
  if (length > kMaxHeader || length > file.size() - start.size())
    return reason(fmt::format("its header of {} bytes is longer than the file or than {} bytes", length, kMaxHeader));
  std::string header(length, '\0');
  DTRAIN_TRY(file.read(start.size(), std::as_writable_bytes(std::span(header.data(), header.size()))));
  DTRAIN_TRY_ASSIGN(Array array, HeaderScanner(header).scan());
  const uint64_t begin = start.size() + length;
  const std::optional<uint64_t> bytes = array_bytes(array.type, array.shape);
  if (!bytes || *bytes != file.size() - begin)
    return reason(fmt::format("its header declares the shape {}, but {} bytes of elements follow",
                              to_string(array.shape), file.size() - begin));
  array.storage = Buffer(*bytes);
  const MutableByteSpan elements(array.storage.data(), *bytes);
  DTRAIN_TRY(file.read(begin, elements));
  hash.update(start);
  hash.update(header);
  hash.update(elements);
  return array;
}

std::unique_ptr<Dataset> make_npy(config::TableReader& table, const DatasetContext& context) {
  const std::string inputs_path = table.require_path("inputs");
  table.also_known("labels");
  const std::string labels_path = context.labelled ? table.require_path("labels") : "";
  const auto open = [&](const char* key, const std::string& path) -> std::optional<Array> {
    if (path.empty()) return std::nullopt;
    Result<Array> array = read_npy(context.files, path);
    if (array) return std::move(*array);
    report(table, key, array.error());
    return std::nullopt;
  };
  std::optional<Array> inputs = open("inputs", inputs_path), labels = open("labels", labels_path);
  if (inputs && !context.labelled) labels = no_labels(*inputs);
  const Shape sample_shape =
      inputs ? Shape({inputs->shape.dims().begin() + 1, inputs->shape.dims().end()}) : context.network_input;
  ArrayOptions options = ArrayOptions::read(table, inputs && inputs->type == ElementType::kU8, sample_shape, context);
  ImageTransforms transforms;
  table.also_known("transforms");
  if (inputs) transforms = ImageTransforms::read(table, sample_shape, context);
  if (!inputs || !labels || !table.diagnostics().ok()) return nullptr;
  Result<std::unique_ptr<Dataset>> dataset =
      make_array_dataset(std::move(*inputs), std::move(*labels), std::move(options));
  if (dataset) return transforms.wrap(std::move(*dataset), table);
  report(table, "labels", dataset.error());
  return nullptr;
}

const DatasetRegistration kRegistration("npy", make_npy);

}  // namespace

Result<Array> read_npy(const FileSystem& files, const std::string& path) {
  DTRAIN_TRY_ASSIGN(auto file, files.open(path));
  Sha256 hash;
  Result<Array> array = parse(*file, hash);
  if (!array) return fail(ExitCode::kData, fmt::format("'{}' cannot be read as .npy: {}", path, array.error().message));
  if (array->shape.rank() == 0)
    return fail(ExitCode::kData,
                fmt::format("'{}' holds a single number; the first axis must count the samples", path));
  array->digest = hash.finish();
  array->path = path;
  return array;
}

}  // namespace dtrain::data
