// The planner on programs and a backend made for the purpose: "striped" kernels want and give a layout of their own.
#include "graph/plan.h"

#include <gmock/gmock.h>

#include "ops/registry.h"

namespace dtrain::graph {
namespace {

using testing::ElementsAre;

class Striped final : public ops::Layout {
 public:
  explicit Striped(size_t bytes) : bytes_(bytes) {}
  size_t bytes() const override { return bytes_; }
  bool equals(const Layout& other) const override { return dynamic_cast<const Striped*>(&other) != nullptr; }
  std::string describe() const override { return "striped"; }

 private:
  size_t bytes_;
};

class NoKernel final : public ops::Kernel {
 public:
  void run(std::span<const void* const>, std::span<void* const>, void*, const ops::RunContext&) override {}
  std::string implementation() const override { return "none"; }
};

enum class Style { kPlain, kStriped, kFollow, kReorder };

class FakeOp final : public ops::Op {
 public:
  explicit FakeOp(Style style) : style_(style) {}
  std::optional<std::string> unsupported(const ops::OpRequest&) const override { return std::nullopt; }
  Result<std::unique_ptr<ops::Kernel>> plan(const ops::OpRequest& request) const override {
    auto kernel = std::make_unique<NoKernel>();
    kernel->outputs = request.outputs;
    for (const ops::TensorDesc& in : request.inputs) kernel->input_layouts.push_back(wanted(in));
    for (ops::TensorDesc& out : kernel->outputs) {
      if (style_ == Style::kStriped) out.layout = std::make_shared<Striped>(out.bytes());
      if (style_ == Style::kFollow) out.layout = request.inputs.front().layout;
    }
    if (style_ == Style::kFollow) kernel->in_place = {{0, 0}};
    kernel->scratch_bytes = style_ == Style::kPlain ? 100 : 0;
    return std::unique_ptr<ops::Kernel>(std::move(kernel));
  }

 private:
  ops::LayoutPtr wanted(const ops::TensorDesc& in) const {
    if (style_ == Style::kPlain) return nullptr;
    if (style_ == Style::kStriped) return std::make_shared<Striped>(in.bytes());
    return in.layout;
  }
  Style style_;
};

const ops::Registration kFakes[] = {{"fake", "plain", std::make_unique<FakeOp>(Style::kPlain)},
                                    {"fake", "striped", std::make_unique<FakeOp>(Style::kStriped)},
                                    {"fake", "follow", std::make_unique<FakeOp>(Style::kFollow)},
                                    {"fake", "reorder", std::make_unique<FakeOp>(Style::kReorder)}};

class PlanTest : public testing::Test {
 protected:
  ValueId value(ValueKind kind = ValueKind::kTemporary, ParameterIndex p = -1) {
    Value v{.shape = {16}, .kind = kind};
    v.parameter = p;
    return program_.add(v);
  }
  ValueId op(const std::string& name, std::vector<ValueId> in) {
    const ValueId out = value();
    program_.nodes.push_back({name, {}, std::move(in), {out}, 0});
    return out;
  }
  Plan plan() {
    Result<Plan> plan = make_plan(program_, "fake");
    EXPECT_TRUE(plan) << plan.error().message;
    return std::move(*plan);
  }
  static std::vector<std::string> ops_of(const Plan& plan) {
    std::vector<std::string> names;
    for (const PlanStep& s : plan.steps) names.push_back(s.op);
    return names;
  }

  Program program_;
};

TEST_F(PlanTest, AValueKeepsItsProducersLayout) {
  const ValueId x = value(ValueKind::kSample);
  op("plain", {op("striped", {op("follow", {op("striped", {x})})})});
  EXPECT_THAT(ops_of(plan()), ElementsAre("reorder", "striped", "follow", "striped", "reorder", "plain"));
}

TEST_F(PlanTest, AReorderIsSharedByLaterReaders) {
  const ValueId x = value(ValueKind::kSample);
  const ValueId y = op("striped", {x});
  op("striped", {x});
  op("plain", {y});
  op("plain", {y});
  op("striped", {y});
  const Plan p = plan();
  EXPECT_THAT(ops_of(p), ElementsAre("reorder", "striped", "striped", "reorder", "plain", "plain", "striped"));
  EXPECT_EQ(p.steps[4].inputs, p.steps[5].inputs);
  EXPECT_EQ(p.steps[6].inputs, p.steps[1].outputs);
}

TEST_F(PlanTest, AParametersCopyIsPersistentAndMadeOnce) {
  const ValueId x = value(ValueKind::kSample);
  const ValueId w = value(ValueKind::kParameter, 3);
  op("striped", {op("striped", {x, w}), w});
  const Plan p = plan();
  EXPECT_THAT(ops_of(p), ElementsAre("reorder", "reorder", "striped", "striped"));
  ASSERT_EQ(p.copies.size(), 1u);
  EXPECT_EQ(p.copies[0].parameter, 3);
  EXPECT_EQ(p.steps[0].copy, -1);
  EXPECT_EQ(p.steps[1].copy, 0);
  EXPECT_EQ(p.places[static_cast<size_t>(p.copies[0].value)].space, Plan::Space::kPersistent);
  EXPECT_EQ(p.persistent_bytes, 64u);
}

TEST_F(PlanTest, GradientsReachTheCallerPlain) {
  const ValueId x = value(ValueKind::kSample);
  const ValueId dw = value(ValueKind::kParameterOut, 0), db = value(ValueKind::kParameterOut, 1);
  program_.nodes.push_back({"striped", {}, {x}, {dw}, 0});
  program_.nodes.push_back({"plain", {}, {x}, {db}, 0});
  const Plan p = plan();
  EXPECT_THAT(ops_of(p), ElementsAre("reorder", "striped", "reorder", "plain"));
  EXPECT_EQ(p.steps[2].outputs, std::vector<ValueId>{dw});
  EXPECT_EQ(p.steps[3].outputs, std::vector<ValueId>{db});
}

TEST_F(PlanTest, AViewMakesItsBasePlain) {
  const ValueId x = value(ValueKind::kSample);
  const ValueId y = op("striped", {x});
  const ValueId view = program_.add({.shape = {4, 4}, .view_of = y});
  op("plain", {view});
  op("plain", {view});
  const Plan p = plan();
  EXPECT_THAT(ops_of(p), ElementsAre("reorder", "striped", "reorder", "plain", "plain"));
  const auto at = [&](ValueId v) { return p.places[static_cast<size_t>(v)].offset; };
  EXPECT_EQ(at(view), at(p.steps[2].outputs[0]));
  EXPECT_NE(at(view), at(y));
}

TEST_F(PlanTest, AnOutputTakesOverAnInputThatNobodyReadsLater) {
  const ValueId x = value(ValueKind::kSample);
  const ValueId a = op("plain", {x});
  const ValueId b = op("follow", {a});
  const ValueId c = op("follow", {b});
  op("plain", {b, c});
  const Plan p = plan();
  const auto at = [&](ValueId v) { return p.places[static_cast<size_t>(v)].offset; };
  EXPECT_EQ(at(a), at(b));
  EXPECT_NE(at(b), at(c)) << "b is read once more";
}

TEST_F(PlanTest, NothingTakesOverTheCallersMemory) {
  const ValueId x = value(ValueKind::kSample);
  const ValueId a = op("follow", {x});
  op("plain", {a});
  const Plan p = plan();
  EXPECT_EQ(p.places[static_cast<size_t>(x)].space, Plan::Space::kCaller);
  EXPECT_EQ(p.places[static_cast<size_t>(a)].space, Plan::Space::kArena);
}

TEST_F(PlanTest, AnInputThatIsReadTwiceIsNotTakenOver) {
  const ValueId x = value(ValueKind::kSample);
  const ValueId a = op("plain", {x});
  const ValueId b = op("follow", {a, a});
  op("plain", {b});
  const Plan p = plan();
  EXPECT_NE(p.places[static_cast<size_t>(a)].offset, p.places[static_cast<size_t>(b)].offset);
}

TEST_F(PlanTest, ALongChainNeedsTwoBuffers) {
  ValueId v = value(ValueKind::kSample);
  for (int i = 0; i < 20; ++i) v = op("plain", {v});
  const Plan p = plan();
  EXPECT_EQ(p.arena_bytes, 128u);
  EXPECT_EQ(p.scratch_bytes, 100u);
}

TEST_F(PlanTest, SaysWhichOpIsMissing) {
  op("plane", {value(ValueKind::kSample)});
  const Result<Plan> p = make_plan(program_, "fake");
  ASSERT_FALSE(p);
  EXPECT_EQ(p.error().message, "the fake backend has no op 'plane' (did you mean 'plain'?)");
}

}  // namespace
}  // namespace dtrain::graph
