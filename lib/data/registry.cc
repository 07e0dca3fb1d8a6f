#include "data/registry.h"

#include <map>
#include <utility>

namespace dtrain::data {
namespace {

std::map<std::string, DatasetFactory>& factories() {
  static std::map<std::string, DatasetFactory> map;
  return map;
}

}  // namespace

DatasetRegistration::DatasetRegistration(std::string format, DatasetFactory factory) {
  factories()[std::move(format)] = factory;
}

std::vector<std::string> dataset_formats() {
  std::vector<std::string> formats;
  for (const auto& [format, factory] : factories()) formats.push_back(format);
  return formats;
}

DatasetFactory dataset_factory(const std::string& format) {
  const auto found = factories().find(format);
  return found == factories().end() ? nullptr : found->second;
}

}  // namespace dtrain::data
