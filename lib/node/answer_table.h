// A network's answers as text for other programs: a row a sample, as CSV (RFC 4180) or as a JSON object a line. Classes
// by their names, where they have some; probabilities from the loss's own function of its input (softmax, sigmoid).
// Borrows the network. One thread.
//
//   csv     sample,label,probability[,<class>…]     jsonl   {"sample": 1, "label": "yes", "probability": 0.75}
//   csv     sample,value[,value2…]                  jsonl   {"sample": 1, "value": 2.5}
#pragma once

#include <span>
#include <string>
#include <vector>

#include "graph/network.h"

namespace dtrain::node {

class AnswerTable {
 public:
  enum class Format { kCsv, kJsonLines };
  struct Options {
    Format format = Format::kCsv;
    bool all = false;  // the probability of every class
  };
  // A class that has no name is told by its number.
  AnswerTable(const graph::Network& network, std::vector<std::string> classes, Options options);

  std::string header() const;  // with its line's end; "" in JSON lines
  // `sample` from 0; they are numbered from 1.
  std::string row(int64_t sample, std::span<const float> output) const;

 private:
  // One answer of a sample: at each position of what is not the axis of classes.
  struct Choice {
    size_t chosen = 0;
    std::vector<float> probabilities;
  };
  std::vector<Choice> choose(std::span<const float> output) const;
  std::string class_row(int64_t sample, std::span<const float> output) const;
  std::string value_row(int64_t sample, std::span<const float> output) const;
  std::string name(size_t c) const;

  const graph::Prediction prediction_;
  const Shape shape_;
  const std::vector<std::string> classes_;
  const Options options_;
};

}  // namespace dtrain::node
