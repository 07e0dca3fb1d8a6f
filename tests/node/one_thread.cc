// Small networks gain nothing from a second thread, and lose much where other tests keep the cores busy.
#include <omp.h>

namespace {

[[maybe_unused]] const bool kOneThread = (omp_set_num_threads(1), true);

}  // namespace
