#include "data/transform.h"

#include <fmt/format.h>

#include <map>
#include <utility>

namespace dtrain::data {
namespace {

std::map<std::string, TransformFactory>& factories() {
  static std::map<std::string, TransformFactory> map;
  return map;
}

}  // namespace

TransformRegistration::TransformRegistration(std::string type, TransformFactory factory) {
  factories()[std::move(type)] = factory;
}

std::vector<std::string> transform_types() {
  std::vector<std::string> types;
  for (const auto& [type, factory] : factories()) types.push_back(type);
  return types;
}

TransformFactory transform_factory(const std::string& type) {
  const auto found = factories().find(type);
  return found == factories().end() ? nullptr : found->second;
}

Status check_at_least(const ImageShape& image, int64_t height, int64_t width) {
  if (image.height >= height && image.width >= width) return {};
  return fail(ExitCode::kData, fmt::format("{} x {} pixels (height, width) cannot be cut out of {} x {}", height, width,
                                           image.height, image.width));
}

void expect_at_least(config::TableReader& table, const ImageShape& images, int64_t height, int64_t width) {
  if (!images.fixed()) return;
  if (Status fits = check_at_least(images, height, width); !fits)
    table.error("size", fmt::format("size: {}", fits.error().message));
}

}  // namespace dtrain::data
