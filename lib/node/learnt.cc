#include "node/learnt.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

namespace dtrain::node {

Learnt Learnt::of(const data::Dataset& training) {
  const auto names = training.label_names();
  return {training.preprocessing(), {names.begin(), names.end()}};
}

Result<Learnt> Learnt::from(const checkpoint::Metadata& metadata) {
  Learnt learnt;
  if (const auto at = metadata.find(kPreprocessing); at != metadata.end()) learnt.preprocessing = at->second;
  const auto classes = metadata.find(kClasses);
  if (classes == metadata.end()) return learnt;
  try {
    learnt.classes = nlohmann::json::parse(classes->second).get<std::vector<std::string>>();
  } catch (const nlohmann::json::exception& e) {
    return fail(ExitCode::kCheckpoint, fmt::format("its names of classes cannot be read: {}", e.what()));
  }
  return learnt;
}

checkpoint::Metadata Learnt::metadata() const {
  checkpoint::Metadata metadata;
  if (!preprocessing.empty()) metadata[kPreprocessing] = preprocessing;
  if (!classes.empty())
    metadata[kClasses] = nlohmann::json(classes).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  return metadata;
}

}  // namespace dtrain::node
