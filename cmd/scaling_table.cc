#include "scaling_table.h"

#include <fmt/format.h>

#include <algorithm>

#include "figures/figure.h"
#include "figures/line_chart.h"

namespace dtrain::cmd {
namespace {

std::vector<double> times(std::vector<double> values, double factor) {
  for (double& value : values) value *= factor;
  return values;
}

figures::Figure rate(const ScalingRow& row) { return figures::summarise({.unit = "samples/s"}, row.rates); }
figures::Figure speed_up(const ScalingRow& row) { return figures::summarise({}, row.speed_ups); }
// Percent of so many times what one process does.
figures::Figure efficiency(const ScalingRow& row) {
  return figures::summarise({.unit = "%"}, times(row.speed_ups, 100.0 / row.shape.workers));
}

std::string figure_name(const ScalingRow& row, const char* what) {
  return fmt::format("{}.{}{}.{}", row.shape.workers, cluster::to_string(row.shape.placement),
                     row.shape.has_ps() ? std::to_string(row.shape.ps) : "", what);
}

std::string group_text(const ScalingRow& row) {
  return fmt::format("{} worker{}, {}", row.shape.workers, row.shape.workers == 1 ? "" : "s", row.placement_text());
}

}  // namespace

std::string ScalingRow::placement_text() const {
  switch (shape.placement) {
    case cluster::Placement::kWorkers:
      return "workers";
    case cluster::Placement::kPs:
      return fmt::format("{} ps", shape.ps);
    case cluster::Placement::kAll:
      break;
  }
  return fmt::format("all, {} ps", shape.ps);
}

std::vector<figures::Figure> scaling_figures(const std::vector<ScalingRow>& rows, double flops_of_sample) {
  std::vector<figures::Figure> all;
  const auto add = [&](const ScalingRow& row, const char* name, const char* text, figures::Figure figure) {
    figure.name = figure_name(row, name);
    figure.text = text;
    figure.group = group_text(row);
    all.push_back(std::move(figure));
  };
  for (const ScalingRow& row : rows) {
    add(row, "samples", "throughput", rate(row));
    add(row, "speed_up", "speed-up", speed_up(row));
    add(row, "efficiency", "efficiency", efficiency(row));
    if (flops_of_sample > 0)
      add(row, "products", "convolutions and products",
          figures::summarise({.unit = "GFLOP/s", .peak = row.peak_gflops, .peak_of = "large matrix product"},
                             times(row.rates, flops_of_sample / 1e9)));
  }
  return all;
}

std::string scaling_text(const figures::Report& report, const std::vector<ScalingRow>& rows, double flops_of_sample) {
  std::string out = fmt::format("{}\n{}, {} cores\n\n", report.title, report.machine.cpu, report.machine.cores);
  out +=
      fmt::format("{:>7} {:<12} {:>7} {:>10} {:>19} {:>9} {:>15} {:>6} {:>15} {:>18}\n", "workers", "parameters",
                  "samples", "samples/s", "quartiles", "speed-up", "quartiles", "eff.", "quartiles", "GFLOP/s of peak");
  for (const ScalingRow& row : rows) {
    const figures::Figure r = rate(row), s = speed_up(row), e = efficiency(row);
    out += fmt::format(
        "{:>7} {:<12} {:>7} {:>10.1f} {:>8.1f} … {:<8.1f} {:>9.2f} {:>6.2f} … {:<6.2f} {:>5.0f}% {:>6.0f} … {:<5.0f}%",
        row.shape.workers, row.placement_text(), row.batch, r.median, r.low, r.high, s.median, s.low, s.high, e.median,
        e.low, e.high);
    if (flops_of_sample > 0) {
      const double gflops = r.median * flops_of_sample / 1e9;
      out += fmt::format(" {:>6.1f} of {:.1f}", gflops, row.peak_gflops);
    }
    out += "\n";
  }
  return out;
}

std::string scaling_chart(const std::vector<ScalingRow>& rows, const std::string& title, const std::string& subtitle) {
  figures::LineChart throughput{"Throughput", "workers", "samples/s", {}};
  figures::LineChart efficiencies{"Efficiency", "workers", "% of perfect scaling", {}};
  int most = 1;
  double alone = 0;
  for (const ScalingRow& row : rows) {
    most = std::max(most, row.shape.workers);
    if (row.shape.alone()) alone = rate(row).median;
  }
  for (const ScalingRow& row : rows) {
    const std::string name = "parameters on " + std::string(row.shape.has_ps() ? row.placement_text() : "the workers");
    const auto add = [&](figures::LineChart& chart, const figures::Figure& f) {
      auto series =
          std::find_if(chart.series.begin(), chart.series.end(), [&](const auto& s) { return s.name == name; });
      if (series == chart.series.end()) series = chart.series.insert(series, {name, {}, false});
      series->points.push_back({static_cast<double>(row.shape.workers), f.median, f.low, f.high});
    };
    add(throughput, rate(row));
    add(efficiencies, efficiency(row));
  }
  throughput.series.push_back({"perfect scaling", {{1, alone}, {static_cast<double>(most), alone * most}}, true});
  efficiencies.series.push_back({"perfect scaling", {{1, 100}, {static_cast<double>(most), 100}}, true});
  return figures::draw(title, subtitle, {throughput, efficiencies});
}

}  // namespace dtrain::cmd
