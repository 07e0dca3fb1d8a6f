#include "data/dataset.h"

#include <fmt/format.h>

#include "data/registry.h"

namespace dtrain::data {
namespace {

// A file system on which nothing is there.
class NoFiles final : public FileSystem {
 public:
  Result<std::unique_ptr<ReadableFile>> open(const std::string&) const override { return nothing(); }
  Result<std::unique_ptr<WritableFile>> create(const std::string&) override { return nothing(); }
  Status rename(const std::string&, const std::string&) override { return nothing(); }
  Status sync_directory(const std::string&) override { return nothing(); }
  Result<std::vector<std::string>> list(const std::string&) const override { return nothing(); }
  Status make_directories(const std::string&) override { return nothing(); }
  Status remove_tree(const std::string&) override { return nothing(); }
  Result<bool> exists(const std::string&) const override { return false; }

 private:
  static tl::unexpected<Error> nothing() { return fail(ExitCode::kData, "not there"); }
};

}  // namespace

// Readers ask for their keys before they open what these name.
std::vector<config::TableReader::NamedPath> named_files(const config::Value& table) {
  config::Diagnostics passed_over;
  config::TableReader reader(table, passed_over, "data");
  const NoFiles none;
  open_data(reader, DatasetContext{.files = none, .network_input = Shape{}});
  return reader.paths();
}

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
