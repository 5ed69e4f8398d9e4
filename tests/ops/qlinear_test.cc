// QLinear operators and fused ones where ONNX Runtime can't be asked: zero points left out, odd scales, wrong inputs.
#include <limits>

#include "tests/ops/run_op.h"

namespace quant {
namespace {

const OpDef& Op(std::string_view name) { return *FindOp("com.microsoft", name); }
Tensor Float(float value) { return Tensor::Scalar(value); }

std::vector<int> Codes(const Tensor& t) {
  std::vector<int> out;
  for (size_t i = 0; i < static_cast<size_t>(t.size()); ++i) {
    out.push_back(t.dtype() == DType::kInt8 ? int{t.data<int8_t>()[i]} : int{t.data<uint8_t>()[i]});
  }
  return out;
}

}  // namespace

TEST_CASE("QLinear operators take left-out zero points for 0") {
  const Tensor a = Make<int8_t>({3}, {-100, 3, 100}), b = Make<int8_t>({1}, {2});
  CHECK(Codes(RunOne(Op("QLinearAdd"), {a, Float(1), {}, b, Float(0.25F), {}, Float(1)})) ==
        std::vector<int>{-100, 4, 100});  // 3.5 and 100.5 go to even numbers
  CHECK(Codes(RunOne(Op("QLinearMul"), {a, Float(1), {}, b, Float(0.25F), {}, Float(1)})) ==
        std::vector<int>{-50, 2, 50});
  CHECK(Codes(RunOne(Op("QLinearMul"), {a, Float(1), {}, b, Float(1), {}, Float(1)})) ==
        std::vector<int>{-128, 6, 127});
  CHECK(Codes(RunOne(Op("QLinearLeakyRelu"), {a, Float(1), {}, Float(1)}, {{{"alpha", 0.5F}}})) ==
        std::vector<int>{-50, 3, 100});
  CHECK(Codes(RunOne(Op("QLinearSigmoid"), {a, Float(1), {}, Float(1.0F / 128)})) == std::vector<int>{0, 122, 127});
  CHECK(Codes(RunOne(Op("QLinearConcat"), {Float(2), Make<int8_t>({}, {1}), a, Float(1), {}},
                     {{{"axis", int64_t{0}}}})) == std::vector<int>{-49, 3, 51});
}

TEST_CASE("QLinear operators keep within their codes whatever the scale") {
  const float infinity = std::numeric_limits<float>::infinity();
  const Tensor x = RandomBytes(DType::kUint8, {1, 2, 3, 4}, 1), zero = Make<uint8_t>({}, {3});
  for (float scale : {0.0F, -1.0F, 1e-38F, 1e38F, infinity, std::nanf("")}) {
    for (float other : {1.0F, scale}) {
      for (const char* name : {"QLinearSigmoid", "QLinearLeakyRelu", "QLinearGlobalAveragePool"}) {
        CHECK(RunOne(Op(name), {x, Float(other), zero, Float(scale), zero}).dtype() == DType::kUint8);
      }
      CHECK(RunOne(Op("QLinearSoftmax"), {x, Float(scale), zero, Float(other), zero}).size() == 24);
      CHECK(RunOne(Op("QLinearAveragePool"), {x, Float(other), zero, Float(scale), zero},
                   {{{"kernel_shape", Ints{2, 2}}}})
                .dims() == Dims{1, 2, 2, 3});
      for (const char* name : {"QLinearAdd", "QLinearMul"}) {
        CHECK(RunOne(Op(name), {x, Float(other), zero, x, Float(other), zero, Float(scale), zero}).size() == 24);
      }
    }
  }
}

TEST_CASE("QLinear operators refuse what doesn't fit") {
  const Tensor x = RandomBytes(DType::kUint8, {2, 3}, 1), zero = Make<uint8_t>({}, {3}), one = Float(1);
  const Tensor two = Make<float>({2}, {1, 1}), other = Make<int8_t>({}, {3});
  RequireRefused(Op("QLinearAdd"), {x, one});
  RequireRefused(Op("QLinearAdd"), {x, one, zero, x, one, zero});
  RequireRefused(Op("QLinearAdd"), {x, one, zero, RandomBytes(DType::kInt8, {2, 3}, 1), one, other, one, zero});
  RequireRefused(Op("QLinearAdd"), {x, one, zero, RandomBytes(DType::kUint8, {2, 2}, 1), one, zero, one, zero});
  RequireRefused(Op("QLinearMul"), {x, two, zero, x, one, zero, one, zero});
  RequireRefused(Op("QLinearMul"), {x, one, other, x, one, zero, one, zero});
  for (const char* name : {"QLinearSigmoid", "QLinearLeakyRelu", "QLinearSoftmax"}) {
    RequireRefused(Op(name), {x, one, zero});
    RequireRefused(Op(name), {x, one, zero, two, zero});
    RequireRefused(Op(name), {x, one, zero, one, other});
    RequireRefused(Op(name), {RandomTensor({2}, 1), one, {}, one});
    CHECK(RunOne(Op(name), {RandomBytes(DType::kUint8, {0, 3}, 1), one, zero, one, zero}).dims() == Dims{0, 3});
  }
  RequireRefused(Op("QLinearSoftmax"), {x, one, zero, one, zero}, {{{"axis", int64_t{2}}}});
  const OpCall along = {{{"axis", int64_t{1}}}};
  RequireRefused(Op("QLinearConcat"), {one, zero, x, one}, along);
  RequireRefused(Op("QLinearConcat"), {one, zero, x, one, zero, x, {}, zero}, along);
  RequireRefused(Op("QLinearConcat"), {one, zero, RandomBytes(DType::kInt8, {2, 3}, 1), one, other}, along);
  RequireRefused(Op("QLinearConcat"), {one, zero, x, one, zero}, {{{"axis", int64_t{2}}}});
  RequireRefused(Op("QLinearConcat"), {one, zero, x, one, zero, RandomBytes(DType::kUint8, {3, 3}, 1), one, zero},
                 along);
  for (const char* name : {"QLinearAveragePool", "QLinearGlobalAveragePool"}) {
    RequireRefused(Op(name), {x, one, zero, one, zero}, {{{"kernel_shape", Ints{}}}});
  }
  const Tensor image = RandomBytes(DType::kUint8, {1, 2, 3, 4}, 1),
               hollow = RandomBytes(DType::kUint8, {1, 2, 0, 4}, 1);
  RequireRefused(Op("QLinearAveragePool"), {image, one, zero, one, zero}, {{{"kernel_shape", Ints{4, 1}}}});
  RequireRefused(Op("QLinearAveragePool"), {image, one, zero, one, zero});
  RequireRefused(Op("QLinearGlobalAveragePool"), {hollow, one, zero, one, zero});
}

TEST_CASE("Fused operators take other types, and refuse what doesn't fit") {
  const Tensor x = RandomTensor({1, 2, 4, 4}, 1), w = RandomTensor({3, 2, 3, 3}, 2), z = RandomTensor({1, 3, 2, 2}, 3);
  const OpCall relu = {{{"activation", std::string("Relu")}}};
  const Tensor y = RunOne(Op("FusedConv"), {x, w, {}, z}, relu);
  const Tensor plain = RunOne(*FindOp("", "Conv"), {x, w});
  const Tensor doubles = RunOne(Op("FusedConv"), {CastTo<double>(x), CastTo<double>(w), {}, CastTo<double>(z)}, relu);
  const Tensor halves = RunOne(Op("FusedConv"), {CastTo<float16>(x), CastTo<float16>(w), {}, CastTo<float16>(z)}, relu);
  for (size_t i = 0; i < 12; ++i) {
    const float want = std::max(plain.data<float>()[i] + z.data<float>()[i], 0.0F);
    CHECK(y.data<float>()[i] == want);
    CHECK(std::abs(doubles.data<double>()[i] - double{want}) < 1e-5);
    CHECK(std::abs(static_cast<float>(halves.data<float16>()[i]) - want) < 2e-2F);
  }
  RequireRefused(Op("FusedConv"), {x, w, {}, RandomTensor({3, 2, 2}, 1)}, relu);
  RequireRefused(Op("FusedConv"), {x, w, {}, CastTo<double>(z)}, relu);
  RequireRefused(Op("FusedConv"), {x, w}, {{{"activation", std::string("Nonsense")}}});
  const Tensor a = RandomTensor({2, 3}, 1), b = RandomTensor({3, 4}, 2);
  CHECK(RunOne(Op("FusedGemm"), {a, b}).dims() == Dims{2, 4});  // without a function
  RequireRefused(Op("FusedGemm"), {a, a}, relu);
  RequireRefused(Op("FusedGemm"), {Make<int32_t>({1, 1}, {1}), Make<int32_t>({1, 1}, {1})}, relu);
}

TEST_CASE("FusedMatMul takes vectors, batches against one matrix, and refuses what doesn't fit") {
  const Tensor a = RandomTensor({2, 3, 4}, 1), b = RandomTensor({3, 5}, 2), v = RandomTensor({3}, 3);
  const OpCall transposed = {{{"transA", int64_t{1}}}};
  const Tensor y = RunOne(Op("FusedMatMul"), {a, b}, transposed);
  REQUIRE(y.dims() == Dims{2, 4, 5});
  for (int64_t i = 0; i < 40; ++i) {
    double sum = 0;
    for (int64_t p = 0; p < 3; ++p) {
      sum += double{a.data<float>()[static_cast<size_t>(i / 20 * 12 + p * 4 + i / 5 % 4)]} *
             double{b.data<float>()[static_cast<size_t>(p * 5 + i % 5)]};
    }
    REQUIRE(std::abs(double{y.data<float>()[static_cast<size_t>(i)]} - sum) < 1e-5);
  }
  CHECK(RunOne(Op("FusedMatMul"), {v, b}, {{{"transA", int64_t{1}}, {"transBatchA", int64_t{1}}}}).dims() == Dims{5});
  CHECK(RunOne(Op("FusedMatMul"), {a, v}, transposed).dims() == Dims{2, 4});
  const Tensor empty = RandomTensor({2, 0, 4}, 1);
  CHECK(RunOne(Op("FusedMatMul"), {empty, RandomTensor({0, 5}, 1)}, transposed).data<float>()[3] == 0);
  CHECK(RunOne(Op("FusedMatMul"), {RandomTensor({2, 3, 0}, 1), b}, transposed).dims() == Dims{2, 0, 5});
  RequireRefused(Op("FusedMatMul"), {a, b});
  RequireRefused(Op("FusedMatMul"), {Float(1), b});
  RequireRefused(Op("FusedMatMul"), {a, CastTo<double>(b)}, transposed);
}

}  // namespace quant
