// Operators that select, order and scatter by index: odd shapes, broken inputs, NaN.
#include <limits>

#include "tests/ops/run_op.h"

namespace quant {
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

const OpDef& Op(std::string_view name) { return *FindOp("", name); }

template <typename T>
std::vector<T> ValuesOf(const Tensor& t) {
  return {t.data<T>().begin(), t.data<T>().end()};
}

std::vector<Tensor> RunAll(std::string_view name, const std::vector<Tensor>& inputs, const OpCall& call) {
  auto outputs = RunOp(Op(name), inputs, call);
  INFO(name << ": " << Message(outputs.status()));
  REQUIRE(outputs.ok());
  return *std::move(outputs);
}

Tensor Int(int64_t v) { return Tensor::Scalar<int64_t>(v); }
Tensor Bools(const std::vector<uint8_t>& values) {
  Tensor t = Tensor::Allocate(DType::kBool, {static_cast<int64_t>(values.size())});
  for (size_t i = 0; i < values.size(); ++i) t.mutable_data<bool>()[i] = values[i] != 0;
  return t;
}

TEST_CASE("TopK takes NaN for the largest and keeps the order of equals") {
  const Tensor x = Make<float>({5}, {1, kNaN, 3, kNaN, 3});
  const auto largest = RunAll("TopK", {x, Make<int64_t>({1}, {4})}, {.attributes = {}, .outputs = 2});
  CHECK(ValuesOf<int64_t>(largest[1]) == Ints{1, 3, 2, 4});
  const auto smallest =
      RunAll("TopK", {x, Make<int64_t>({1}, {4})}, {.attributes = {{"largest", int64_t{0}}}, .outputs = 2});
  CHECK(ValuesOf<int64_t>(smallest[1]) == Ints{0, 2, 4, 1});
}

TEST_CASE("TopK of opset 1 has k as an attribute") {
  const Tensor x = Make<float>({2, 2}, {1, 2, 4, 3});
  const Tensor out = RunOne(Op("TopK"), {x}, {.attributes = {{"k", int64_t{1}}}, .version = 1});
  CHECK(out.dims() == Dims{2, 1});
  CHECK(ValuesOf<float>(out) == std::vector<float>{2, 4});
}

TEST_CASE("TopK refuses what it can't pick") {
  const Tensor x = RandomTensor({3, 4}, 1);
  for (int64_t k : {int64_t{-1}, int64_t{5}, INT64_MAX}) RequireRefused(Op("TopK"), {x, Make<int64_t>({1}, {k})});
  RequireRefused(Op("TopK"), {x, Make<int64_t>({0}, {})});
  RequireRefused(Op("TopK"), {x, Make<int64_t>({1}, {1})}, {.attributes = {{"axis", int64_t{2}}}});
  RequireRefused(Op("TopK"), {Tensor::Scalar(1.0F), Make<int64_t>({1}, {1})});
  RequireRefused(Op("TopK"), {x});
}

TEST_CASE("TopK of nothing is empty") {
  const Tensor out = RunOne(Op("TopK"), {Make<float>({2, 0}, {}), Make<int64_t>({1}, {0})});
  CHECK(out.dims() == Dims{2, 0});
}

TEST_CASE("Unique has one NaN, the last") {
  const auto out = RunAll("Unique", {Make<float>({5}, {kNaN, 2, kNaN, -0.0F, 0.0F})}, {.attributes = {}, .outputs = 4});
  CHECK(out[0].dims() == Dims{3});
  CHECK(out[0].data<float>()[1] == 2);
  CHECK(ValuesOf<int64_t>(out[1]) == Ints{3, 1, 0});
  CHECK(ValuesOf<int64_t>(out[2]) == Ints{2, 1, 2, 0, 0});
  CHECK(ValuesOf<int64_t>(out[3]) == Ints{2, 1, 2});
}

TEST_CASE("Unique slices in order of appearance") {
  const Tensor x = Make<int32_t>({3, 2}, {5, 6, 1, 2, 5, 6});
  const OpCall call = {.attributes = {{"axis", int64_t{0}}, {"sorted", int64_t{0}}}, .outputs = 4};
  const auto out = RunAll("Unique", {x}, call);
  CHECK(ValuesOf<int32_t>(out[0]) == std::vector<int32_t>{5, 6, 1, 2});
  CHECK(ValuesOf<int64_t>(out[1]) == Ints{0, 1});
  CHECK(ValuesOf<int64_t>(out[2]) == Ints{0, 1, 0});
  CHECK(ValuesOf<int64_t>(out[3]) == Ints{2, 1});
  CHECK(RunOne(Op("Unique"), {Make<float>({0}, {})}).dims() == Dims{0});
  RequireRefused(Op("Unique"), {x}, {.attributes = {{"axis", int64_t{2}}}});
}

TEST_CASE("scattering folds duplicates in order, and NaN wins over extremes") {
  const Tensor x = Make<float>({3}, {1, 2, 3}), indices = Make<int64_t>({3}, {0, -3, 2});
  const auto scatter = [&](const std::string& reduction, const std::vector<float>& updates) {
    return ValuesOf<float>(RunOne(Op("ScatterElements"), {x, indices, Make<float>({3}, updates)},
                                  {.attributes = {{"reduction", reduction}}}));
  };
  CHECK(scatter("none", {7, 8, 9}) == std::vector<float>{8, 2, 9});
  CHECK(scatter("add", {7, 8, 9}) == std::vector<float>{16, 2, 12});
  CHECK(std::isnan(scatter("max", {kNaN, 8, 9})[0]));
  CHECK(std::isnan(scatter("min", {8, kNaN, 9})[0]));
}

TEST_CASE("scattering refuses indices outside and shapes that don't fit") {
  const Tensor x = RandomTensor({2, 3}, 1), u = RandomTensor({1, 1}, 2);
  for (int64_t i : {int64_t{2}, int64_t{-3}, INT64_MAX, INT64_MIN}) {
    RequireRefused(Op("ScatterElements"), {x, Make<int64_t>({1, 1}, {i}), u});
    RequireRefused(Op("ScatterND"), {x, Make<int64_t>({1, 2}, {i, 0}), RandomTensor({1}, 2)});
    RequireRefused(Op("ScatterND"), {x, Make<int64_t>({1, 1}, {i}), RandomTensor({1, 3}, 2)});
  }
  RequireRefused(Op("ScatterElements"), {x, Make<int64_t>({1, 4}, {0, 0, 0, 0}), RandomTensor({1, 4}, 2)});
  RequireRefused(Op("ScatterElements"), {x, Make<int64_t>({1, 1}, {0}), RandomTensor({1, 2}, 2)});
  RequireRefused(Op("ScatterElements"), {x, Make<int64_t>({1, 1}, {0}), CastTo<double>(u)});
  RequireRefused(Op("ScatterElements"), {x, Make<int64_t>({1, 1}, {0}), u},
                 {.attributes = {{"reduction", std::string("mean")}}});
  RequireRefused(Op("ScatterND"), {x, Make<int64_t>({1, 3}, {0, 0, 0}), RandomTensor({1}, 2)});
  RequireRefused(Op("ScatterND"), {x, Make<int64_t>({1, 0}, {}), RandomTensor({1, 2, 3}, 2)});
  RequireRefused(Op("ScatterND"), {x, Int(0), RandomTensor({3}, 2)});
}

TEST_CASE("OneHot counts negative indices from the end, from opset 11 on") {
  const std::vector<Tensor> inputs = {Make<int64_t>({3}, {-1, 5, 0}), Int(3), Make<float>({2}, {0, 1})};
  CHECK(ValuesOf<float>(RunOne(Op("OneHot"), inputs)) == std::vector<float>{0, 0, 1, 0, 0, 0, 1, 0, 0});
  CHECK(ValuesOf<float>(RunOne(Op("OneHot"), inputs, {.attributes = {}, .version = 9})) ==
        std::vector<float>{0, 0, 0, 0, 0, 0, 1, 0, 0});
  const std::vector<Tensor> huge = {Make<int64_t>({3}, {0, 1, 2}), Int(INT64_MAX), Make<float>({2}, {0, 1})};
  RequireRefused(Op("OneHot"), huge);
  RequireRefused(Op("OneHot"), {Make<int64_t>({1}, {0}), Int(-1), Make<float>({2}, {0, 1})});
  RequireRefused(Op("OneHot"), {Make<int64_t>({1}, {0}), Int(3), Make<float>({1}, {0})});
}

TEST_CASE("Compress takes a short condition, and none that is true outside") {
  const Tensor x = Make<float>({4}, {1, 2, 3, 4});
  CHECK(ValuesOf<float>(RunOne(Op("Compress"), {x, Bools({0, 1})})) == std::vector<float>{2});
  CHECK(ValuesOf<float>(RunOne(Op("Compress"), {x, Bools({0, 0, 0, 1, 0})})) == std::vector<float>{4});
  RequireRefused(Op("Compress"), {x, Bools({0, 0, 0, 0, 1})});
  RequireRefused(Op("Compress"), {x, Make<float>({1}, {1})});
}

TEST_CASE("NonZero of a scalar has no rows") {
  CHECK(RunOne(Op("NonZero"), {Tensor::Scalar(3.0F)}).dims() == Dims{0, 1});
  CHECK(RunOne(Op("NonZero"), {Tensor::Scalar(0.0F)}).dims() == Dims{0, 0});
  CHECK(RunOne(Op("NonZero"), {Make<float>({2, 0}, {})}).dims() == Dims{2, 0});
  CHECK(ValuesOf<int64_t>(RunOne(Op("NonZero"), {Make<float>({2, 2}, {0, kNaN, -0.0F, 1})})) == Ints{0, 1, 1, 1});
}

TEST_CASE("diagonals far outside a matrix are none") {
  const Tensor x = Make<float>({2, 2}, {1, 2, 3, 4});
  const auto triangle = [&](int64_t k, int64_t upper) {
    return ValuesOf<float>(RunOne(Op("Trilu"), {x, Int(k)}, {.attributes = {{"upper", upper}}}));
  };
  const std::vector<float> all = {1, 2, 3, 4}, none = {0, 0, 0, 0};
  CHECK(triangle(INT64_MAX, 1) == none);
  CHECK(triangle(INT64_MIN, 1) == all);
  CHECK(triangle(INT64_MAX, 0) == all);
  CHECK(triangle(INT64_MIN, 0) == none);
  CHECK(ValuesOf<float>(RunOne(Op("EyeLike"), {x}, {.attributes = {{"k", INT64_MIN}}})) == none);
  CHECK(ValuesOf<float>(RunOne(Op("EyeLike"), {x}, {.attributes = {{"k", int64_t{-1}}}})) ==
        std::vector<float>{0, 0, 1, 0});
  RequireRefused(Op("Trilu"), {Make<float>({2}, {1, 2})});
  RequireRefused(Op("EyeLike"), {x}, {.attributes = {{"dtype", int64_t{1} << 40}}});
}

TEST_CASE("CumSum of 16-bit floats is accumulated in float32, of integers wraps") {
  const Tensor tenths = CastTo<float16>(Make<float>({2000}, std::vector<float>(2000, 1.0F)));
  const Tensor exact = Make<float>({4100}, std::vector<float>(4100, 1.0F));
  CHECK(static_cast<float>(RunOne(Op("CumSum"), {tenths, Int(0)}).data<float16>()[1999]) == 2000.0F);
  // 2049 is no float16; a sum kept in float16 would stay at 2048.
  const Tensor halves = CastTo<float16>(exact);
  CHECK(static_cast<float>(RunOne(Op("CumSum"), {halves, Int(0)}).data<float16>()[4099]) == 4100.0F);
  CHECK(ValuesOf<int32_t>(RunOne(Op("CumSum"), {Make<int32_t>({2}, {INT32_MAX, 1}), Int(0)}))[1] == INT32_MIN);
  RequireRefused(Op("CumSum"), {exact, Int(1)});
  RequireRefused(Op("CumSum"), {exact, Make<int64_t>({2}, {0, 0})});
}

TEST_CASE("ReverseSequence refuses lengths and axes outside") {
  const Tensor x = RandomTensor({3, 2}, 1);
  CHECK(RunOne(Op("ReverseSequence"), {x, Make<int64_t>({2}, {0, 3})}).data<float>()[1] == x.data<float>()[5]);
  RequireRefused(Op("ReverseSequence"), {x, Make<int64_t>({2}, {4, 1})});
  RequireRefused(Op("ReverseSequence"), {x, Make<int64_t>({2}, {-1, 1})});
  RequireRefused(Op("ReverseSequence"), {x, Make<int64_t>({3}, {1, 1, 1})});
  RequireRefused(Op("ReverseSequence"), {x, Make<int64_t>({2}, {1, 1})}, {.attributes = {{"batch_axis", int64_t{0}}}});
}

TEST_CASE("Det knows singular, exchanged and empty matrices") {
  CHECK(RunOne(Op("Det"), {Make<float>({2, 2}, {0, 1, 1, 0})}).data<float>()[0] == -1);
  CHECK(RunOne(Op("Det"), {Make<float>({2, 2}, {1, 2, 2, 4})}).data<float>()[0] == 0);
  CHECK(ValuesOf<float>(RunOne(Op("Det"), {Make<float>({2, 0, 0}, {})})) == std::vector<float>{1, 1});
  RequireRefused(Op("Det"), {Make<float>({2}, {1, 2})});
  RequireRefused(Op("Det"), {RandomTensor({2, 3}, 1)});
}

TEST_CASE("bits are shifted out for good, and read as another type of their width only") {
  const OpCall left = {.attributes = {{"direction", std::string("LEFT")}}},
               right = {{{"direction", std::string("RIGHT")}}};
  const Tensor x = Make<uint8_t>({4}, {255, 255, 255, 255}), by = Make<uint8_t>({4}, {0, 4, 8, 255});
  CHECK(ValuesOf<uint8_t>(RunOne(Op("BitShift"), {x, by}, left)) == std::vector<uint8_t>{255, 240, 0, 0});
  CHECK(ValuesOf<uint8_t>(RunOne(Op("BitShift"), {x, by}, right)) == std::vector<uint8_t>{255, 15, 0, 0});
  RequireRefused(Op("BitShift"), {x, by});
  RequireRefused(Op("BitShift"), {x, Make<uint16_t>({4}, {0, 0, 0, 0})}, left);
  const auto to = [](DType dtype) { return OpCall{.attributes = {{"to", static_cast<int64_t>(dtype)}}}; };
  const Tensor truth = RunOne(Op("BitCast"), {Make<uint8_t>({2}, {0, 6})}, to(DType::kBool));
  CHECK(static_cast<int>(truth.bytes()[1]) == 1);
  RequireRefused(Op("BitCast"), {x}, to(DType::kInt16));
  RequireRefused(Op("BitCast"), {x}, to(DType::kString));
  RequireRefused(Op("BitCast"), {x}, {.attributes = {{"to", int64_t{1} << 33}}});
}

}  // namespace
}  // namespace quant
