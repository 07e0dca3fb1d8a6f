// JSON values as YAML that people like to read: block style, long texts as literal blocks.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace dtrain::launch {

std::string to_yaml(const nlohmann::ordered_json& value);

}  // namespace dtrain::launch
