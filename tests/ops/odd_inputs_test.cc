// Inputs that are left out, empty, of another kind, or at the end of their type's range: an error or the wrapped
// number, in operators that once took something else for granted.
#include <limits>

#include "tests/ops/run_op.h"

namespace quant {
const OpDef& BernoulliOp();
const OpDef& CeluOp();
const OpDef& HardSigmoidOp();
const OpDef& MaxOp();
const OpDef& MaxPoolOp();
const OpDef& MeanOp();
const OpDef& MinOp();
const OpDef& PadOp();
const OpDef& QuantizeLinearOp();
const OpDef& ReduceL1Op();
const OpDef& ReduceL2Op();
const OpDef& ReduceLogSumExpOp();
const OpDef& ReduceLogSumOp();
const OpDef& ReduceMeanOp();
const OpDef& ReduceSumSquareOp();
const OpDef& ReluOp();
const OpDef& SignOp();
const OpDef& SumOp();

namespace {

TEST_CASE("operators of any number of inputs need each of them") {
  const Tensor x = Make<float>({2}, {1, 2});
  for (const OpDef* op : {&MaxOp(), &MeanOp(), &MinOp(), &SumOp()}) {
    RequireRefused(*op, {x, Tensor(), x});
    CHECK(RunOne(*op, {x, x, x}).dims() == Dims{2});
  }
}

TEST_CASE("strings where numbers belong are refused") {
  const Tensor words = Tensor::OfStrings({2}, std::make_shared<std::vector<std::string>>(2, "ab"));
  RequireRefused(BernoulliOp(), {words});
  RequireRefused(QuantizeLinearOp(), {Make<float>({2}, {1, 2}), words, Make<int8_t>({2}, {0, 0})},
                 {{{"axis", int64_t{0}}}});
}

TEST_CASE("reductions of integers wrap around") {
  constexpr int64_t kMin = std::numeric_limits<int64_t>::min();
  const Tensor edges = Make<int64_t>({2}, {kMin, int64_t{3037000500}});
  // The square of the smallest is 2^126, of which 64 bits are 0; the other's is above 2^63.
  const uint64_t square = uint64_t{3037000500} * 3037000500;
  CHECK(RunOne(ReduceSumSquareOp(), {edges}).data<int64_t>()[0] == static_cast<int64_t>(square));
  CHECK(RunOne(ReduceL1Op(), {Make<int64_t>({1}, {kMin})}).data<int64_t>()[0] == kMin);
}

TEST_CASE("roots and logarithms of integers stay in their type's range") {
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max(), kMin = std::numeric_limits<int64_t>::min();
  CHECK(RunOne(ReduceLogSumOp(), {Make<int64_t>({1}, {0})}).data<int64_t>()[0] == kMin);
  CHECK(RunOne(ReduceLogSumOp(), {Make<int64_t>({1}, {-1})}).data<int64_t>()[0] == 0);  // NaN
  CHECK(RunOne(ReduceLogSumExpOp(), {Make<int64_t>({2}, {kMax, kMax})}).data<int64_t>()[0] == kMax);
}

TEST_CASE("a mean, root or logarithm of integers does not wrap on its way") {
  const Tensor twice = Make<int32_t>({2}, {2000000000, 2000000000});
  CHECK(RunOne(ReduceMeanOp(), {twice}).data<int32_t>()[0] == 2000000000);
  CHECK(RunOne(ReduceLogSumOp(), {twice}).data<int32_t>()[0] == 22);
  CHECK(RunOne(ReduceL2Op(), {Make<int32_t>({2}, {50000, 50000})}).data<int32_t>()[0] == 70710);
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  CHECK(RunOne(ReduceMeanOp(), {Make<int64_t>({2}, {kMax, kMax})}).data<int64_t>()[0] == kMax);
}

TEST_CASE("NaN stays NaN") {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN(), kInf = std::numeric_limits<float>::infinity();
  for (const OpDef* op : {&SignOp(), &CeluOp(), &HardSigmoidOp(), &ReluOp()}) {
    INFO(op->name);
    CHECK(std::isnan(RunOne(*op, {Make<float>({1}, {kNan})}).data<float>()[0]));
  }
  for (const std::vector<float>& row : {std::vector<float>{kNan, kInf}, {kInf, kNan}}) {
    CHECK(std::isnan(RunOne(ReduceLogSumExpOp(), {Make<float>({2}, row)}).data<float>()[0]));
  }
}

TEST_CASE("NaN is no largest element, whether or not indices are wanted") {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  const Tensor x = Make<float>({1, 1, 4}, {kNan, 1, kNan, kNan});
  const AttributeList pairs = {{"kernel_shape", Ints{2}}, {"strides", Ints{2}}};
  const Tensor plain = RunOne(MaxPoolOp(), {x}, {pairs});
  const auto indexed = RunOp(MaxPoolOp(), {x}, {pairs, 21, 2});
  REQUIRE(indexed.ok());
  for (const Tensor* y : {&plain, &(*indexed)[0]}) {
    CHECK(y->data<float>()[0] == 1);
    CHECK(y->data<float>()[1] == -std::numeric_limits<float>::infinity());
  }
  CHECK((*indexed)[1].data<int64_t>()[0] == 1);
  CHECK((*indexed)[1].data<int64_t>()[1] == 2);
}

TEST_CASE("with ceil_mode an input shorter than the window is one window") {
  const Tensor x = Make<float>({1, 1, 1}, {3});
  const AttributeList ceil = {{"kernel_shape", Ints{2}}, {"strides", Ints{2}}, {"ceil_mode", int64_t{1}}};
  CHECK(RunOne(MaxPoolOp(), {x}, {ceil}).data<float>()[0] == 3);
}

TEST_CASE("strings are not padded") {
  const Tensor words = Tensor::OfStrings({2}, std::make_shared<std::vector<std::string>>(2, "ab"));
  const Tensor fill = Tensor::OfStrings({}, std::make_shared<std::vector<std::string>>(1, "-"));
  RequireRefused(PadOp(), {words, Make<int64_t>({2}, {1, 0}), fill});
}

TEST_CASE("a mean of bytes of a row whose length is 0 in a byte") {
  for (const int64_t length : {256, 512}) {
    Tensor row = Tensor::Allocate(DType::kUint8, {length});
    for (std::byte& b : row.mutable_bytes()) b = std::byte{0};
    row.mutable_bytes()[0] = std::byte{255};
    CHECK(RunOne(ReduceMeanOp(), {row}).data<uint8_t>()[0] == 255 / length);
  }
}

TEST_CASE("an empty result of Pad makes no tables of its dims") {
  constexpr int64_t kHuge = int64_t{1} << 61;
  const Tensor none = Tensor::Allocate(DType::kFloat, {0, 2});
  const Tensor pads = Make<int64_t>({4}, {0, 0, 0, kHuge});
  CHECK(RunOne(PadOp(), {none, pads}).dims() == Dims{0, 2 + kHuge});
}

}  // namespace
}  // namespace quant
