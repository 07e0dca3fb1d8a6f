// Checks a layer's gradients: on the reference backend against central differences of the loss, and the cpu backend's
// against the reference's.
//
//   TEST(MaxPool2d, Gradient) { check_gradients("[3, 6, 6]", R"({ type = "max_pool2d", kernel = 2 },)"); }
//
// The layer stands between one with parameters, called "front", and a classifier; so the gradient that it hands on
// shows in front's. The text may hold several layers and read "front" or "input" by name.
#pragma once

#include <string>

#include "tensor/shape.h"

namespace dtrain::graph {

struct GradientCheck {
  int64_t samples = 4;      // in the micro-batch
  double tolerance = 0.02;  // of a gradient's error, relative to the largest in its parameter
  bool wrap = true;         // false: the text is the whole network, loss included
};

void check_gradients(const std::string& input, const std::string& layers, const GradientCheck& check = {});

}  // namespace dtrain::graph
