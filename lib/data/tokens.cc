// Token files of language models: nothing but little-endian unsigned numbers, one a token, so that bytes are any text.
// A sample is a window of as many tokens as the network takes, its labels are the tokens that follow each. Files may be
// larger than memory: windows are read when they are asked for.
//
//   [data.train]
//   format = "tokens"
//   files = "corpus.bin"      or a list; no window crosses from one to the next
//   type = "uint16"           uint8, uint16, uint32
//   stride = 256              from one window's first token to the next's; default: the window's length
//   part = [0, 0.9]           of each file, from and to which fraction of its tokens; default: all
//   limit = …
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/check.h"
#include "data/array_dataset.h"
#include "data/file_digest.h"
#include "data/registry.h"

namespace dtrain::data {
namespace {

const std::string kTypes[] = {"uint8", "uint16", "uint32"};

struct TokenFile {
  std::string path;
  std::unique_ptr<ReadableFile> file;
  int64_t begin = 0;    // its first token that is used
  int64_t windows = 0;  // that start in it
  int64_t before = 0;   // windows in earlier files
  Digest digest{};
};

struct TokenOptions {
  size_t width = 1;  // bytes of a token
  int64_t length = 0, stride = 0;
  int64_t input_classes = 0, label_classes = 0;  // tokens are below these; 0: not bounded by the network
  DType dtype = DType::kI32;
};

uint32_t token_at(const std::byte* from, size_t width) {
  if (width == 1) return static_cast<uint8_t>(*from);
  return width == 2 ? load_le<uint16_t>(from) : load_le<uint32_t>(from);
}

class TokenDataset final : public Dataset {
 public:
  TokenDataset(std::vector<TokenFile> files, TokenOptions options, int64_t size)
      : files_(std::move(files)),
        options_(options),
        size_(size),
        shape_({options.length}),
        spec_{LabelKind::kClassPerPosition, shape_} {}

  int64_t size() const override { return size_; }
  const Shape& sample_shape() const override { return shape_; }
  DType sample_dtype() const override { return options_.dtype; }
  const LabelSpec& labels() const override { return spec_; }
  int64_t max_label() const override { return -1; }  // read() looks

  Status read(const Draw& draw, SampleOut sample, LabelOut label) const override {
    DTRAIN_CHECK(draw.index >= 0 && draw.index < size_, "sample {} of {}", draw.index, size_);
    const auto next = std::upper_bound(files_.begin(), files_.end(), draw.index,
                                       [](int64_t index, const TokenFile& f) { return index < f.before; });
    const TokenFile& from = *(next - 1);
    const int64_t first = from.begin + (draw.index - from.before) * options_.stride;
    const auto n = static_cast<size_t>(options_.length);
    std::vector<std::byte> bytes((n + 1) * options_.width);
    DTRAIN_TRY(from.file->read(static_cast<uint64_t>(first) * options_.width, bytes));
    const int64_t labels = last_of(options_.label_classes), inputs = last_of(options_.input_classes);
    for (size_t i = 0; i <= n; ++i) {
      const int64_t token = token_at(bytes.data() + i * options_.width, options_.width);
      const int64_t place = first + static_cast<int64_t>(i);
      if (i < n) {
        if (token > inputs) return beyond(from.path, place, token, inputs);
        if (options_.dtype == DType::kI32)
          sample.tokens[i] = static_cast<int32_t>(token);
        else
          sample.values[i] = static_cast<float>(token);
      }
      if (i > 0) {
        if (token > labels) return beyond(from.path, place, token, labels);
        label.classes[i - 1] = static_cast<int32_t>(token);
      }
    }
    return {};
  }

  Digest digest() const override {
    Sha256 hash;
    hash.update(fmt::format("tokens {} {} {} {} {}", options_.width, options_.length, options_.stride, size_,
                            options_.dtype == DType::kI32));
    for (const TokenFile& f : files_) {
      hash.update(fmt::format(" {} {} ", f.begin, f.windows));
      hash.update(ByteSpan(std::as_bytes(std::span(f.digest))));
    }
    return hash.finish();
  }

  static int64_t last_of(int64_t classes) { return classes > 0 ? classes - 1 : std::numeric_limits<int32_t>::max(); }
  static tl::unexpected<Error> beyond(const std::string& path, int64_t place, int64_t token, int64_t last) {
    return fail(ExitCode::kData,
                fmt::format("'{}': token {} is {}, but the network knows the tokens 0 … {}", path, place, token, last));
  }

 private:
  std::vector<TokenFile> files_;
  TokenOptions options_;
  int64_t size_;
  Shape shape_;
  LabelSpec spec_;
};

// The tokens of a file that `part` names, cut into windows; one more token than a window's must be there to predict.
// Tokens that cannot be either input or label are refused where the digest reads them anyway.
Result<TokenFile> open_file(const FileSystem& files, const std::string& path, const TokenOptions& options,
                            const std::vector<double>& part) {
  TokenFile out;
  out.path = path;
  DTRAIN_TRY_ASSIGN(out.file, files.open(path));
  const uint64_t bytes = out.file->size();
  if (bytes % options.width != 0)
    return fail(ExitCode::kData,
                fmt::format("'{}' has {} bytes, which are no whole tokens of {} bytes", path, bytes, options.width));
  const auto tokens = static_cast<int64_t>(bytes / options.width);
  // A product of doubles is the same on every host, and so is where it is cut.
  const auto cut = [&](double fraction) {
    return std::min(tokens, static_cast<int64_t>(std::floor(fraction * static_cast<double>(tokens))));
  };
  out.begin = cut(part[0]);
  const int64_t end = cut(part[1]);
  if (end - out.begin > options.length) out.windows = (end - out.begin - 1 - options.length) / options.stride + 1;
  const int64_t last = TokenDataset::last_of(
      options.input_classes > 0 ? std::min(options.input_classes, options.label_classes) : options.label_classes);
  DTRAIN_TRY_ASSIGN(out.digest, file_digest(*out.file, [&](uint64_t offset, ByteSpan piece) -> Status {
                      const auto first = static_cast<int64_t>(offset / options.width);
                      const auto n = static_cast<int64_t>(piece.size() / options.width);
                      for (int64_t i = std::max<int64_t>(0, out.begin - first); i < std::min(n, end - first); ++i) {
                        const int64_t token =
                            token_at(piece.data() + static_cast<size_t>(i) * options.width, options.width);
                        if (token > last) return TokenDataset::beyond(path, first + i, token, last);
                      }
                      return {};
                    }));
  return out;
}

std::vector<double> read_part(config::TableReader& table) {
  std::vector<double> part = table.numbers("part", {0, 1}, 0, 1);
  if (part.size() == 2 && part[0] < part[1]) return part;
  table.error("part", "part is [from, to], fractions of each file: 0 ≤ from < to ≤ 1");
  return {0, 1};
}

std::unique_ptr<Dataset> make_tokens(config::TableReader& table, const DatasetContext& context) {
  TokenOptions options;
  const std::vector<std::string> paths = table.require_paths("files");
  const std::string type = table.require_choice("type", kTypes);
  options.width = type == "uint8" ? 1 : type == "uint16" ? 2 : 4;
  options.length = context.network_input.elements();
  options.stride = table.integer("stride", std::max<int64_t>(1, options.length), 1);
  const std::vector<double> part = read_part(table);
  table.also_known("limit");
  const int64_t limit = table.has("limit") ? table.integer("limit", 1, 1) : std::numeric_limits<int64_t>::max();
  options.input_classes = context.token_classes;
  options.label_classes = context.label_classes;
  options.dtype = context.token_classes > 0 ? DType::kI32 : DType::kF32;
  if (context.network_input.rank() != 1) {
    table.error("format", fmt::format("a sample is a window of tokens, so that network.input must be [length], not {}",
                                      to_string(context.network_input)));
    return nullptr;
  }
  if (!table.diagnostics().ok()) return nullptr;
  std::vector<TokenFile> files;
  int64_t size = 0;
  for (const std::string& path : paths) {
    Result<TokenFile> file = open_file(context.files, path, options, part);
    if (!file) {
      report(table, "files", file.error());
      continue;
    }
    file->before = size;
    size += file->windows;
    if (file->windows > 0) files.push_back(std::move(*file));
  }
  if (size == 0 && table.diagnostics().ok())
    table.error(
        "files",
        fmt::format("files: no part of a file has more than {} tokens, a window and one to predict", options.length),
        ExitCode::kData);
  if (!table.diagnostics().ok()) return nullptr;
  return std::make_unique<TokenDataset>(std::move(files), options, std::min(size, limit));
}

const DatasetRegistration kRegistration("tokens", make_tokens);

}  // namespace
}  // namespace dtrain::data
