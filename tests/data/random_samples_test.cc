#include <algorithm>
#include <cstring>
#include <set>

#include "libquant/data/samples.h"
#include "tests/catch.h"
#include "tests/data/data_fixture.h"

namespace quant {
namespace {

InputSpec Spec(const std::string& name, DType dtype, const std::vector<std::string>& dims, int64_t bound = 0) {
  Shape shape;
  for (const std::string& d : dims) {
    const bool number = !d.empty() && std::all_of(d.begin(), d.end(), [](char c) { return c >= '0' && c <= '9'; });
    shape.push_back(number ? Dim{std::stoll(d), {}} : Dim{-1, d});
  }
  return {name, dtype, shape, bound};
}

NamedTensors Sample(std::vector<InputSpec> inputs, int64_t i = 0, uint64_t seed = 1, int64_t dynamic = 8) {
  auto sample = RandomSamples(i + 1, seed, std::move(inputs), {.others = dynamic})->Load(i);
  INFO(sample.status());
  REQUIRE(sample.ok());
  return *sample;
}

bool SameBytes(const Tensor& a, const Tensor& b) {
  return std::equal(a.bytes().begin(), a.bytes().end(), b.bytes().begin(), b.bytes().end());
}

TEST_CASE("the numbers are fixed: other machines and later versions must give the same") {
  const Tensor x = Sample({Spec("x", DType::kFloat, {"4"})})[0].second;
  CHECK(ValuesOf<float>(x) ==
        std::vector<float>{-5920724 / 8388608.0f, 5329327 / 8388608.0f, -3708910 / 8388608.0f, 7287960 / 8388608.0f});
  const Tensor ids = Sample({Spec("ids", DType::kInt64, {"6"}, 1000)}, 3, 42)[0].second;
  CHECK(ValuesOf<int64_t>(ids) == std::vector<int64_t>{991, 220, 652, 149, 579, 218});
}

TEST_CASE("a sample depends on seed, index and name alone") {
  const InputSpec x = Spec("x", DType::kFloat, {"16"});
  const InputSpec y = Spec("y", DType::kFloat, {"16"});
  auto source = RandomSamples(5, 1, {x, y});
  REQUIRE(source->count() == 5);
  const NamedTensors last = *source->Load(4);
  const NamedTensors first = *source->Load(0);
  CHECK(SameBytes((*source->Load(4))[0].second, last[0].second));
  CHECK(SameBytes(Sample({y, x}, 4)[1].second, last[0].second));
  CHECK(!SameBytes(first[0].second, last[0].second));
  CHECK(!SameBytes(first[0].second, first[1].second));
  CHECK(!SameBytes(Sample({x}, 0, 2)[0].second, first[0].second));
}

TEST_CASE("floats are uniform from -1 to below 1, also in narrow types") {
  const auto check = [](const std::vector<float>& values, double spacing) {
    double sum = 0;
    double squares = 0;
    for (float v : values) {
      CHECK(v >= -1);
      CHECK(v < 1);
      sum += v;
      squares += static_cast<double>(v) * v;
    }
    const auto n = static_cast<double>(values.size());
    CHECK(std::abs(sum / n + spacing / 2) < 0.03);
    CHECK(std::abs(squares / n - 1.0 / 3) < 0.02);
  };
  const Tensor f = Sample({Spec("f", DType::kFloat, {"4000"})})[0].second;
  check(ValuesOf<float>(f), 0);
  const Tensor h = Sample({Spec("h", DType::kFloat16, {"4000"})})[0].second;
  std::vector<float> halves;
  for (float16 v : h.data<float16>()) halves.push_back(static_cast<float>(v));
  check(halves, 1.0 / 1024);
  const Tensor b = Sample({Spec("b", DType::kBfloat16, {"4000"})})[0].second;
  std::vector<float> brains;
  for (bfloat16 v : b.data<bfloat16>()) brains.push_back(static_cast<float>(v));
  check(brains, 1.0 / 128);
}

TEST_CASE("ids stay within their bound and reach all of it") {
  const Tensor ids = Sample({Spec("ids", DType::kInt64, {"500"}, 7)})[0].second;
  const auto values = ValuesOf<int64_t>(ids);
  CHECK(std::set<int64_t>(values.begin(), values.end()) == std::set<int64_t>{0, 1, 2, 3, 4, 5, 6});
  const auto one = ValuesOf<int32_t>(Sample({Spec("ids", DType::kInt32, {"9"}, 1)})[0].second);
  CHECK(one == std::vector<int32_t>(9, 0));
}

TEST_CASE("integers without a bound are masks: mostly 1, never a row of zeros") {
  const Tensor mask = Sample({Spec("mask", DType::kInt64, {"2000", "2"})})[0].second;
  const auto values = ValuesOf<int64_t>(mask);
  const auto ones = std::count(values.begin(), values.end(), 1);
  CHECK(ones + std::count(values.begin(), values.end(), 0) == 4000);
  CHECK(ones > 2900);
  CHECK(ones < 3400);
  for (size_t row = 0; row < 2000; ++row) CHECK(values[2 * row] + values[2 * row + 1] > 0);
  for (DType t :
       {DType::kInt8, DType::kUint8, DType::kInt16, DType::kUint16, DType::kInt32, DType::kUint32, DType::kUint64}) {
    const Tensor single = Sample({Spec("s", t, {"1", "1"})})[0].second;
    CHECK(single.bytes()[0] == std::byte{1});
  }
  CHECK(Sample({Spec("s", DType::kInt64, {})})[0].second.data<int64_t>()[0] == 1);
  CHECK(Sample({Spec("s", DType::kInt64, {"3", "0"})})[0].second.size() == 0);
  std::set<std::byte> bools;
  const Tensor b = Sample({Spec("b", DType::kBool, {"64"})})[0].second;
  for (std::byte v : b.bytes()) bools.insert(v);
  CHECK(bools == std::set<std::byte>{std::byte{0}, std::byte{1}});
}

TEST_CASE("dynamic dims") {
  const auto dims = [](std::vector<InputSpec> inputs, int64_t dynamic = 8) {
    std::vector<Dims> out;
    for (const auto& [name, t] : Sample(std::move(inputs), 0, 1, dynamic)) out.push_back(t.dims());
    return out;
  };
  const auto f = [](const std::string& name, const std::vector<std::string>& shape) {
    return Spec(name, DType::kFloat, shape);
  };
  // Leading: 1, and then everywhere under that name.
  CHECK(dims({f("past", {"2", "batch", "4"}), f("ids", {"batch", "seq"}), f("x", {"", "", "3"})}) ==
        std::vector<Dims>{{2, 1, 4}, {1, 8}, {1, 8, 3}});
  CHECK(dims({f("ids", {"batch", "seq"}), f("mask", {"batch", "seq"})}, 5) == std::vector<Dims>{{1, 5}, {1, 5}});
  CHECK(dims({f("ids", {"b", "seq"}), f("past", {"b", "past"}), f("mask", {"b", "past + seq"}),
              f("m1", {"b", "past+1"}), f("m2", {"b", "unheard + seq"})}) ==
        std::vector<Dims>{{1, 8}, {1, 8}, {1, 16}, {1, 9}, {1, 16}});
  CHECK(dims({f("ids", {"b", "seq_len"}), f("past", {"b", "past_seq_len"}), f("mask", {"b", "total_seq_len"})}) ==
        std::vector<Dims>{{1, 8}, {1, 8}, {1, 16}});
  CHECK(dims({f("mask", {"b", "total_seq_len"})}) == std::vector<Dims>{{1, 8}});
}

TEST_CASE("inputs that can't be made up are errors") {
  const auto error = [](InputSpec spec) {
    const auto sample = RandomSamples(1, 0, {std::move(spec)})->Load(0);
    REQUIRE(!sample.ok());
    return std::pair(ExitCode(sample.status()), Message(sample.status()));
  };
  CHECK(error({"x", DType::kFloat, std::nullopt, 0}) ==
        std::pair(3, std::string("input x has no known rank; give samples of it")));
  CHECK(error({"x", DType::kUndefined, Shape{}, 0}) ==
        std::pair(3, std::string("input x is no tensor; give samples of it")));
  CHECK(error(Spec("x", DType::kString, {"2"})).first == 4);
  CHECK(error(Spec("x", DType::kComplex64, {"2"})).first == 4);
  CHECK(error(Spec("x", DType::kFloat, {"4611686018427387904", "4"})).first == 3);
  CHECK(error(Spec("x", DType::kFloat, {"1000000000", "1000000000"})).first == 3);
}

TEST_CASE("dynamic dims take the sizes that are given, by name or by input and axis, and sums follow them") {
  const std::vector<InputSpec> inputs = {Spec("x", DType::kFloat, {"batch", "seq", ""}),
                                         Spec("y", DType::kFloat, {"batch", "past + seq", "3"}),
                                         Spec("z", DType::kFloat, {"total_seq", "past_seq", "seq"})};
  CHECK(DynamicDims(inputs) == std::vector<std::string>{"batch", "seq", "x.2", "past + seq", "total_seq", "past_seq"});
  const auto dims = [&](RandomDims given) {
    const auto source = RandomSamples(1, 1, inputs, given);
    std::string out;
    const auto sample = source->Load(0);
    REQUIRE(sample.ok());
    for (const auto& [name, tensor] : *sample) out += ToString(tensor.dims()) + " ";
    return out + source->ChosenSizes();
  };
  CHECK(dims({}) == "1x8x8 1x16x3 16x8x8 batch=1, seq=8, x.2=8, past + seq=16, total_seq=16, past_seq=8");
  CHECK(dims({.others = 2, .named = {{"batch", 4}, {"seq", 5}, {"x.2", 0}}}) ==
        "4x5x0 4x7x3 7x2x5 past + seq=7, total_seq=7, past_seq=2");
  CHECK(dims({.named = {{"past + seq", 9}, {"total_seq", 3}}}) ==
        "1x8x8 1x9x3 3x8x8 batch=1, seq=8, x.2=8, past_seq=8");
}

}  // namespace
}  // namespace quant
