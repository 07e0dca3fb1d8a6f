#include "data/dataset.h"

#include <fmt/format.h>

#include "data/registry.h"

namespace dtrain::data {

DataSource open_data(config::TableReader& table, const DatasetContext& context) {
  DataSource source;
  source.shuffle = table.boolean("shuffle", true);
  source.threads = static_cast<size_t>(table.integer("threads", 1, 1, 256));
  const std::vector<std::string> formats = dataset_formats();
  const std::string format = table.require_choice("format", formats);
  const DatasetFactory factory = dataset_factory(format);
  // Without a known format nobody can tell which keys are unknown.
  if (!factory) return source;
  source.dataset = factory(table, context);
  table.finish();
  if (source.dataset && source.dataset->sample_shape() != context.network_input) {
    table.error("format", fmt::format("the samples have shape {}, the network's input is {}",
                                      to_string(source.dataset->sample_shape()), to_string(context.network_input)));
  }
  if (source.dataset && (source.dataset->sample_dtype() == DType::kI32) != (context.token_classes > 0)) {
    table.error("format",
                fmt::format("the network looks its input up as tokens, class numbers; format {} gives numbers "
                            "to compute with",
                            format));
  }
  if (!table.diagnostics().ok()) source.dataset.reset();
  return source;
}

}  // namespace dtrain::data
