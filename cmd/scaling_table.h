// What `dtrain benchmark scaling` has measured, as a table for people, as figures and as a chart. Values.
#pragma once

#include <string>
#include <vector>

#include "figures/report.h"
#include "timed_cluster.h"

namespace dtrain::cmd {

// One size under one placement. Values of one place in the vectors are of one round.
struct ScalingRow {
  ClusterShape shape;
  int64_t batch = 0;
  double peak_gflops = 0;              // of all its threads, or all cores
  std::vector<double> rates = {};      // samples/s
  std::vector<double> speed_ups = {};  // beside one process in the same round

  std::string placement_text() const;  // "workers", "2 ps", "all, 2 ps"
};

// Each row: its throughput, its speed-up, its efficiency.
std::vector<figures::Figure> scaling_figures(const std::vector<ScalingRow>& rows, double flops_of_sample);
// The figures under a line for each row; `report` has those of scaling_figures().
std::string scaling_text(const figures::Report& report, const std::vector<ScalingRow>& rows, double flops_of_sample);
// Throughput and efficiency over the number of workers, one line a placement, beside perfect scaling. SVG.
std::string scaling_chart(const std::vector<ScalingRow>& rows, const std::string& title, const std::string& subtitle);

}  // namespace dtrain::cmd
