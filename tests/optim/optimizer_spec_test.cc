#include "optim/optimizer_spec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "config/parse.h"
#include "optim/lbfgs.h"

namespace dtrain::optim {
namespace {

using testing::HasSubstr;

OptimizerSpec read(const std::string& text) {
  const auto table = config::parse_toml(text, "run.toml");
  EXPECT_TRUE(table.has_value());
  config::Diagnostics diagnostics;
  OptimizerSpec spec = read_optimizer_spec(*table, diagnostics);
  EXPECT_TRUE(diagnostics.ok()) << (diagnostics.ok() ? "" : diagnostics.status().error().message);
  return spec;
}

std::string error(const std::string& text) {
  const auto table = config::parse_toml(text, "run.toml");
  EXPECT_TRUE(table.has_value());
  config::Diagnostics diagnostics;
  const OptimizerSpec spec = read_optimizer_spec(*table, diagnostics);
  EXPECT_NE(spec.optimizer, nullptr);
  return diagnostics.ok() ? "" : diagnostics.status().error().message;
}

TEST(OptimizerSpec, ReadsCommonKeys) {
  const OptimizerSpec plain = read("lr = 0.5");
  EXPECT_EQ(plain.rate, 0.5);
  EXPECT_FALSE(plain.clip_norm.has_value());
  const OptimizerSpec clipped = read("lr = 1\nclip_norm = 2\ntype = 'adam'");
  EXPECT_EQ(clipped.rate, 1.0);
  EXPECT_EQ(clipped.clip_norm, 2.0);
  EXPECT_EQ(clipped.optimizer->slots(), 2u);
}

TEST(OptimizerSpec, NamesMistakes) {
  EXPECT_THAT(error(""), HasSubstr("lr"));
  EXPECT_THAT(error("lr = 0"), HasSubstr("run.toml:1:6: error: 'lr' in [optimizer] must be above 0"));
  EXPECT_THAT(error("lr = 0.1\nclip_norm = 0"), HasSubstr("clip_norm"));
  EXPECT_THAT(error("lr = 0.1\ntype = 'adm'"), HasSubstr("did you mean 'adam'?"));
  EXPECT_THAT(error("lr = 0.1\nmomentun = 0.9"), HasSubstr("did you mean 'momentum'?"));
  EXPECT_THAT(error("lr = 0.1\nnesterov = true"), HasSubstr("needs a 'momentum' above 0"));
  EXPECT_THAT(error("lr = 0.1\nmomentum = -0.1"), HasSubstr("momentum"));
  EXPECT_THAT(error("lr = 0.1\ntype = 'adam'\nbeta2 = 1"), HasSubstr("'beta2' in [optimizer] must be below 1"));
  EXPECT_THAT(error("lr = 0.1\ntype = 'adam'\nmomentum = 0.9"), HasSubstr("momentum"));
  EXPECT_THAT(error("lr = 0.1\ntype = 'rmsprop'\ndecay = 1.5"), HasSubstr("decay"));
  EXPECT_THAT(error("lr = 0.1\ntype = 'adagrad'\nlr_decay = -1"), HasSubstr("lr_decay"));
  EXPECT_THAT(error("lr = 0.1\ntype = 'adadelta'\nrh = 0.5"), HasSubstr("did you mean 'rho'?"));
}

TEST(OptimizerSpec, LbfgsFindsItsOwnRates) {
  const OptimizerSpec spec = read("type = 'lbfgs'\nhistory = 3");
  ASSERT_NE(spec.optimizer->full_batch(), nullptr);
  EXPECT_EQ(spec.optimizer->full_batch()->history, 3);
  EXPECT_EQ(spec.optimizer->full_batch()->tolerance, 1e-6);
  EXPECT_EQ(spec.optimizer->slot_names(), (std::vector<std::string>{"s0", "y0", "s1", "y1", "s2", "y2"}));
  EXPECT_EQ(read("lr = 1").optimizer->full_batch(), nullptr);
  EXPECT_THAT(error("type = 'lbfgs'\nlr = 0.1"), HasSubstr("'lr' in [optimizer] is not for 'lbfgs'"));
  EXPECT_THAT(error("type = 'lbfgs'\nclip_norm = 1"), HasSubstr("'clip_norm'"));
  EXPECT_THAT(error("type = 'lbfgs'\nhistory = 0"), HasSubstr("history"));
}

TEST(ClipFactor, NeverLengthens) {
  EXPECT_EQ(clip_factor(0.0, 1.0), 1.0);
  EXPECT_EQ(clip_factor(0.5, 1.0), 1.0);
  EXPECT_DOUBLE_EQ(clip_factor(4.0, 1.0), 1.0 / (4.0 + 1e-6));
}

}  // namespace
}  // namespace dtrain::optim
