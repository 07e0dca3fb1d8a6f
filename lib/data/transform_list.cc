#include "data/transform_list.h"

#include <fmt/format.h>

#include "config/canonical.h"

namespace dtrain::data {

TransformList TransformList::read(config::TableReader& table, const ImageShape& images, const DatasetContext& context) {
  TransformList out;
  out.shape_ = images;
  const config::Value* list = table.list("transforms");
  if (!list) return out;
  out.text_ = config::canonical_text(*list);
  const std::vector<std::string> types = transform_types();
  size_t position = 0;
  for (const config::Value& item : list->as_array()) {
    config::TableReader reader(item, table.diagnostics(), fmt::format("transform {}", ++position));
    const std::string type = reader.require_choice("type", types);
    const TransformFactory factory = transform_factory(type);
    if (!factory) continue;
    std::unique_ptr<const Transform> transform = factory(reader, out.shape_);
    reader.finish();
    if (!transform || !table.diagnostics().ok()) continue;
    if (transform->random() && !context.training)
      reader.error("type", fmt::format("{} is random; test data must be the same each time", type));
    out.shape_ = transform->shape_after(out.shape_);
    out.items_.push_back({std::move(transform), type, stream_id(fmt::format("transform/{}/{}", position, type))});
  }
  return out;
}

Status TransformList::apply(Image& image, const Draw& draw) const {
  const auto number = static_cast<uint64_t>(draw.number);
  for (const Item& item : items_) {
    const Philox stream(draw.seed, item.stream, static_cast<uint32_t>(number), static_cast<uint32_t>(number >> 32));
    if (Status done = item.transform->apply(image, stream); !done)
      return fail(ExitCode::kData, fmt::format("{}: {}", item.type, done.error().message));
  }
  return {};
}

}  // namespace dtrain::data
