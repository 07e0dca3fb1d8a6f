// The name by which max_pool.cc knows base/vectorize.h's DTRAIN_CLONES.
#pragma once

#include "base/vectorize.h"

#define DTRAIN_FUNCTION_CLONES DTRAIN_CLONES
