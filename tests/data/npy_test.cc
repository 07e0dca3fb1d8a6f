#include "data/npy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/data/open_toml.h"
#include "tests/temporary_directory.h"

namespace dtrain::data {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string npy(const std::string& dictionary, const std::string& elements, int version = 1) {
  std::string text = dictionary + "\n", out = "\x93NUMPY";
  out += static_cast<char>(version);
  out += '\0';
  std::string length(version == 1 ? 2 : 4, '\0');
  if (version == 1)
    store_le<uint16_t>(length.data(), static_cast<uint16_t>(text.size()));
  else
    store_le<uint32_t>(length.data(), static_cast<uint32_t>(text.size()));
  return out + length + text + elements;
}

template <typename T>
std::string npy_of(const std::string& descr, const std::string& shape, const std::vector<T>& values, int version = 1) {
  return npy("{'descr': '" + descr + "', 'fortran_order': False, 'shape': " + shape + ", }",
             std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)), version);
}

class NpyTest : public ::testing::Test {
 protected:
  void put(const std::string& name, const std::string& content) {
    auto file = files_.create(directory_.path() + "/" + name).value();
    ASSERT_TRUE(file->write(std::as_bytes(std::span(content.data(), content.size()))));
  }
  std::string refusal(const std::string& content) {
    put("x", content);
    auto array = read_npy(files_, directory_.path() + "/x");
    if (array) return "";
    EXPECT_EQ(array.error().code, ExitCode::kData);
    EXPECT_THAT(array.error().message, HasSubstr(directory_.path() + "/x"));
    return array.error().message;
  }
  OpenedData open(const Shape& input, const std::string& more = "", int64_t tokens = 0, int64_t classes = 0) {
    return open_toml("format = \"npy\"\ninputs = \"x\"\nlabels = \"y\"\n" + more, files_, input,
                     directory_.path() + "/run.toml", tokens, classes);
  }
  template <typename T>
  void expect_type(const std::string& descr) {
    put("x", npy_of<T>(descr, "(2, 2)", {T(1), T(2), T(3), T(100)}));
    put("y", npy_of<int64_t>("<i8", "(2,)", {0, 4}));
    auto opened = open(Shape{2}, "scale = 1");
    ASSERT_TRUE(opened.status) << opened.status.error().message;
    EXPECT_THAT(read_sample(*opened.source.dataset, 1).sample, ElementsAre(3, 100)) << descr;
    EXPECT_THAT(read_sample(*opened.source.dataset, 1).classes, ElementsAre(4)) << descr;
  }

  RealFileSystem files_;
  TemporaryDirectory directory_;
};

TEST_F(NpyTest, ReadsEveryType) {
  expect_type<float>("<f4");
  expect_type<double>("<f8");
  expect_type<uint8_t>("|u1");
  expect_type<int8_t>("|i1");
  expect_type<uint16_t>("<u2");
  expect_type<int16_t>("<i2");
  expect_type<int32_t>("<i4");
  expect_type<int64_t>("<i8");
}

TEST_F(NpyTest, BytesAreScaledUnlessToldOtherwise) {
  put("x", npy_of<uint8_t>("|u1", "(1, 2)", {0, 255}));
  put("y", npy_of<int32_t>("<i4", "(1,)", {0}));
  EXPECT_THAT(read_sample(*open(Shape{2}).source.dataset, 0).sample, ElementsAre(0, 255 * (1.0f / 255.0f)));
}

TEST_F(NpyTest, LabelsOfThreeKinds) {
  put("x", npy_of<float>("<f4", "(2, 1)", {1, 2}, 2));
  put("y", npy_of<int32_t>("<i4", "(2, 3)", {1, 2, 3, 4, 5, 6}, 3));
  auto positions = open(Shape{1});
  ASSERT_TRUE(positions.status) << positions.status.error().message;
  EXPECT_EQ(positions.source.dataset->labels(), (LabelSpec{LabelKind::kClassPerPosition, Shape{3}}));
  EXPECT_EQ(positions.source.dataset->max_label(), 6);
  EXPECT_THAT(read_sample(*positions.source.dataset, 1).classes, ElementsAre(4, 5, 6));
  put("y", npy_of<double>("<f8", "(2, 2)", {0.5, -1, 2, 3}));
  auto values = open(Shape{1});
  ASSERT_TRUE(values.status) << values.status.error().message;
  EXPECT_EQ(values.source.dataset->labels(), (LabelSpec{LabelKind::kValues, Shape{2}}));
  EXPECT_EQ(values.source.dataset->max_label(), -1);
  EXPECT_THAT(read_sample(*values.source.dataset, 0).values, ElementsAre(0.5, -1));
}

TEST_F(NpyTest, LabelsThatAreNotAskedForNeedNotBeThere) {
  put("x", npy_of<float>("<f4", "(2, 1)", {1, 2}));
  for (const char* labels : {"", "labels = \"nowhere\""}) {
    auto opened = open_toml(std::string("format = \"npy\"\ninputs = \"x\"\n") + labels, files_, Shape{1},
                            directory_.path() + "/run.toml", 0, 1, false);
    ASSERT_TRUE(opened.status) << opened.status.error().message;
    EXPECT_THAT(read_sample(*opened.source.dataset, 1).sample, ElementsAre(2));
  }
}

TEST_F(NpyTest, LabelsThatAreNoClassesAreRefused) {
  put("x", npy_of<float>("<f4", "(2, 1)", {1, 2}));
  put("y", npy_of<int64_t>("<i8", "(2,)", {3, -1}));
  EXPECT_THAT(open(Shape{1}).status.error().message, HasSubstr("label 1 is -1, which is not a class"));
  put("y", npy_of<int64_t>("<i8", "(2,)", {int64_t{1} << 40, 0}));
  EXPECT_THAT(open(Shape{1}).status.error().message, HasSubstr("label 0 is 1099511627776"));
  put("y", npy_of<int64_t>("<i8", "(3,)", {0, 0, 0}));
  EXPECT_THAT(open(Shape{1}).status.error().message, HasSubstr("2 samples, but 3 labels"));
  put("y", npy_of<int64_t>("<i8", "(2, 0)", {}));
  EXPECT_THAT(open(Shape{1}).status.error().message, HasSubstr("labels are empty"));
}

TEST_F(NpyTest, LabelsBeyondTheNetworksClassesNameFileAndSample) {
  put("x", npy_of<float>("<f4", "(2, 1)", {1, 2}));
  put("y", npy_of<int64_t>("<i8", "(2,)", {3, 10}));
  EXPECT_TRUE(open(Shape{1}, "", 0, 11).status);
  const Status status = open(Shape{1}, "", 0, 10).status;
  EXPECT_EQ(status.error().code, ExitCode::kData);
  EXPECT_THAT(status.error().message, HasSubstr("/y': label 1 is 10, which is not a class of the network's (0 … 9)"));
  put("y", npy_of<uint8_t>("|u1", "(2, 3)", {3, 9, 0, 0, 4, 11}));
  EXPECT_THAT(open(Shape{1}, "", 0, 10).status.error().message, HasSubstr("label 1, number 2 of them, is 11"));
}

TEST_F(NpyTest, IntegersAreTokensWhereTheNetworkLooksThemUp) {
  put("x", npy_of<uint16_t>("<u2", "(2, 3)", {1, 2, 3, 4, 65535, 0}));
  put("y", npy_of<int64_t>("<i8", "(2,)", {0, 4}));
  auto opened = open(Shape{3}, "", 65536);
  ASSERT_TRUE(opened.status) << opened.status.error().message;
  EXPECT_EQ(opened.source.dataset->sample_dtype(), DType::kI32);
  EXPECT_THAT(read_sample(*opened.source.dataset, 1).tokens, ElementsAre(4, 65535, 0));
  auto numbers = open(Shape{3});
  EXPECT_EQ(numbers.source.dataset->sample_dtype(), DType::kF32);
  EXPECT_THAT(read_sample(*numbers.source.dataset, 1).sample, ElementsAre(4, 65535, 0));
  EXPECT_NE(opened.source.dataset->digest(), numbers.source.dataset->digest());
}

TEST_F(NpyTest, WhatCannotBeTokensIsRefused) {
  put("x", npy_of<uint16_t>("<u2", "(2, 3)", {1, 2, 3, 4, 65535, 0}));
  put("y", npy_of<int64_t>("<i8", "(2,)", {0, 4}));
  const Status beyond = open(Shape{3}, "", 65535).status;
  EXPECT_EQ(beyond.error().code, ExitCode::kData);
  EXPECT_THAT(beyond.error().message, HasSubstr("/x': sample 1, number 1 of them, is 65535"));
  EXPECT_EQ(open(Shape{3}, "scale = 2.0", 65536).status.error().code, ExitCode::kUsage);
  put("x", npy_of<int8_t>("|i1", "(2, 1)", {1, -1}));
  EXPECT_THAT(open(Shape{1}, "", 9).status.error().message, HasSubstr("sample 1 is -1"));
  put("x", npy_of<float>("<f4", "(2, 1)", {1, 2}));
  EXPECT_THAT(open(Shape{1}, "", 9).status.error().message,
              HasSubstr("/x' holds floats, but the network reads tokens"));
}

TEST_F(NpyTest, NumbersThatAreNotFiniteNameFileAndSample) {
  put("x", npy_of<float>("<f4", "(2, 2)", {1, 2, 3, NAN}));
  put("y", npy_of<int64_t>("<i8", "(2,)", {0, 4}));
  auto opened = open(Shape{2});
  ASSERT_TRUE(opened.status);
  EXPECT_EQ(read_error(*opened.source.dataset, {0}), "");
  EXPECT_THAT(read_error(*opened.source.dataset, {1}), HasSubstr("/x': number 1 of sample 1 is nan"));
  put("x", npy_of<double>("<f8", "(2, 1)", {1e300, 0}));  // no float
  put("y", npy_of<double>("<f8", "(2,)", {0, -INFINITY}));
  opened = open(Shape{1});
  EXPECT_THAT(read_error(*opened.source.dataset, {0}), HasSubstr("/x': number 0 of sample 0 is inf"));
  EXPECT_THAT(read_error(*opened.source.dataset, {1}), HasSubstr("/y': number 0 of sample 1 is -inf"));
}

TEST_F(NpyTest, EveryCutIsRefusedAndNoFlipCrashes) {
  const std::string whole = npy_of<float>("<f4", "(2, 3)", {1, 2, 3, 4, 5, 6});
  EXPECT_EQ(refusal(whole), "");
  for (size_t n = 0; n < whole.size(); ++n) EXPECT_NE(refusal(whole.substr(0, n)), "") << n;
  EXPECT_NE(refusal(whole + "x"), "");
  for (size_t at = 0; at < whole.size() - 24; ++at)
    for (int bit = 0; bit < 8; ++bit) {
      std::string flipped = whole;
      flipped[at] = static_cast<char>(flipped[at] ^ (1 << bit));
      put("x", flipped);
      auto array = read_npy(files_, directory_.path() + "/x");
      if (!array) continue;
      EXPECT_EQ(array_bytes(array->type, array->shape), 24u) << at << ":" << bit;
    }
}

TEST_F(NpyTest, HostileHeadersAreRefusedWithTheReason) {
  const auto with = [&](const std::string& dictionary) { return refusal(npy(dictionary, "abcd")); };
  EXPECT_THAT(with("{'descr': '<f4', 'fortran_order': True, 'shape': (1,), }"), HasSubstr("Fortran order"));
  EXPECT_THAT(with("{'descr': '>f4', 'fortran_order': False, 'shape': (1,), }"), HasSubstr("big-endian"));
  EXPECT_THAT(with("{'descr': '<c8', 'fortran_order': False, 'shape': (1,), }"), HasSubstr("type '<c8'"));
  EXPECT_THAT(with("{'descr': '|O', 'fortran_order': False, 'shape': (1,), }"), HasSubstr("type '|O'"));
  EXPECT_THAT(with("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,), }"), HasSubstr("records"));
  EXPECT_THAT(with("{'descr': '<f4', 'fortran_order': False, 'shape': (), }"), HasSubstr("a single number"));
  EXPECT_THAT(with("{'descr': '<f4', 'fortran_order': False, 'shape': (-1,), }"), HasSubstr("not a dictionary"));
  EXPECT_THAT(with("{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 4294967296, 4), }"),
              HasSubstr("declares the shape"));
  EXPECT_THAT(with("{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,), }"),
              HasSubstr("not a dictionary"));
  EXPECT_THAT(with("{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }"),
              HasSubstr("but 4 bytes of elements follow"));
  EXPECT_THAT(with("{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (1,), }"),
              HasSubstr("unexpected key 'descr'"));
  EXPECT_THAT(with("{'descr': '<f4', 'shape': (1,), }"), HasSubstr("lacks"));
  EXPECT_THAT(with("{'descr': '<f4"), HasSubstr("records"));
  EXPECT_THAT(with("{'descr': '<f4', 'fortran_order': False, 'shape': (1,), } x"), HasSubstr("not a dictionary"));
  std::string ones = "1";
  for (int i = 0; i < 40; ++i) ones += ",1";
  EXPECT_THAT(with("{'descr': '<f4', 'fortran_order': False, 'shape': (" + ones + "), }"),
              HasSubstr("more than 32 axes"));
  EXPECT_THAT(refusal("\x93NUMPY\x09" + std::string(20, '\0')), HasSubstr("version 9"));
  EXPECT_THAT(refusal("PK\3\4" + std::string(20, '\0')), HasSubstr("does not begin with"));
  EXPECT_THAT(refusal(std::string("\x93NUMPY\2\0\xff\xff\xff\xff", 12)), HasSubstr("header of 4294967295 bytes"));
}

}  // namespace
}  // namespace dtrain::data
