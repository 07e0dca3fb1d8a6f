#include "data/csv_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

namespace dtrain::data {
namespace {

std::string_view trimmed(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

}  // namespace

std::optional<double> parse_number(std::string_view text) {
  text = trimmed(text);
  if (text.starts_with('+') && !text.starts_with("+-")) text.remove_prefix(1);
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(value)) return std::nullopt;
  return value;
}

bool is_utf8(std::string_view text) {
  for (size_t i = 0; i < text.size();) {
    const auto lead = static_cast<unsigned char>(text[i]);
    const size_t more = lead < 0x80 ? 0 : lead >= 0xc2 && lead < 0xe0 ? 1 : lead >= 0xe0 && lead < 0xf0 ? 2 : 3;
    if (more == 3 && (lead < 0xf0 || lead > 0xf4)) return false;
    if (more >= text.size() - i) return false;
    uint32_t code = lead & (0xffu >> (more + 2));
    for (size_t k = 1; k <= more; ++k) {
      const auto byte = static_cast<unsigned char>(text[i + k]);
      if ((byte & 0xc0) != 0x80) return false;
      code = code << 6 | (byte & 0x3fu);
    }
    // Three and four bytes: neither longer than needed, nor a surrogate, nor beyond the last character.
    if (more == 2 && (code < 0x800 || (code >= 0xd800 && code < 0xe000))) return false;
    if (more == 3 && (code < 0x10000 || code > 0x10ffff)) return false;
    i += more + 1;
  }
  return true;
}

Result<CsvFile> CsvFile::open(const FileSystem& files, const std::string& path, const CsvOptions& options) {
  CsvFile csv;
  csv.path_ = path;
  csv.options_ = options;
  DTRAIN_TRY_ASSIGN(auto file, files.open(path));
  csv.text_ = Buffer(file->size());
  const MutableByteSpan bytes(csv.text_.data(), csv.text_.size());
  DTRAIN_TRY(file->read(0, bytes));
  Sha256 hash;
  hash.update(bytes);
  csv.digest_ = hash.finish();
  if (csv.rest().starts_with("\xef\xbb\xbf")) csv.at_ = 3;
  DTRAIN_TRY_ASSIGN(const bool any, csv.scan());
  if (!any) return fail(ExitCode::kData, fmt::format("'{}' holds no records", path));
  // A record has a line of its own, and at least a byte for the end of each field.
  const auto lines = static_cast<size_t>(std::count(bytes.begin(), bytes.end(), std::byte{'\n'}));
  csv.most_records_ = std::min(lines, bytes.size() / csv.fields_.size()) + 1;
  const bool header = options.header.value_or(std::none_of(
      csv.fields_.begin(), csv.fields_.end(), [](std::string_view f) { return parse_number(f).has_value(); }));
  csv.pending_ = !header;
  if (header) csv.header_.assign(csv.fields_.begin(), csv.fields_.end());
  for (const std::string& name : csv.header_)
    if (!is_utf8(name)) return csv.error("a name in the header is not UTF-8");
  return csv;
}

tl::unexpected<Error> CsvFile::error(std::string_view reason) const {
  return fail(ExitCode::kData, fmt::format("'{}', line {}: {}", path_, line_, reason));
}

Result<bool> CsvFile::next() {
  if (pending_) {
    pending_ = false;
    return true;
  }
  const size_t wanted = fields_.size();
  DTRAIN_TRY_ASSIGN(const bool any, scan());
  if (any && fields_.size() != wanted)
    return error(fmt::format("{} field{} instead of {}", fields_.size(), fields_.size() == 1 ? "" : "s", wanted));
  return any;
}

std::string_view CsvFile::rest() const {
  return std::string_view(reinterpret_cast<const char*>(text_.data()), text_.size()).substr(at_);
}

bool CsvFile::take_line_end() {
  const size_t length = rest().starts_with('\n') ? 1 : rest().starts_with("\r\n") ? 2 : 0;
  at_ += length;
  next_line_ += length > 0;
  return length > 0;
}

Result<bool> CsvFile::scan() {
  while (take_line_end()) {
  }
  if (rest().empty()) {
    fields_.assign(fields_.size(), {});
    return false;
  }
  line_ = next_line_;
  fields_.clear();
  unquoted_.clear();
  while (true) {
    const size_t blanks = leading_blanks();
    if (rest().substr(blanks).starts_with('"')) {
      at_ += blanks;
      DTRAIN_TRY_ASSIGN(fields_.emplace_back(), quoted());
      at_ += leading_blanks();
    } else {
      fields_.push_back(plain());
    }
    if (rest().empty() || take_line_end()) return true;
    if (rest().front() != options_.delimiter) return error("text after the quote that ends a field");
    ++at_;
  }
}

// That do not count; a blank that parts fields does.
size_t CsvFile::leading_blanks() const {
  if (!options_.trim) return 0;
  const std::string_view blanks = options_.delimiter == ' ' ? "\t" : options_.delimiter == '\t' ? " " : " \t";
  return std::min(rest().find_first_not_of(blanks), rest().size());
}

std::string_view CsvFile::plain() {
  const std::string_view text = rest();
  size_t length = 0;
  while (length < text.size() && text[length] != options_.delimiter && text[length] != '\n') ++length;
  std::string_view field = text.substr(0, length);
  at_ += field.size();
  // The carriage return belongs to the line's end, which at_ may be in the middle of now: only '\n' is left of it.
  if (field.ends_with('\r') && (rest().empty() || rest().front() == '\n')) field.remove_suffix(1);
  return options_.trim ? trimmed(field) : field;
}

Result<std::string_view> CsvFile::quoted() {
  ++at_;
  std::string* joined = nullptr;
  while (true) {
    const std::string_view part = rest().substr(0, rest().find('"'));
    if (part.size() == rest().size()) return error("a field that begins with a quote does not end");
    next_line_ += std::count(part.begin(), part.end(), '\n');
    at_ += part.size() + 1;
    const bool again = rest().starts_with('"');
    if (again && !joined) joined = &unquoted_.emplace_back();
    if (joined) joined->append(part);
    if (!again) return joined ? std::string_view(*joined) : part;
    joined->push_back('"');
    ++at_;
  }
}

}  // namespace dtrain::data
