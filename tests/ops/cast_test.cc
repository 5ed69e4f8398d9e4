// Cast to and from types that conformance cases leave out, odd counts of packed elements, broken attributes.
#include <limits>

#include "tests/ops/run_op.h"

namespace quant {
namespace {

const OpDef& Cast() { return *FindOp("", "Cast"); }

OpCall To(DType dtype) { return {.attributes = {{"to", static_cast<int64_t>(dtype)}}, .version = 25}; }

TEST_CASE("Cast goes through packed and small types and back, for odd counts too") {
  const std::vector<float> numbers = {0, 1, -1, 0.5F, -2, 1.5F, -0.5F};
  for (DType small : {DType::kFloat8E4M3FN, DType::kFloat8E5M2, DType::kFloat4E2M1}) {
    INFO(NameOf(small));
    const Tensor x = Make<float>({7}, numbers);
    const Tensor code = RunOne(Cast(), {x}, To(small));
    CHECK(code.dtype() == small);
    RequireClose<float>(RunOne(Cast(), {code}, To(DType::kFloat)), {0, 1, -1, 0.5, -2, 1.5, -0.5}, 0);
    RequireClose<double>(RunOne(Cast(), {code}, To(DType::kDouble)), {0, 1, -1, 0.5, -2, 1.5, -0.5}, 0);
  }
  const Tensor whole = Make<int64_t>({7}, {0, 1, -1, -2, 3, 259, -128});
  RequireClose<int64_t>(RunOne(Cast(), {RunOne(Cast(), {whole}, To(DType::kInt2))}, To(DType::kInt64)),
                        {0, 1, -1, -2, -1, -1, 0}, 0);
  RequireClose<int64_t>(RunOne(Cast(), {RunOne(Cast(), {whole}, To(DType::kUint4))}, To(DType::kInt64)),
                        {0, 1, 15, 14, 3, 3, 0}, 0);
  // From one packed type to another, and to bool.
  const Tensor nibbles = RunOne(Cast(), {whole}, To(DType::kInt4));
  RequireClose<int64_t>(RunOne(Cast(), {RunOne(Cast(), {nibbles}, To(DType::kUint2))}, To(DType::kInt64)),
                        {0, 1, 3, 2, 3, 3, 0}, 0);
  const Tensor truth = RunOne(Cast(), {nibbles}, To(DType::kBool));
  CHECK(truth.data<bool>()[3]);
  CHECK_FALSE(truth.data<bool>()[0]);
}

TEST_CASE("Cast gives the nearest integer there is to what is out of range") {
  const Tensor x = Make<float>({3}, {1e30F, -1e30F, std::numeric_limits<float>::quiet_NaN()});
  const Tensor out = RunOne(Cast(), {x}, To(DType::kInt32));
  CHECK(out.data<int32_t>()[0] == INT32_MAX);
  CHECK(out.data<int32_t>()[1] == INT32_MIN);
  CHECK(out.data<int32_t>()[2] == 0);
}

TEST_CASE("Cast refuses types and modes that there are not") {
  const Tensor x = Make<float>({1}, {1});
  for (int64_t to : {int64_t{0}, int64_t{-1}, int64_t{60}, (int64_t{1} << 32) + 1}) {
    RequireRefused(Cast(), {x}, {.attributes = {{"to", to}}});
  }
  RequireRefused(Cast(), {x}, To(DType::kString));
  RequireRefused(Cast(), {x}, To(DType::kComplex64));
  OpCall odd = To(DType::kFloat8E8M0);
  odd.attributes.emplace_back("round_mode", std::string("sideways"));
  RequireRefused(Cast(), {x}, odd);
}

TEST_CASE("operands of opset 6 broadcast one way, from an axis") {
  const OpDef& add = *FindOp("", "Add");
  const Tensor x = Make<float>({2, 3}, {1, 2, 3, 4, 5, 6}), column = Make<float>({2}, {10, 20});
  const auto call = [](AttributeList attributes) { return OpCall{.attributes = std::move(attributes), .version = 6}; };
  const AttributeList by_axis = {{"broadcast", int64_t{1}}, {"axis", int64_t{0}}};
  RequireClose<float>(RunOne(add, {x, column}, call(by_axis)), {11, 12, 13, 24, 25, 26}, 0);
  RequireRefused(add, {x, column}, call({}));
  RequireRefused(add, {x, column}, call({{"broadcast", int64_t{1}}}));
  RequireRefused(add, {column, x}, call({{"broadcast", int64_t{1}}}));
  RequireRefused(add, {x, column}, call({{"broadcast", int64_t{1}}, {"axis", int64_t{2}}}));
  RequireRefused(add, {x, x}, call({{"broadcast", int64_t{1}}, {"axis", int64_t{1}}}));
}

TEST_CASE("DequantizeLinear takes scales that are powers of two") {
  Tensor scale = Tensor::Allocate(DType::kFloat8E8M0, {2});
  scale.mutable_data<uint8_t>()[0] = 128;  // 2
  scale.mutable_data<uint8_t>()[1] = 126;  // 1/2
  const Tensor codes = Make<int8_t>({2, 2}, {1, 2, -3, 4});
  const OpCall call = {.attributes = {{"output_dtype", int64_t{1}}}, .version = 24};
  RequireClose<float>(RunOne(*FindOp("", "DequantizeLinear"), {codes, scale}, call), {2, 1, -6, 2}, 0);
}

}  // namespace
}  // namespace quant
