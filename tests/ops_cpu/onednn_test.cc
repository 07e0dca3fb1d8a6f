// What is particular to the kernels on oneDNN: layouts and reorders between them, the pinned instruction set, equal
// bits from run to run, no allocation of size while running, and nothing touched outside the values.
#include "ops/cpu/onednn.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <omp.h>
#include <sys/mman.h>

#include <atomic>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <new>

#include "base/philox.h"
#include "ops/batch_norm.h"
#include "ops/conv2d.h"
#include "ops/cpu/fingerprint.h"
#include "ops/linear.h"
#include "ops/pool2d.h"
#include "ops/registry.h"
#include "tensor/buffer.h"

// Counts what anyone in this process allocates, oneDNN included. Sanitizers want these functions for themselves.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define DTRAIN_COUNTS_ALLOCATIONS 1
namespace {
std::atomic<size_t> allocated_bytes{0};
}
// Not inlined: g++ 12 would take the pair for mismatched.
[[gnu::noinline]] void* operator new(size_t bytes) {
  allocated_bytes += bytes;
  if (void* p = std::malloc(bytes)) return p;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* p) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete(void* p, size_t) noexcept { std::free(p); }
extern "C" int posix_memalign(void** p, size_t alignment, size_t bytes) {
  allocated_bytes += bytes;
  *p = std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
  return *p ? 0 : ENOMEM;
}
#endif

namespace dtrain::ops::cpu {
namespace {

using Tag = dnnl::memory::format_tag;
using ::testing::HasSubstr;

struct Value {
  TensorDesc desc;
  Buffer data;
};

TensorDesc plain_desc(Shape shape) { return {std::move(shape), DType::kF32, nullptr}; }

Value numbers(Shape shape, uint32_t stream = 1) {
  Value v{plain_desc(std::move(shape)), {}};
  v.data = Buffer(v.desc.bytes());
  const Philox random(7, stream, 0, 0);
  uint64_t i = 0;
  for (float& x : v.data.as<float>()) x = uniform01(random.at(i++)) - 0.5f;
  return v;
}

LayoutPtr tagged(const Shape& shape, Tag tag) { return layout_of({dims_of(shape), dnnl::memory::data_type::f32, tag}); }

std::unique_ptr<Kernel> planned(const OpRequest& request) {
  auto kernel = OpRegistry::instance().plan("cpu", request);
  EXPECT_TRUE(kernel) << (kernel ? "" : kernel.error().message);
  return kernel ? std::move(*kernel) : nullptr;
}

// Fills with NaN first, so that what a kernel does not write shows.
std::vector<Value> outputs_of(const Kernel& kernel) {
  std::vector<Value> out;
  for (const TensorDesc& d : kernel.outputs) {
    out.push_back({d, Buffer(d.bytes())});
    std::memset(out.back().data.data(), 0xff, out.back().data.size());
  }
  return out;
}

void run(Kernel& kernel, const std::vector<const Value*>& in, std::vector<Value>& out) {
  std::vector<const void*> from;
  std::vector<void*> to;
  for (size_t i = 0; i < in.size(); ++i) {
    ASSERT_TRUE(same_layout(in[i]->desc.layout, kernel.input_layouts[i])) << "input " << i;
    from.push_back(in[i]->data.data());
  }
  for (Value& v : out) to.push_back(v.data.data());
  Buffer scratch(kernel.scratch_bytes);
  std::memset(scratch.data(), 0xff, scratch.size());
  kernel.run(from, to, scratch.data(), {});
}

Value reordered(const Value& v, const LayoutPtr& layout) {
  auto kernel = planned({"reorder", {}, {v.desc}, {{v.desc.shape, v.desc.dtype, layout}}});
  auto out = outputs_of(*kernel);
  run(*kernel, {&v}, out);
  return std::move(out[0]);
}

// Plans, brings the inputs into the layouts wanted, runs, and gives the outputs as they are.
std::vector<Value> run_op(const OpRequest& request, const std::vector<const Value*>& in) {
  auto kernel = planned(request);
  std::vector<Value> wanted;
  for (size_t i = 0; i < in.size(); ++i)
    if (kernel->input_layouts[i] && in[i]->desc.dtype == DType::kU8) {
      wanted.push_back({in[i]->desc, Buffer(in[i]->data.size())});
      std::memcpy(wanted[i].data.data(), in[i]->data.data(), in[i]->data.size());
    } else {
      wanted.push_back(reordered(*in[i], kernel->input_layouts[i]));
    }
  std::vector<const Value*> pointers;
  for (const Value& v : wanted) pointers.push_back(&v);
  auto out = outputs_of(*kernel);
  run(*kernel, pointers, out);
  return out;
}

bool same_bits(const Value& a, const Value& b) {
  return a.data.size() == b.data.size() && std::memcmp(a.data.data(), b.data.data(), a.data.size()) == 0;
}

Conv2d conv3x3() {
  Conv2d conv;
  conv.kernel = {3, 3};
  conv.pad = {1, 1};
  return conv;
}

TEST(OnednnLayout, IsNoneWhereTheOrderIsRowMajor) {
  EXPECT_EQ(tagged({2, 20, 5, 5}, Tag::nchw), nullptr);
  EXPECT_EQ(tagged({2, 1, 5, 5}, Tag::nhwc), nullptr) << "one channel lies alike either way";
  EXPECT_EQ(tagged({2, 20, 1, 1}, Tag::nhwc), nullptr);
  EXPECT_EQ(layout_of(plain({3, 8, 4, 5, 5})), nullptr);
  EXPECT_NE(tagged({2, 20, 5, 5}, Tag::nhwc), nullptr);
  EXPECT_NE(tagged({2, 1, 5, 5}, Tag::nChw16c), nullptr) << "padded";
}

TEST(OnednnLayout, ComparesWhereElementsLie) {
  const Shape shape{2, 20, 5, 5};
  EXPECT_TRUE(same_layout(tagged(shape, Tag::nhwc), tagged(shape, Tag::nhwc)));
  EXPECT_FALSE(same_layout(tagged(shape, Tag::nhwc), tagged(shape, Tag::nChw16c)));
  EXPECT_FALSE(same_layout(tagged(shape, Tag::nChw8c), tagged(shape, Tag::nChw16c)));
  EXPECT_FALSE(same_layout(tagged(shape, Tag::nhwc), nullptr));
  EXPECT_FALSE(same_layout(tagged(shape, Tag::nhwc), tagged({2, 20, 5, 6}, Tag::nhwc)));
  // The strides along an extent of 1 differ here.
  const dnnl::memory::desc a({1, 4, 3}, dnnl::memory::data_type::f32, dnnl::memory::dims{100, 1, 4});
  const dnnl::memory::desc b({1, 4, 3}, dnnl::memory::data_type::f32, dnnl::memory::dims{12, 1, 4});
  EXPECT_TRUE(OnednnLayout(a).equals(OnednnLayout(b)));
}

TEST(OnednnLayout, DescribesItselfAsOnednnDoes) {
  EXPECT_EQ(tagged({2, 20, 5, 5}, Tag::nhwc)->describe(), "acdb");
  EXPECT_EQ(tagged({2, 20, 5, 5}, Tag::nChw16c)->describe(), "aBcd16b");
  EXPECT_EQ(tagged({2, 20, 5, 5}, Tag::nChw16c)->bytes(), 2u * 32 * 5 * 5 * 4);
}

TEST(Reorder, ComesBackThroughAChainOfLayouts) {
  const Shape shape{2, 20, 5, 7};
  const Value x = numbers(shape);
  const Value blocked = reordered(x, tagged(shape, Tag::nChw16c));
  const Value last = reordered(blocked, tagged(shape, Tag::nhwc));
  EXPECT_FALSE(same_bits(x, last));
  EXPECT_TRUE(same_bits(x, reordered(last, nullptr)));
  EXPECT_TRUE(same_bits(x, reordered(blocked, nullptr)));
  // The second block holds channels 16…19 and twelve of zeros.
  const auto stored = blocked.data.as<float>();
  for (size_t pixel = 0; pixel < 35; ++pixel)
    for (size_t c = 4; c < 16; ++c) EXPECT_EQ(stored[16 * 35 + pixel * 16 + c], 0.0f);
}

TEST(Reorder, GoesBetweenLayoutsWithDifferentDimensions) {
  const Value w = numbers({32, 8, 3, 3});
  const LayoutPtr as_image = tagged(w.desc.shape, Tag::nChw16c);
  const LayoutPtr grouped = layout_of({{4, 8, 8, 3, 3}, dnnl::memory::data_type::f32, Tag::gOIhw8i8o});
  const Value there = reordered(reordered(w, as_image), grouped);
  EXPECT_TRUE(same_bits(there, reordered(w, grouped)));
  EXPECT_TRUE(same_bits(w, reordered(reordered(there, as_image), nullptr)));
}

TEST(Reorder, CopiesOtherTypesAndRefusesForeignLayouts) {
  Value labels{{Shape{5}, DType::kI64, nullptr}, Buffer(40)};
  std::memset(labels.data.data(), 3, 40);
  EXPECT_TRUE(same_bits(labels, reordered(labels, nullptr)));

  class Foreign : public Layout {
    size_t bytes() const override { return 16; }
    bool equals(const Layout&) const override { return false; }
    std::string describe() const override { return "foreign"; }
  };
  auto kernel = OpRegistry::instance().plan(
      "cpu", {"reorder", {}, {plain_desc({4})}, {{Shape{4}, DType::kF32, std::make_shared<Foreign>()}}});
  ASSERT_FALSE(kernel);
  EXPECT_THAT(kernel.error().message, HasSubstr("another backend"));
}

TEST(Conv2dOnednn, KeepsBlocksBetweenLayersAndNeedsNoPaddingOtherwise) {
  const auto output_layout = [](const TensorDesc& x, int64_t filters) {
    const Shape y{x.shape[0], filters, x.shape[2], x.shape[3]};
    return planned({"conv2d", conv3x3(), {x, plain_desc({filters, x.shape[1], 3, 3})}, {plain_desc(y)}})->outputs[0];
  };
  const TensorDesc blocked = output_layout(plain_desc({4, 3, 12, 12}), 32);
  const TensorDesc next = output_layout(blocked, 32);
  EXPECT_TRUE(same_layout(blocked.layout, next.layout)) << blocked.layout->describe();
  auto kernel = planned({"conv2d", conv3x3(), {blocked, plain_desc({32, 32, 3, 3})}, {plain_desc(blocked.shape)}});
  EXPECT_TRUE(same_layout(kernel->input_layouts[0], blocked.layout)) << "no reorder before the next layer";

  const TensorDesc odd = output_layout(plain_desc({4, 16, 12, 12}), 20);
  EXPECT_GE(odd.bytes(), static_cast<size_t>(odd.shape.elements()) * 4);
}

TEST(Conv2dOnednn, GroupedWeightsTakePyTorchsShape) {
  Conv2d conv = conv3x3();
  conv.groups = 4;
  const Value x = numbers({2, 16, 6, 6}, 1), w = numbers({32, 4, 3, 3}, 2);
  auto y = run_op({"conv2d", conv, {x.desc, w.desc}, {plain_desc({2, 32, 6, 6})}}, {&x, &w});
  const Value out = reordered(y[0], nullptr);
  // Filter 9 belongs to group 1, which reads channels 4…7; at pixel (2, 3) of sample 1.
  double expected = 0;
  for (size_t c = 0; c < 4; ++c)
    for (size_t i = 0; i < 3; ++i)
      for (size_t j = 0; j < 3; ++j)
        expected += static_cast<double>(x.data.as<float>()[((16 + 4 + c) * 6 + 1 + i) * 6 + 2 + j]) *
                    w.data.as<float>()[((9 * 4 + c) * 3 + i) * 3 + j];
  EXPECT_NEAR(out.data.as<float>()[((32 + 9) * 6 + 2) * 6 + 3], expected, 1e-5);
}

TEST(Pool2dOnednn, FirstOfEqualMaximaTakesTheGradient) {
  Pool2d pool;
  pool.kernel = {3, 3};
  pool.stride = {2, 2};
  pool.pad = {1, 1};
  const Shape shape{2, 20, 8, 8}, small{2, 20, 4, 4};
  for (Tag tag : {Tag::nchw, Tag::nhwc, Tag::nChw16c, Tag::nChw8c}) {
    Value x{plain_desc(shape), Buffer(plain_desc(shape).bytes())};
    for (float& v : x.data.as<float>()) v = -1.5f;
    x = reordered(x, tagged(shape, tag));
    auto y = run_op({"pool2d", pool, {x.desc}, {plain_desc(small), {Shape{0}, DType::kU8, nullptr}}}, {&x});
    Value dy{plain_desc(small), Buffer(plain_desc(small).bytes())};
    for (float& v : dy.data.as<float>()) v = 1.0f;
    auto dx = run_op({"pool2d.backward", pool, {dy.desc, y[1].desc}, {plain_desc(shape)}}, {&dy, &y[1]});
    const Value plain_dx = reordered(dx[0], nullptr);
    for (size_t i = 0; i < 64; ++i) {
      // Windows start at −1, 1, 3, 5; the first element of each inside x is 0, 1, 3, 5.
      const auto first = [](size_t at) { return at == 0 || at == 1 || at == 3 || at == 5; };
      EXPECT_EQ(plain_dx.data.as<float>()[64 * 21 + i], first(i / 8) && first(i % 8) ? 1.0f : 0.0f)
          << "element " << i << " in " << (x.desc.layout ? x.desc.layout->describe() : "plain");
    }
  }
}

// Memory that ends where nothing may be read or written.
class Guarded {
 public:
  explicit Guarded(size_t bytes) {
    const size_t pages = (bytes + 4095) / 4096 * 4096;
    size_ = pages + 4096;
    base_ = static_cast<std::byte*>(mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    EXPECT_EQ(mprotect(base_ + pages, 4096, PROT_NONE), 0);
    data_ = base_ + pages - bytes;
  }
  ~Guarded() { munmap(base_, size_); }
  Guarded(const Guarded&) = delete;
  std::byte* data() { return data_; }

 private:
  std::byte *base_, *data_;
  size_t size_;
};

TEST(BatchNormOnednn, TouchesNothingBehindItsVectors) {
  for (int64_t channels : {6, 16, 20})
    for (Tag tag : {Tag::nchw, Tag::nhwc, Tag::nChw16c, Tag::nChw8c}) {
      const Shape shape{2, channels, 3, 3};
      const size_t bytes = static_cast<size_t>(channels) * 4;
      BatchNorm bn;
      bn.activation.kind = ActivationKind::kRelu;
      const Value x = reordered(numbers(shape), tagged(shape, tag));
      const TensorDesc vector = plain_desc({channels});
      auto forward = planned({"batch_norm",
                              bn,
                              {x.desc, vector, vector, vector, vector},
                              {plain_desc(shape), vector, vector, vector, vector}});
      std::vector<std::unique_ptr<Guarded>> v;
      for (int i = 0; i < 12; ++i) {
        v.push_back(std::make_unique<Guarded>(bytes));
        for (int64_t c = 0; c < channels; ++c)
          reinterpret_cast<float*>(v.back()->data())[c] = 1.0f + 0.1f * static_cast<float>(c);
      }
      auto y = outputs_of(*forward);
      Buffer scratch(forward->scratch_bytes);
      forward->run(std::vector<const void*>{x.data.data(), v[0]->data(), v[1]->data(), v[2]->data(), v[3]->data()},
                   std::vector<void*>{y[0].data.data(), v[4]->data(), v[5]->data(), v[6]->data(), v[7]->data()},
                   scratch.data(), {});

      auto backward = planned({"batch_norm.backward",
                               bn,
                               {x.desc, vector, vector, vector, y[0].desc, y[0].desc},
                               {plain_desc(shape), vector, vector}});
      auto dx = outputs_of(*backward);
      Buffer scratch2(backward->scratch_bytes);
      backward->run(std::vector<const void*>{x.data.data(), v[4]->data(), v[5]->data(), v[2]->data(), y[0].data.data(),
                                             y[0].data.data()},
                    std::vector<void*>{dx[0].data.data(), v[8]->data(), v[9]->data()}, scratch2.data(), {});
      for (int out = 4; out < 10; ++out)
        for (int64_t c = 0; c < channels; ++c)
          EXPECT_TRUE(std::isfinite(reinterpret_cast<float*>(v[static_cast<size_t>(out)]->data())[c]));
      for (float d : dx[0].data.as<float>()) EXPECT_TRUE(std::isfinite(d));
    }
}

TEST(Determinism, EqualBitsFromRunToRunAndPlanToPlan) {
  const Value x = numbers({8, 20, 12, 12}, 1), w = numbers({50, 20, 3, 3}, 2), b = numbers({50}, 3);
  const OpRequest conv{"conv2d", conv3x3(), {x.desc, w.desc, b.desc}, {plain_desc({8, 50, 12, 12})}};
  const auto y = run_op(conv, {&x, &w, &b});
  const OpRequest gradient{
      "conv2d.backward_weights", conv3x3(), {x.desc, y[0].desc}, {plain_desc(w.desc.shape), plain_desc({50})}};
  const auto dw = run_op(gradient, {&x, &y[0]});
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(same_bits(y[0], run_op(conv, {&x, &w, &b})[0]));
    const auto again = run_op(gradient, {&x, &y[0]});
    EXPECT_TRUE(same_bits(dw[0], again[0]));
    EXPECT_TRUE(same_bits(dw[1], again[1]));
  }
}

#ifdef DTRAIN_COUNTS_ALLOCATIONS
TEST(Allocation, RunningAllocatesNothingOfSize) {
  // oneDNN allocates a few small things a call; scratch and values of these shapes take far more. Its general matrix
  // product alone takes no scratch from the caller and allocates the panels that it packs.
  constexpr size_t kSmall = 4096, kPanels = 2 << 20;
  const Shape image{8, 16, 16, 16};
  const Value x = numbers(image), w = numbers({16, 16, 3, 3}), rows = numbers({64, 300}), matrix = numbers({200, 300}),
              dy = numbers({64, 200}), bias = numbers({200});
  const TensorDesc vector = plain_desc({16}), opaque{Shape{0}, DType::kU8, nullptr};
  Pool2d pool;
  pool.kernel = pool.stride = {2, 2};
  const std::vector<OpRequest> requests = {
      {"conv2d", conv3x3(), {x.desc, w.desc}, {plain_desc(image)}},
      {"conv2d.backward_data", conv3x3(), {x.desc, w.desc}, {plain_desc(image)}},
      {"conv2d.backward_weights", conv3x3(), {x.desc, x.desc}, {plain_desc(w.desc.shape), vector}},
      {"linear", Linear{}, {rows.desc, matrix.desc, bias.desc}, {plain_desc({64, 200})}},
      {"linear.backward_data", Linear{}, {dy.desc, matrix.desc}, {plain_desc({64, 300})}},
      {"linear.backward_weights", Linear{}, {rows.desc, dy.desc}, {plain_desc({200, 300}), plain_desc({200})}},
      {"activation", Activation{ActivationKind::kGelu, 0}, {x.desc}, {plain_desc(image)}},
      {"pool2d", pool, {x.desc}, {plain_desc({8, 16, 8, 8}), opaque}},
      {"batch_norm",
       BatchNorm{},
       {x.desc, vector, vector, vector, vector},
       {plain_desc(image), vector, vector, vector, vector}},
      {"reorder", {}, {x.desc}, {{image, DType::kF32, tagged(image, Tag::nhwc)}}},
  };
  for (const OpRequest& r : requests) {
    auto kernel = planned(r);
    std::vector<Buffer> values;
    std::vector<const void*> in;
    std::vector<void*> out;
    for (size_t i = 0; i < r.inputs.size(); ++i) {
      values.emplace_back(TensorDesc{r.inputs[i].shape, DType::kF32, kernel->input_layouts[i]}.bytes());
      values.back().zero();
      in.push_back(values.back().data());
    }
    for (const TensorDesc& d : kernel->outputs) {
      values.emplace_back(d.bytes());
      out.push_back(values.back().data());
    }
    Buffer scratch(kernel->scratch_bytes);
    kernel->run(in, out, scratch.data(), {});
    const size_t before = allocated_bytes;
    kernel->run(in, out, scratch.data(), {});
    const bool general = kernel->implementation().find("gemm:") != std::string::npos;
    EXPECT_LT(allocated_bytes - before, general ? kPanels : kSmall) << r.op << " " << kernel->implementation();
  }
}
#endif

TEST(Fingerprint, NamesVersionInstructionSetAndProbe) {
  auto a = fingerprint(), b = fingerprint();
  ASSERT_TRUE(a) << a.error().message;
  EXPECT_EQ(*a, *b);
  EXPECT_THAT(*a, testing::MatchesRegex("onednn [0-9.]+, isa [a-z0-9_]+, probe [0-9a-f]{64}"));
}

// Each in a process of its own, since the instruction set is fixed at first use.
class IsaDeathTest : public testing::Test {
 protected:
  IsaDeathTest() { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

TEST_F(IsaDeathTest, IsPinnedBeforeFirstUseOnly) {
  EXPECT_EXIT(
      {
        const bool pinned = set_isa("sse41").has_value() && set_isa("sse41").has_value();
        auto late = set_isa("avx");
        auto print = fingerprint();
        std::fprintf(stderr, "%d|%s|%s", pinned, late ? "" : late.error().message.c_str(),
                     print ? print->c_str() : print.error().message.c_str());
        std::exit(0);
      },
      testing::ExitedWithCode(0), R"(1\|the instruction set 'avx' comes too late: sse41 is.*\|onednn .* isa sse41, )");
}

TEST_F(IsaDeathTest, UnknownNamesAreAnsweredWithTheNearest) {
  auto status = set_isa("avx512core");
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, ExitCode::kUsage);
  EXPECT_THAT(status.error().message, HasSubstr("'avx512_core'"));
}

TEST(Winograd, OnlyWhereItIsAllowed) {
  const Shape x{8, 64, 16, 16}, w{64, 64, 3, 3};
  const OpRequest conv{"conv2d", conv3x3(), {plain_desc(x), plain_desc(w)}, {plain_desc(x)}};
  const bool here = planned(conv)->implementation().find("wino") != std::string::npos;
  cpu::set_winograd(false);
  EXPECT_EQ(planned(conv)->implementation().find("wino"), std::string::npos);
  cpu::set_winograd(true);
  EXPECT_EQ(planned(conv)->implementation().find("wino") != std::string::npos, here);
}

}  // namespace
}  // namespace dtrain::ops::cpu
