#include "node/answer_table.h"

#include <fmt/format.h>

#include <algorithm>

#include "observe/metrics_file.h"
#include "ops/cpu/vector_math.h"

namespace dtrain::node {
namespace {

std::string csv_field(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? "\"\"" : std::string(1, c);
  return quoted + '"';
}

// Numbers that are finite, as the shortest text that reads back the same.
std::string list(std::span<const float> numbers, std::string_view between) {
  return fmt::format("{}", fmt::join(numbers.begin(), numbers.end(), between));
}

}  // namespace

AnswerTable::AnswerTable(const graph::Network& network, std::vector<std::string> classes, Options options)
    : prediction_(network.prediction()), shape_(network.output()), classes_(std::move(classes)), options_(options) {}

std::string AnswerTable::name(size_t c) const { return c < classes_.size() ? classes_[c] : fmt::format("{}", c); }

std::string AnswerTable::header() const {
  if (options_.format == Format::kJsonLines) return "";
  const auto size = static_cast<size_t>(shape_.elements());
  std::string text = "sample";
  if (prediction_.kind == graph::Prediction::Kind::kSoftmax) {
    text += ",label,probability";
    for (size_t c = 0; options_.all && c < static_cast<size_t>(shape_[prediction_.axis]); ++c)
      text += "," + csv_field(name(c));
  } else {
    const bool probabilities = prediction_.kind == graph::Prediction::Kind::kSigmoid;
    for (size_t i = 0; i < size; ++i) {
      const bool named = probabilities && i < classes_.size();
      text += "," + csv_field(named ? classes_[i]
                                    : fmt::format("{}{}", probabilities ? "probability" : "value",
                                                  size > 1 ? fmt::format("{}", i + 1) : ""));
    }
  }
  return text + "\n";
}

std::string AnswerTable::row(int64_t sample, std::span<const float> output) const {
  return prediction_.kind == graph::Prediction::Kind::kSoftmax ? class_row(sample, output) : value_row(sample, output);
}

std::vector<AnswerTable::Choice> AnswerTable::choose(std::span<const float> output) const {
  size_t inner = 1;
  for (int axis = prediction_.axis + 1; axis < shape_.rank(); ++axis) inner *= static_cast<size_t>(shape_[axis]);
  const auto classes = static_cast<size_t>(shape_[prediction_.axis]);
  std::vector<Choice> all;
  for (size_t at = 0; at < output.size(); at += classes * inner) {
    for (size_t i = 0; i < inner; ++i) {
      const auto logit = [&](size_t c) { return output[at + c * inner + i]; };
      Choice choice;
      for (size_t c = 1; c < classes; ++c)
        if (logit(c) > logit(choice.chosen)) choice.chosen = c;
      double sum = 0;
      for (size_t c = 0; c < classes; ++c) {
        choice.probabilities.push_back(ops::cpu::exponential(logit(c) - logit(choice.chosen)));
        sum += choice.probabilities.back();
      }
      for (float& p : choice.probabilities) p = static_cast<float>(p / sum);
      all.push_back(std::move(choice));
    }
  }
  return all;
}

std::string AnswerTable::class_row(int64_t sample, std::span<const float> output) const {
  const std::vector<Choice> choices = choose(output);
  const bool json = options_.format == Format::kJsonLines, one = choices.size() == 1;
  std::string labels, chances;
  for (const Choice& choice : choices) {
    const std::string label = name(choice.chosen);
    labels += (labels.empty() ? "" : json ? ", " : " ") + (json ? observe::json_string(label) : label);
    chances += (chances.empty() ? "" : json ? ", " : " ") + fmt::format("{}", choice.probabilities[choice.chosen]);
  }
  if (!json) {
    std::string text = fmt::format("{},{},{}", sample + 1, csv_field(labels), chances);
    if (options_.all) text += "," + list(choices.front().probabilities, ",");
    return text + "\n";
  }
  if (!one)
    return fmt::format("{{\"sample\": {}, \"labels\": [{}], \"probabilities\": [{}]}}\n", sample + 1, labels, chances);
  std::string text = fmt::format("{{\"sample\": {}, \"label\": {}, \"probability\": {}", sample + 1, labels, chances);
  if (options_.all) {
    std::string each;
    for (size_t c = 0; c < choices.front().probabilities.size(); ++c)
      each +=
          fmt::format("{}{}: {}", c > 0 ? ", " : "", observe::json_string(name(c)), choices.front().probabilities[c]);
    text += fmt::format(", \"probabilities\": {{{}}}", each);
  }
  return text + "}\n";
}

std::string AnswerTable::value_row(int64_t sample, std::span<const float> output) const {
  const bool probabilities = prediction_.kind == graph::Prediction::Kind::kSigmoid;
  std::vector<float> values(output.begin(), output.end());
  if (probabilities) std::transform(values.begin(), values.end(), values.begin(), ops::cpu::sigmoid);
  if (options_.format == Format::kCsv) return fmt::format("{},{}\n", sample + 1, list(values, ","));
  const char* const key = probabilities ? "probability" : "value";
  if (values.size() == 1) return fmt::format("{{\"sample\": {}, \"{}\": {}}}\n", sample + 1, key, values.front());
  return fmt::format("{{\"sample\": {}, \"{}\": [{}]}}\n", sample + 1, probabilities ? "probabilities" : "values",
                     list(values, ", "));
}

}  // namespace dtrain::node
