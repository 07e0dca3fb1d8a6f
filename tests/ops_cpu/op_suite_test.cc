// Every op of every backend against the plain reference.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <omp.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>

#include "tests/ops_cpu/op_harness.h"

namespace dtrain::ops::test {
namespace {

const std::vector<OpCase>& all_cases() {
  static const std::vector<OpCase> cases = [] {
    std::vector<OpCase> all;
    for (auto list : {convolution_cases, linear_cases, pooling_cases, batch_norm_cases, layer_norm_cases,
                      group_norm_cases, lrn_cases, activation_cases, softmax_cases, elementwise_cases, embedding_cases,
                      attention_cases, recurrent_cases, loss_cases, shape_cases})
      for (OpCase& c : list()) all.push_back(std::move(c));
    return all;
  }();
  return cases;
}

// The worst element of an output, in units of the tolerance; infinity where NaNs or infinities do not agree.
std::string difference(const Value& got, const Value& want, double tolerance) {
  if (got.desc.shape != want.desc.shape || got.desc.dtype != want.desc.dtype) return "another shape or type";
  const auto element = [](const Value& v, int64_t i) -> double {
    if (v.desc.dtype == DType::kF64) return v.data<double>()[i];
    if (v.desc.dtype == DType::kI32) return v.data<int32_t>()[i];
    return v.data()[i];
  };
  double squares = 0;
  int64_t finite = 0;
  for (int64_t i = 0; i < want.size(); ++i)
    if (std::isfinite(element(want, i))) {
      squares += element(want, i) * element(want, i);
      ++finite;
    }
  const double rms = finite ? std::sqrt(squares / static_cast<double>(finite)) : 0;
  double worst = 1;
  std::string what;
  for (int64_t i = 0; i < want.size(); ++i) {
    const double g = element(got, i), w = element(want, i);
    if ((std::isnan(g) && std::isnan(w)) || g == w) continue;
    const double error = std::fabs(g - w) / (tolerance * (std::fabs(w) + rms));
    if (error <= worst) continue;
    worst = std::isnan(error) ? std::numeric_limits<double>::infinity() : error;
    what = fmt::format("element {}: {} where the reference has {} ({:.1f} times the tolerance)", i, g, w, worst);
  }
  return what;
}

void expect_near(const OpCase& c, const Outcome& got, const Outcome& want) {
  EXPECT_THAT(got.complaints, testing::IsEmpty());
  ASSERT_EQ(got.outputs.size(), want.outputs.size());
  for (size_t i = 0; i < want.outputs.size(); ++i)
    if (want.outputs[i].desc.dtype != DType::kU8) {
      EXPECT_EQ(difference(got.outputs[i], want.outputs[i], c.tolerance), "")
          << "output " << i << " of " << got.implementation;
    }
}

void expect_same_bits(const Outcome& a, const Outcome& b) {
  ASSERT_EQ(a.outputs.size(), b.outputs.size());
  for (size_t i = 0; i < a.outputs.size(); ++i)
    if (a.outputs[i].desc.dtype != DType::kU8) {
      EXPECT_TRUE(a.outputs[i].bytes == b.outputs[i].bytes) << "output " << i;
    }
}

std::vector<HarnessOptions> forms_of(const OpCase& c) {
  std::vector<HarnessOptions> forms = {{}};
  const bool image = std::any_of(c.inputs.begin(), c.inputs.end(), [](const Value& v) {
    return v.desc.shape.rank() == 4 && v.desc.dtype == DType::kF32;
  });
  if (image) {
    forms.push_back({.images = Images::kConvolved});
    forms.push_back({.images = Images::kBlocked});
  }
  return forms;
}

std::string name_of(Images images) {
  return images == Images::kPlain       ? "plain layouts"
         : images == Images::kConvolved ? "layouts of a convolution"
                                        : "blocked layouts";
}

using Parameter = std::pair<std::string, size_t>;  // backend, index of the case

class OpSuite : public testing::TestWithParam<Parameter> {
 protected:
  void SetUp() override { omp_set_num_threads(1); }
  void TearDown() override { omp_set_num_threads(1); }
  const std::string& backend() const { return GetParam().first; }
  const OpCase& the_case() const { return all_cases()[GetParam().second]; }
  // Only a refusable case may be refused, and with a reason.
  Outcome supported(const OpCase& c, const HarnessOptions& options) {
    Outcome got = run_case(backend(), c, options);
    if (got.refused) {
      EXPECT_TRUE(c.refusable && !got.refused->empty()) << "refused: " << *got.refused;
    }
    return got;
  }
};

TEST_P(OpSuite, AgreesWithReference) {
  const OpCase& c = the_case();
  const Outcome want = run_case("reference", c);
  ASSERT_FALSE(want.refused) << *want.refused;
  for (HarnessOptions form : forms_of(c)) {
    SCOPED_TRACE(name_of(form.images));
    const Outcome got = supported(c, form);
    if (got.refused) return;
    expect_near(c, got, want);

    form.in_place = true;
    const Outcome in_place = run_case(backend(), c, form);
    EXPECT_THAT(in_place.complaints, testing::IsEmpty());
    if (!in_place.outputs.empty()) expect_same_bits(in_place, got);

    // oneDNN promises the same bits only for the same number of threads.
    const bool own = got.implementation == "own" || got.implementation == "reference";
    if (!own && form.images != Images::kPlain) continue;
    omp_set_num_threads(2);
    form.in_place = false;
    const Outcome threads = run_case(backend(), c, form);
    omp_set_num_threads(1);
    if (own) expect_same_bits(threads, got);
    expect_near(c, threads, want);
  }
}

TEST_P(OpSuite, PassesNanOn) {
  OpCase c = the_case();
  if (c.nan_at < 0) return;
  c.inputs[0].data()[c.nan_at] = std::numeric_limits<float>::quiet_NaN();
  const Outcome want = run_case("reference", c);
  for (const HarnessOptions& form : forms_of(c)) {
    SCOPED_TRACE(name_of(form.images));
    Outcome got = supported(c, form);
    if (got.refused) return;
    // NaN times the zeros of padded weights: no longer 0, but whoever reads it has the NaN itself in the same sum.
    std::erase_if(got.complaints, [](const std::string& s) { return s.ends_with(kPaddingComplaint); });
    expect_near(c, got, want);
  }
}

std::vector<Parameter> parameters() {
  std::vector<Parameter> list;
  for (const std::string& backend : OpRegistry::instance().backends())
    for (size_t i = 0; i < all_cases().size(); ++i)
      if (OpRegistry::instance().find(backend, all_cases()[i].op)) list.emplace_back(backend, i);
  return list;
}

std::string name_of_case(const testing::TestParamInfo<Parameter>& info) {
  const OpCase& c = all_cases()[info.param.second];
  std::string name = info.param.first + "_" + c.op + "_" + c.name;
  std::replace(name.begin(), name.end(), '.', '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(AllBackends, OpSuite, testing::ValuesIn(parameters()), name_of_case);

// A new op without a case, or one that its backend refuses in all of them, fails here.
TEST(OpSuiteCoverage, EveryOpOfEveryBackendHasACaseThatItSupports) {
  for (const std::string& backend : OpRegistry::instance().backends())
    for (const std::string& op : OpRegistry::instance().ops(backend)) {
      const bool supported = std::any_of(all_cases().begin(), all_cases().end(),
                                         [&](const OpCase& c) { return c.op == op && !run_case(backend, c).refused; });
      EXPECT_TRUE(supported) << op << " of " << backend;
    }
}

TEST(OpSuiteCoverage, EveryOpHasAReference) {
  const auto reference = OpRegistry::instance().ops("reference");
  for (const std::string& backend : OpRegistry::instance().backends())
    EXPECT_THAT(OpRegistry::instance().ops(backend), testing::IsSubsetOf(reference)) << backend;
}

TEST(OpSuiteCoverage, TheCpuHasEveryOp) {
  EXPECT_EQ(OpRegistry::instance().ops("cpu"), OpRegistry::instance().ops("reference"));
}

TEST(OpSuiteCoverage, CasesHaveNamesOfTheirOwn) {
  std::set<std::string> names;
  for (const OpCase& c : all_cases()) EXPECT_TRUE(names.insert(c.op + " " + c.name).second) << c.op << " " << c.name;
}

}  // namespace
}  // namespace dtrain::ops::test
