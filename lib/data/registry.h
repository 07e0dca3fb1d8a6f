// The formats of datasets by name. Each reader's file registers itself before main().
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "data/dataset.h"

namespace dtrain::data {

// Reads the format's own keys of the table, but does not finish() it; null after an error in the diagnostics.
using DatasetFactory = std::unique_ptr<Dataset> (*)(config::TableReader& table, const DatasetContext& context);

class DatasetRegistration {
 public:
  DatasetRegistration(std::string format, DatasetFactory factory);
};

std::vector<std::string> dataset_formats();                 // sorted
DatasetFactory dataset_factory(const std::string& format);  // null where unknown

}  // namespace dtrain::data
