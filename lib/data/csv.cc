// Tables as delimited text.
//
//   [data.train]
//   format = "csv"
//   file = "adult.csv"            or ["a.csv", "b.csv"]
//   label = { column = "income", type = "class" }
//   columns = [ { name = "age", type = "number" }, { name = "workclass", type = "category" } ]
//   delimiter = ",", header = "auto", trim = false, missing_values = ["", "?", "NA"], normalize = "none", limit = …
//
// Other data of the run are prepared as [data.train] was, and say of these only file, limit and what differs in form.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/nearest.h"
#include "config/load.h"
#include "data/array_dataset.h"
#include "data/registry.h"
#include "data/table_dataset.h"

namespace dtrain::data {
namespace {

constexpr const char* kLearnt[] = {"columns", "label", "normalize"};

void read_form(config::TableReader& table, TablePipeline& pipeline) {
  const std::string delimiter = table.string("delimiter", std::string(1, pipeline.options.delimiter));
  if (delimiter.size() == 1 && delimiter != "\"" && delimiter != "\n" && delimiter != "\r")
    pipeline.options.delimiter = delimiter[0];
  else
    table.error("delimiter", "'delimiter' must be one character, and neither a quote nor a line's end");
  if (table.is_word("header", "auto"))
    pipeline.options.header.reset();
  else if (table.has("header"))
    pipeline.options.header = table.boolean("header", true);
  table.also_known("header");
  pipeline.options.trim = table.boolean("trim", pipeline.options.trim);
  pipeline.missing_values = table.strings("missing_values", pipeline.missing_values);
}

// Finds the columns of one file.
class Columns {
 public:
  Columns(const CsvFile& file, bool labelled) : file_(file), labelled_(labelled) {
    const std::vector<std::string>& header = file.header();
    for (size_t f = 0; f < header.size(); ++f)
      if (const auto [at, first] = named_.try_emplace(header[f], Named{f}); !first) at->second.twice = true;
  }

  bool is_twice(const std::string& name) const {
    const auto at = named_.find(name);
    return at != named_.end() && at->second.twice;
  }

  // The field of a column that is called so; the error is the bare reason.
  Result<size_t> field(const ColumnKey& key) const {
    if (key.name.empty()) {
      if (key.number <= file_.fields()) return static_cast<size_t>(key.number - 1);
      return fail(ExitCode::kData,
                  fmt::format("'{}' has {} columns; there is no {}", file_.path(), file_.fields(), to_string(key)));
    }
    const std::vector<std::string>& header = file_.header();
    if (header.empty())
      return fail(ExitCode::kData,
                  fmt::format("'{}' has no header; give {} by its number", file_.path(), to_string(key)));
    const auto at = named_.find(key.name);
    if (at == named_.end())
      return fail(ExitCode::kData, fmt::format("the header of '{}' has no {}{}", file_.path(), to_string(key),
                                               suggestion(key.name, header)));
    if (at->second.twice)
      return fail(ExitCode::kData,
                  fmt::format("the header of '{}' has {} twice; give it by its number", file_.path(), to_string(key)));
    return at->second.field;
  }

  // The field of one that was learnt from a file which may have had a header where this one has none.
  Result<size_t> field(const std::string& name, int64_t number, const TablePipeline& pipeline) const {
    if (!name.empty() && !file_.header().empty()) return field({name, 0});
    // Without its label column a file that is to be predicted has one field less.
    const bool shorter = !labelled_ && file_.fields() == pipeline.fields - 1;
    return field({"", number - (shorter && number > pipeline.label.number ? 1 : 0)});
  }

  Result<std::vector<RawRequest>> requests(const TablePipeline& pipeline) const {
    std::vector<RawRequest> all;
    for (const FittedColumn& c : pipeline.columns) {
      DTRAIN_TRY_ASSIGN(const size_t at, field(c.name, c.number, pipeline));
      all.push_back({at, c.category});
    }
    if (!labelled_) return all;
    DTRAIN_TRY_ASSIGN(const size_t at, field(pipeline.label.name, pipeline.label.number, pipeline));
    all.push_back({at, pipeline.label.type == LabelType::kClass});
    return all;
  }

 private:
  struct Named {
    size_t field = 0;  // the first that is called so
    bool twice = false;
  };

  const CsvFile& file_;
  const bool labelled_;
  std::map<std::string_view, Named> named_;
};

// Puts the declared columns into the pipeline, still to be learnt, with what the run file says of their categories.
class Declaring {
 public:
  Declaring(const CsvFile& file, config::Diagnostics& diagnostics)
      : file_(file), columns_(file, true), diagnostics_(diagnostics) {}

  void declare(const TableSpec& spec, TablePipeline& pipeline) {
    pipeline.fields = file_.fields();
    pipeline.normalize = spec.normalize;
    const std::optional<size_t> label = find(spec.label.key, spec.label.position);
    if (label) pipeline.label = {name(*label), place(*label), spec.label.type, {}};
    std::set<size_t> named;
    if (label) named.insert(*label);
    for (const ColumnSpec& column : spec.columns) {
      if (column.key.name == ColumnSpec::kAllOthers) continue;
      const std::optional<size_t> at = find(column.key, column.position);
      if (at && !named.insert(*at).second)
        diagnostics_.error(column.position, fmt::format("{} is there twice", to_string(column.key)));
    }
    for (const ColumnSpec& column : spec.columns) {
      if (column.key.name == ColumnSpec::kAllOthers) {
        for (size_t f = 0; f < static_cast<size_t>(file_.fields()); ++f)
          if (named.insert(f).second) add(column, f, pipeline);
      } else if (const Result<size_t> at = columns_.field(column.key)) {
        add(column, *at, pipeline);
      }
    }
    if (pipeline.columns.empty() && diagnostics_.ok())
      diagnostics_.error(spec.columns.front().position, "no column is left for the samples");
  }

  std::vector<std::vector<std::string>> categories;  // of each column, as the run file gives them

 private:
  std::optional<size_t> find(const ColumnKey& key, const config::Position& position) {
    const Result<size_t> at = columns_.field(key);
    if (at) return *at;
    diagnostics_.error(position, at.error().message, at.error().code);
    return std::nullopt;
  }
  std::string name(size_t field) const { return file_.header().empty() ? "" : file_.header()[field]; }
  static int64_t place(size_t field) { return static_cast<int64_t>(field) + 1; }
  void add(const ColumnSpec& spec, size_t field, TablePipeline& pipeline) {
    FittedColumn column;
    // A name that is there twice says nothing: such a column is known by its place.
    column.name = spec.key.number > 0 || columns_.is_twice(name(field)) ? "" : name(field);
    column.number = place(field);
    column.category = spec.category;
    column.missing = spec.missing;
    column.scale = spec.category ? Scale::kNone : spec.scale;
    column.fill = spec.fill;
    column.encode = spec.encode;
    column.other = spec.other;
    pipeline.columns.push_back(std::move(column));
    categories.push_back(spec.categories);
  }

  const CsvFile& file_;
  const Columns columns_;
  config::Diagnostics& diagnostics_;
};

class CsvReading {
 public:
  CsvReading(config::TableReader& table, const DatasetContext& context) : table_(table), context_(context) {}

  std::unique_ptr<Dataset> read() {
    const bool learnt = !context_.preprocessing.empty();
    input_.pipeline.missing_values = {"", "?", "NA"};
    if (learnt && !take_pipeline()) return nullptr;
    const std::vector<std::string> paths = table_.require_paths("file");
    read_form(table_, input_.pipeline);
    table_.also_known("limit");
    limit_ = table_.has("limit") ? table_.integer("limit", 1, 1) : 0;
    std::optional<TableSpec> spec;
    if (!learnt && context_.training) spec = TableSpec::read(table_);
    for (const char* key : kLearnt) {
      table_.also_known(key);
      if (!context_.training && table_.has(key))
        table_.error(key, fmt::format("'{}' belongs to [data.train]: all data are prepared as the training data", key));
    }
    if (!learnt && !context_.training && table_.diagnostics().ok())
      table_.error("format", "a table is prepared as the training data, and of those nothing is known that tells how");
    if (paths.empty() || !table_.diagnostics().ok()) return nullptr;
    input_.labelled = context_.labelled;
    const Status done = load(paths, spec ? &*spec : nullptr);
    if (!done) report_at(done.error());
    return done ? std::move(dataset_) : nullptr;
  }

 private:
  bool take_pipeline() {
    Result<TablePipeline> pipeline = TablePipeline::from_text(context_.preprocessing);
    if (pipeline) {
      input_.pipeline = std::move(*pipeline);
      return true;
    }
    table_.error("format",
                 fmt::format("how the training data were prepared cannot be read: {}", pipeline.error().message),
                 ExitCode::kCheckpoint);
    return false;
  }

  // An error that the run file causes stands at the columns, one of the data at the file.
  void report_at(const Error& error) {
    if (error.message.empty()) return;  // said
    table_.error(error.code == ExitCode::kUsage ? "columns" : "file", error.message, error.code);
  }

  Status load(const std::vector<std::string>& paths, const TableSpec* spec) {
    std::vector<std::vector<std::string>> categories;
    Sha256 files;
    for (const std::string& path : paths) {
      DTRAIN_TRY_ASSIGN(CsvFile file, CsvFile::open(context_.files, path, input_.pipeline.options));
      if (spec && input_.table.paths.empty()) {  // the first file
        Declaring declaring(file, table_.diagnostics());
        declaring.declare(*spec, input_.pipeline);
        if (!table_.diagnostics().ok()) return fail(ExitCode::kUsage, "");
        categories = std::move(declaring.categories);
      }
      files.update(to_hex(file.digest()));
      DTRAIN_TRY_ASSIGN(const auto requests, Columns(file, input_.labelled).requests(input_.pipeline));
      std::vector<std::string> names;
      for (const FittedColumn& c : input_.pipeline.columns) names.push_back(c.describe());
      names.push_back(input_.pipeline.label.describe());
      DTRAIN_TRY(add_file(input_.table, file, requests, names, input_.pipeline.missing_values, limit_));
    }
    input_.files = files.finish();
    if (spec && input_.table.rows > 0) DTRAIN_TRY(learn(*spec, categories));
    DTRAIN_TRY_ASSIGN(dataset_, make_table_dataset(std::move(input_), context_));
    return {};
  }

  Status learn(const TableSpec& spec, const std::vector<std::vector<std::string>>& categories) {
    TablePipeline& pipeline = input_.pipeline;
    const auto named = [&](const std::string& column, Status status) -> Status {
      if (status) return {};
      return fail(status.error().code,
                  fmt::format("'{}', {}: {}", input_.table.paths.front(), column, status.error().message));
    };
    for (size_t c = 0; c < pipeline.columns.size(); ++c)
      DTRAIN_TRY(
          named(pipeline.columns[c].describe(), fit(pipeline.columns[c], categories[c], input_.table.columns[c])));
    DTRAIN_TRY(
        named(pipeline.label.describe(), fit(pipeline.label, spec.label.categories, input_.table.columns.back())));
    if (pipeline.text().size() > TablePipeline::kMaxText)
      return fail(ExitCode::kUsage, fmt::format("the names of all categories take more than {} MiB: a column whose "
                                                "values hardly repeat is no category",
                                                TablePipeline::kMaxText >> 20));
    return {};
  }

  config::TableReader& table_;
  const DatasetContext& context_;
  TableInput input_;
  int64_t limit_ = 0;
  std::unique_ptr<Dataset> dataset_;
};

std::unique_ptr<Dataset> make_csv(config::TableReader& table, const DatasetContext& context) {
  return CsvReading(table, context).read();
}

const DatasetRegistration kRegistration("csv", make_csv);

}  // namespace
}  // namespace dtrain::data
