// What a network's output, the numbers that its loss reads, says of a sample: how to make probabilities of it.
#pragma once

namespace dtrain::graph {

struct Prediction {
  enum class Kind {
    kValues,   // the numbers themselves
    kSoftmax,  // logits of classes along `axis`
    kSigmoid,  // a logit for each label that holds or does not
  };
  Kind kind = Kind::kValues;
  int axis = 0;  // of one sample's output, which has no batch
};

}  // namespace dtrain::graph
