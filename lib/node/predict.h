// What a trained network answers for every sample of a data set, in the set's order, in this process.
#pragma once

#include <functional>
#include <span>

#include "base/result.h"
#include "data/dataset.h"
#include "node/local_model.h"
#include "node/run_definition.h"

namespace dtrain::node {

// Takes the network's outputs for one sample, Network::output() elements. An error ends the prediction.
using AnswerSink = std::function<Status(int64_t sample, std::span<const float> output)>;

// `batch` samples at a time; `data` fits the network of `run`; `rows` are those of sparse tables. An output that is not
// finite is kNotFinite.
Status predict(const RunDefinition& run, const data::Dataset& data, int64_t batch, const ParameterSource& source,
               const AnswerSink& sink, const RowSource* rows = nullptr);

}  // namespace dtrain::node
