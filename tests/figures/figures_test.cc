#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "figures/comparison.h"
#include "figures/line_chart.h"
#include "figures/report.h"
#include "figures/svg.h"

namespace dtrain::figures {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Figure times(std::vector<double> ms) {
  return summarise({.name = "step", .text = "a step", .unit = "ms", .less_is_better = true}, std::move(ms));
}
Figure rates(std::vector<double> values) {
  return summarise({.name = "rate", .text = "samples", .unit = "samples/s"}, std::move(values));
}
Report report(Figure figure) {
  return {.program = "dtrain 9",
          .part = "step",
          .title = "a title",
          .run = "configs/a.toml",
          .settings = {{"threads", int64_t{2}}, {"data", "synthetic"}},
          .also = {{"min_ms", 1.5}},
          .machine = {.cpu = "Made Up", .cores = 4, .threads = 2, .gflops = 100, .gbytes = 10},
          .figures = {std::move(figure)}};
}
Change change(const Figure& now, const Figure& then) {
  const auto c = compare(report(now), report(then), "old.json");
  EXPECT_TRUE(c.has_value());
  return c->differences.at(0).change;
}

TEST(FigureTest, MedianQuartilesAndBest) {
  const Figure f = rates({5, 1, 3, 2, 4});
  EXPECT_EQ(f.rounds, 5);
  EXPECT_EQ(f.median, 3);
  EXPECT_EQ(f.low, 2);
  EXPECT_EQ(f.high, 4);
  EXPECT_EQ(f.best, 5);
  EXPECT_EQ(times({5, 1, 3, 2, 4}).best, 1);
  EXPECT_EQ(rates({1, 2}).median, 1.5);
  EXPECT_EQ(rates({7}).low, 7);
}

TEST(FigureTest, PartOfThePeak) {
  Figure f = rates({50, 40});
  EXPECT_EQ(f.of_peak(), 0);
  f.peak = 100;
  EXPECT_EQ(f.of_peak(), 0.5);
  Figure t = times({4, 5});
  t.peak = 2;
  EXPECT_EQ(t.of_peak(), 0.5);
}

TEST(ReportTest, JsonIsReadAgain) {
  Figure f = times({4, 5, 6, 7});
  f.peak = 2;
  f.peak_of = "an echo";
  const std::string json = to_json(report(f));
  EXPECT_EQ(json.find('\n'), std::string::npos);
  const auto parsed = nlohmann::json::parse(json);
  EXPECT_EQ(parsed["settings"]["threads"], 2);
  EXPECT_EQ(parsed["machine"]["peak_gflops"], 100);
  EXPECT_EQ(parsed["min_ms"], 1.5);
  EXPECT_EQ(parsed["figures"][0]["peak_of"], "an echo");
  const auto read = read_report(json, "a.json");
  ASSERT_TRUE(read.has_value()) << read.error().message;
  EXPECT_EQ(read->part, "step");
  EXPECT_EQ(read->run, "configs/a.toml");
  EXPECT_EQ(read->machine.cpu, "Made Up");
  EXPECT_EQ(read->settings, report(f).settings);
  ASSERT_EQ(read->figures.size(), 1u);
  EXPECT_EQ(read->figures[0].median, 5.5);
  EXPECT_EQ(read->figures[0].high, f.high);
  EXPECT_TRUE(read->figures[0].less_is_better);
}

TEST(ReportTest, WhatIsNoReportIsRefused) {
  for (const std::string text :
       {"", "[]", "{", "{}", R"({"part": "step"})", R"({"part": 3, "machine": {}, "figures": []})",
        R"({"part": "step", "machine": {"cpu": "x", "cores": 1}, "figures": [{"name": "a"}]})",
        R"({"part": "step", "machine": {"cpu": "x", "cores": 1}, "figures": 3})",
        R"({"part": "step", "settings": {"a": []}, "machine": {"cpu": "x", "cores": 1}, "figures": []})"}) {
    const auto read = read_report(text, "old.json");
    ASSERT_FALSE(read.has_value()) << text;
    EXPECT_EQ(read.error().code, ExitCode::kUsage);
    EXPECT_THAT(read.error().message, HasSubstr("'old.json' is not what dtrain benchmark --json prints"));
  }
}

TEST(ReportTest, TextHasAHeadingForEachGroup) {
  Report r = report(times({1}));
  r.figures.push_back(rates({1}));
  r.figures.push_back(rates({2}));
  r.figures[1].group = r.figures[2].group = "many";
  r.figures[2].peak = 4;
  r.figures[2].peak_of = "memory";
  const std::string text = to_text(r);
  EXPECT_THAT(text, HasSubstr("a title\nMade Up, 4 cores; measured peak of 2 threads: 100.0 GFLOP/s"));
  EXPECT_EQ(text.find("many"), text.rfind("many"));
  EXPECT_THAT(text, HasSubstr("50 % of 4.000 samples/s, memory"));
}

TEST(ComparisonTest, VerdictsKnowTheSpread) {
  const std::vector<double> base{10, 11, 12, 13, 14}, twice{20, 22, 24, 26, 28}, near{11, 12, 13, 14, 15};
  EXPECT_EQ(change(rates(twice), rates(base)), Change::kFaster);
  EXPECT_EQ(change(rates(base), rates(twice)), Change::kSlower);
  EXPECT_EQ(change(times(twice), times(base)), Change::kSlower);
  EXPECT_EQ(change(times(base), times(twice)), Change::kFaster);
  EXPECT_EQ(change(rates(near), rates(base)), Change::kNone);
  EXPECT_EQ(change(rates(base), rates(base)), Change::kNone);
  // The same medians as `twice`, and a spread that reaches down to `base`.
  EXPECT_EQ(change(rates({12, 12.5, 24, 26, 28}), rates(base)), Change::kNone);
  EXPECT_EQ(change(rates({20, 22, 24}), rates(base)), Change::kUnknown);
  EXPECT_EQ(change(rates(twice), rates({10})), Change::kUnknown);
}

TEST(ComparisonTest, RatioIsOfMedians) {
  const auto c = compare(report(rates({3})), report(rates({2})), "old.json");
  EXPECT_EQ(c->differences[0].ratio(), 1.5);
  const auto json = nlohmann::json::parse(to_json(*c));
  EXPECT_EQ(json[0]["then"], 2);
  EXPECT_EQ(json[0]["now"], 3);
  EXPECT_EQ(json[0]["change"], "too few rounds to say");
}

TEST(ComparisonTest, WhatIsNewAndWhatIsNoMore) {
  const auto c = compare(report(rates({3})), report(times({2})), "old.json");
  EXPECT_EQ(c->differences[0].change, Change::kNew);
  EXPECT_THAT(c->notes, ElementsAre("step was measured then and is not now"));
  EXPECT_THAT(to_text(*c), HasSubstr("new\n"));
}

TEST(ComparisonTest, OtherMachinesAndSettingsAreNoted) {
  Report then = report(rates({2}));
  then.machine.cpu = "Other";
  then.settings[0].second = int64_t{1};
  const auto c = compare(report(rates({3})), then, "old.json");
  ASSERT_EQ(c->notes.size(), 2u);
  EXPECT_THAT(c->notes[0], HasSubstr("then Other, 4 cores; now Made Up, 4 cores"));
  EXPECT_EQ(c->notes[1], "threads was 1 and is 2");
}

TEST(ComparisonTest, OtherPartsAndRunsAreRefused) {
  Report then = report(rates({2}));
  then.part = "wire";
  auto c = compare(report(rates({3})), then, "old.json");
  ASSERT_FALSE(c.has_value());
  EXPECT_EQ(c.error().code, ExitCode::kUsage);
  EXPECT_THAT(c.error().message, HasSubstr("'old.json' is of dtrain benchmark wire, and this is step"));
  then = report(rates({2}));
  then.run = "b.toml";
  c = compare(report(rates({3})), then, "old.json");
  ASSERT_FALSE(c.has_value());
  EXPECT_THAT(c.error().message, HasSubstr("of the run file b.toml"));
  then.run = "/elsewhere/a.toml";
  EXPECT_TRUE(compare(report(rates({3})), then, "old.json").has_value());
}

TEST(LineChartTest, MarksAreRoundAndReachTheMost) {
  EXPECT_THAT(axis_marks(1), ElementsAre(0, 0.2, 0.4, testing::DoubleNear(0.6, 1e-9), 0.8, 1));
  EXPECT_THAT(axis_marks(23), ElementsAre(0, 5, 10, 15, 20, 25));
  for (const double most : {1e-7, 0.3, 7.0, 99.0, 101.0, 12345.0, 9.9e8}) {
    const auto marks = axis_marks(most);
    EXPECT_GE(marks.back(), most * (1 - 1e-9)) << most;
    EXPECT_GE(marks.size(), 4u) << most;
    EXPECT_LE(marks.size(), 8u) << most;
  }
  EXPECT_GE(axis_marks(0).size(), 2u);
  EXPECT_GE(axis_marks(NAN).size(), 2u);
}

size_t count(const std::string& text, const std::string& word) {
  size_t n = 0;
  for (size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) ++n;
  return n;
}

TEST(LineChartTest, EveryPointIsADotWithItsRange) {
  const LineChart chart{
      "one",
      "workers",
      "samples/s",
      {{"a < b", {{1, 10, 9, 11}, {2, 20, 18, 21}, {4, 30, 30, 30}}, false}, {"perfect", {{1, 10}, {4, 40}}, true}}};
  const std::string svg = draw("title & more", "of <this>", {chart, chart});
  EXPECT_EQ(count(svg, "<circle"), 2 * 3 + 1u) << "points, and one in the legend";
  EXPECT_EQ(count(svg, "<polyline"), 4u);
  EXPECT_EQ(count(svg, "<text"), count(svg, "</text>"));
  EXPECT_THAT(svg, HasSubstr("title &amp; more"));
  EXPECT_THAT(svg, HasSubstr("of &lt;this&gt;"));
  EXPECT_THAT(svg, HasSubstr("a &lt; b"));
  EXPECT_EQ(count(svg, "http"), 1u) << "the name space alone";
  EXPECT_EQ(count(svg, "nan"), 0u);
}

TEST(LineChartTest, OnePointIsAPictureToo) {
  const std::string svg = draw("t", "", {{"one", "x", "y", {{"a", {{1, 5, 5, 5}}, false}}}});
  EXPECT_EQ(count(svg, "nan"), 0u);
  EXPECT_EQ(count(svg, "inf"), 0u);
  EXPECT_TRUE(svg.ends_with("</svg>\n"));
}

TEST(SvgTest, TextIsXml) { EXPECT_EQ(xml_text("a<b>&\"c\"\x01"), "a&lt;b&gt;&amp;&quot;c&quot;"); }

}  // namespace
}  // namespace dtrain::figures
