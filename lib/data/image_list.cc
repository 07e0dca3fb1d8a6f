#include "data/image_list.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <optional>
#include <string_view>

namespace dtrain::data {
namespace {

constexpr uint64_t kMaxList = uint64_t{1} << 32;

bool is_picture(std::string_view name) {
  const size_t dot = name.rfind('.');
  if (dot == std::string_view::npos || name.starts_with('.')) return false;
  std::string end(name.substr(dot + 1));
  for (char& c : end)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return end == "jpg" || end == "jpeg" || end == "png";
}

// The names in `path` where it is a folder, nothing where it is a file.
Result<std::optional<std::vector<std::string>>> list_folder(const FileSystem& files, const std::string& path) {
  auto names = files.list(path);
  if (names) return std::move(*names);
  if (files.open(path)) return std::nullopt;
  return tl::unexpected(std::move(names.error()));
}

std::optional<int32_t> number(std::string_view text) {
  int32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

struct Line {
  size_t number = 0;
  std::string_view path, label;
};

Result<std::vector<Line>> split(std::string_view text, const std::string& file, bool labelled) {
  std::vector<Line> lines;
  for (size_t at = text.starts_with("\xef\xbb\xbf") ? 3 : 0, n = 1; at < text.size(); ++n) {
    const size_t end = std::min(text.find('\n', at), text.size());
    std::string_view line = text.substr(at, end - at);
    at = end + 1;
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty()) continue;
    size_t cut = line.rfind('\t');
    if (cut == std::string_view::npos) cut = line.rfind(',');
    const Line parts{n, line.substr(0, cut), line.substr(std::min(cut, line.size() - 1) + 1)};
    if (parts.path.empty() || (labelled && parts.label.empty()) || line.find('\0') != std::string_view::npos)
      return fail(ExitCode::kData,
                  fmt::format("'{}', line {}: a path, a comma or tab and a class were expected", file, n));
    if (n == 1 && (parts.label == "label" || parts.label == "class")) continue;
    lines.push_back(parts);
  }
  if (lines.empty()) return fail(ExitCode::kData, fmt::format("'{}' lists no pictures", file));
  return lines;
}

}  // namespace

std::string ImageList::path(size_t item) const {
  const std::string& name = items[item].name;
  return name.starts_with('/') ? name : root + "/" + name;
}

void ImageList::keep(size_t n) {
  const size_t all = items.size();
  if (n >= all) return;
  for (size_t i = 0; i < n; ++i) items[i] = items[i * all / n];
  items.resize(n);
}

Result<ImageList> images_in_folder(const FileSystem& files, const std::string& folder) {
  ImageList out;
  out.root = folder;
  DTRAIN_TRY_ASSIGN(const std::vector<std::string> folders, files.list(folder));
  for (const std::string& name : folders) {
    if (name.starts_with('.')) continue;
    DTRAIN_TRY_ASSIGN(const auto inside, list_folder(files, folder + "/" + name));
    if (!inside) continue;
    const size_t before = out.items.size();
    for (const std::string& file : *inside)
      if (is_picture(file)) out.items.push_back({name + "/" + file, static_cast<int32_t>(out.classes.size())});
    if (out.items.size() == before)
      return fail(ExitCode::kData,
                  fmt::format("'{}/{}' is the folder of a class, but holds no .jpg, .jpeg or .png", folder, name));
    out.classes.push_back(name);
  }
  if (out.items.empty())
    return fail(ExitCode::kData, fmt::format("'{}' holds no folders; one for each class was expected", folder));
  return out;
}

Result<ImageList> unlabelled_images(const FileSystem& files, const std::string& folder) {
  ImageList out;
  out.root = folder;
  DTRAIN_TRY_ASSIGN(const std::vector<std::string> names, files.list(folder));
  for (const std::string& name : names)
    if (is_picture(name)) out.items.push_back({name, 0});
  if (!out.items.empty()) return out;
  DTRAIN_TRY_ASSIGN(out, images_in_folder(files, folder));
  out.classes.clear();
  for (ImageList::Item& item : out.items) item.label = 0;
  return out;
}

Result<ImageList> list_images(const FileSystem& files, const std::string& list, int64_t classes, bool labelled) {
  DTRAIN_TRY_ASSIGN(const std::string text, files.read_file(list, kMaxList));
  DTRAIN_TRY_ASSIGN(const std::vector<Line> lines, split(text, list, labelled));
  ImageList out;
  out.root = parent_path(list);
  if (!labelled) {
    for (const Line& l : lines) out.items.push_back({std::string(l.path), 0});
    return out;
  }
  const bool numbers = std::all_of(lines.begin(), lines.end(), [](const Line& l) { return number(l.label); });
  if (!numbers) {
    for (const Line& l : lines) out.classes.emplace_back(l.label);
    std::sort(out.classes.begin(), out.classes.end());
    out.classes.erase(std::unique(out.classes.begin(), out.classes.end()), out.classes.end());
  }
  for (const Line& l : lines) {
    const int32_t label = numbers
                              ? *number(l.label)
                              : static_cast<int32_t>(std::lower_bound(out.classes.begin(), out.classes.end(), l.label) -
                                                     out.classes.begin());
    if (label < 0 || (numbers && classes > 0 && label >= classes))
      return fail(ExitCode::kData,
                  fmt::format("'{}', line {}: {} is not a class{}", list, l.number, label,
                              classes > 0 ? fmt::format(" of the network's (0 … {})", classes - 1) : ""));
    out.items.push_back({std::string(l.path), label});
  }
  return out;
}

}  // namespace dtrain::data
