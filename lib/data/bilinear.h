// Resizing by a triangle filter that widens with the reduction, so that no pixel is passed over: what Pillow calls
// BILINEAR and torchvision "bilinear with antialias", in floats. Enlarging it is plain bilinear interpolation with
// half-pixel centres. The same bits everywhere.
#pragma once

#include "data/image.h"

namespace dtrain::data {

Image resize_bilinear(const Image& image, int64_t height, int64_t width);

}  // namespace dtrain::data
