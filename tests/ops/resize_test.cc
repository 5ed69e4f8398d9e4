// Resize and Upsample on numbers worked out by hand.
#include <limits>

#include "tests/ops/run_op.h"

namespace quant {
namespace {

using Numbers = std::vector<float>;

const OpDef& Resize() { return *FindOp("", "Resize"); }

struct Options {
  std::string mode = "nearest";
  std::string coordinates = "half_pixel";
  AttributeList more = {};
};

OpCall CallOf(const Options& o) {
  OpCall call;
  call.attributes = o.more;
  call.attributes.emplace_back("mode", o.mode);
  call.attributes.emplace_back("coordinate_transformation_mode", o.coordinates);
  return call;
}

std::vector<Tensor> Scaled(const Tensor& x, const Numbers& scales) {
  return {x, Tensor(), Make<float>({static_cast<int64_t>(scales.size())}, scales)};
}
std::vector<Tensor> Sized(const Tensor& x, const std::vector<int64_t>& sizes) {
  return {x, Tensor(), Tensor(), Make<int64_t>({static_cast<int64_t>(sizes.size())}, sizes)};
}

void RequireNumbers(const Tensor& made, const Dims& dims, const std::vector<double>& wanted) {
  REQUIRE(made.dims() == dims);
  RequireClose<float>(made, wanted, 1e-6);
}

const Tensor kRow = Make<float>({4}, {1, 2, 3, 4});
const Tensor kSquare = Make<float>({2, 2}, {1, 2, 3, 4});

TEST_CASE("Resize repeats the nearest elements, by scales or by sizes") {
  const std::vector<double> wanted = {1, 1, 2, 2, 1, 1, 2, 2, 3, 3, 4, 4, 3, 3, 4, 4};
  RequireNumbers(RunOne(Resize(), Scaled(kSquare, {2, 2}), CallOf({})), {4, 4}, wanted);
  RequireNumbers(RunOne(Resize(), Sized(kSquare, {4, 4}), CallOf({})), {4, 4}, wanted);
}

TEST_CASE("Resize rounds to the nearest element as it is told") {
  // At half the length and asymmetric 0.5 steps: places 0, 0.5, 1, 1.5, 2, 2.5, ...
  const auto row = [](const std::string& nearest_mode) {
    return RunOne(Resize(), Scaled(kRow, {2}),
                  CallOf({.mode = "nearest", .coordinates = "asymmetric", .more = {{"nearest_mode", nearest_mode}}}));
  };
  RequireNumbers(row("floor"), {8}, {1, 1, 2, 2, 3, 3, 4, 4});
  RequireNumbers(row("ceil"), {8}, {1, 2, 2, 3, 3, 4, 4, 4});
  RequireNumbers(row("round_prefer_floor"), {8}, {1, 1, 2, 2, 3, 3, 4, 4});
  RequireNumbers(row("round_prefer_ceil"), {8}, {1, 2, 2, 3, 3, 4, 4, 4});
}

TEST_CASE("Resize makes less of nearest elements") {
  // Places (i + 0.5) * 2 - 0.5: 0.5 and 2.5, where floor is preferred.
  RequireNumbers(RunOne(Resize(), Scaled(kRow, {0.5f}), CallOf({})), {2}, {1, 3});
  // 4 * 0.6 = 2.4: two elements.
  CHECK(RunOne(Resize(), Scaled(kRow, {0.6f}), CallOf({})).dims() == Dims{2});
}

TEST_CASE("Resize draws lines between elements") {
  const auto row = [](const std::string& coordinates, const std::vector<Tensor>& inputs) {
    return RunOne(Resize(), inputs, CallOf({.mode = "linear", .coordinates = coordinates}));
  };
  RequireNumbers(row("half_pixel", Scaled(kRow, {2})), {8}, {1, 1.25, 1.75, 2.25, 2.75, 3.25, 3.75, 4});
  RequireNumbers(row("half_pixel", Scaled(kRow, {0.5f})), {2}, {1.5, 3.5});
  RequireNumbers(row("asymmetric", Scaled(kRow, {2})), {8}, {1, 1.5, 2, 2.5, 3, 3.5, 4, 4});
  RequireNumbers(row("align_corners", Sized(kRow, {7})), {7}, {1, 1.5, 2, 2.5, 3, 3.5, 4});
  RequireNumbers(row("align_corners", Sized(kRow, {1})), {1}, {1});
  RequireNumbers(row("pytorch_half_pixel", Sized(kRow, {1})), {1}, {1});
  RequireNumbers(row("pytorch_half_pixel", Scaled(kRow, {0.5f})), {2}, {1.5, 3.5});
}

TEST_CASE("Resize draws planes in two axes") {
  const OpCall call = CallOf({.mode = "linear", .coordinates = "align_corners"});
  RequireNumbers(RunOne(Resize(), Sized(kSquare, {3, 3}), call), {3, 3}, {1, 1.5, 2, 2, 2.5, 3, 3, 3.5, 4});
}

TEST_CASE("Resize takes cubic weights") {
  // Half way with a = -0.75: -0.09375, 0.59375, 0.59375, -0.09375, the border repeated.
  const std::vector<Tensor> inputs = Scaled(Make<float>({4}, {0, 0, 16, 16}), {2});
  const auto row = [&](AttributeList more) {
    return RunOne(Resize(), inputs, CallOf({.mode = "cubic", .coordinates = "asymmetric", .more = std::move(more)}));
  };
  RequireNumbers(row({}), {8}, {0, -1.5, 0, 8, 16, 17.5, 16, 16});
  // a = -0.5: -0.0625, 0.5625, 0.5625, -0.0625.
  RequireNumbers(row({{"cubic_coeff_a", -0.5f}}), {8}, {0, -1, 0, 8, 16, 17, 16, 16});
  // Without what lies outside: at 0.5 (0.59375 * 0 + 0.59375 * 0 - 0.09375 * 16) / 1.09375.
  const double without = -1.5 / 1.09375, end = (-0.09375 * 16 + 0.59375 * 16) / (0.59375 - 0.09375);
  RequireNumbers(row({{"exclude_outside", int64_t{1}}}), {8},
                 {0, without, 0, 8, 16, (0.59375 * 32 - 0.0) / 1.09375, 16, end});
}

TEST_CASE("Resize blurs what it makes smaller when told to") {
  // Triangles of width 2 around 0.5 and 2.5, over what lies inside.
  const OpCall call = CallOf({.mode = "linear", .coordinates = "half_pixel", .more = {{"antialias", int64_t{1}}}});
  const Tensor made = RunOne(Resize(), Scaled(Make<float>({4}, {8, 8, 8, 8}), {0.5f}), call);
  RequireNumbers(made, {2}, {8, 8});
  RequireNumbers(RunOne(Resize(), Scaled(kRow, {2}), call), {8}, {1, 1.25, 1.75, 2.25, 2.75, 3.25, 3.75, 4});
}

TEST_CASE("Resize crops to a region of interest, with a value for what is outside") {
  const auto row = [](const Numbers& roi, int64_t size) {
    auto inputs = Sized(kRow, {size});
    inputs[1] = Make<float>({2}, roi);
    return RunOne(
        Resize(), inputs,
        CallOf({.mode = "linear", .coordinates = "tf_crop_and_resize", .more = {{"extrapolation_value", 9.0f}}}));
  };
  RequireNumbers(row({0, 1}, 4), {4}, {1, 2, 3, 4});
  RequireNumbers(row({0, 0.5f}, 4), {4}, {1, 1.5, 2, 2.5});
  RequireNumbers(row({0.5f, 0.5f}, 1), {1}, {2.5});
  RequireNumbers(row({-1, 2}, 4), {4}, {9, 1, 4, 9});
}

TEST_CASE("Resize names axes, and keeps proportions when told to") {
  const Tensor x = Make<float>({1, 2, 4}, {1, 2, 3, 4, 5, 6, 7, 8});
  const auto dims = [&](const std::string& policy, std::vector<int64_t> axes, std::vector<int64_t> sizes) {
    const OpCall call = CallOf({.more = {{"axes", std::move(axes)}, {"keep_aspect_ratio_policy", policy}}});
    return RunOne(Resize(), Sized(x, sizes), call).dims();
  };
  CHECK(dims("stretch", {1, 2}, {6, 8}) == Dims{1, 6, 8});
  CHECK(dims("stretch", {-1}, {8}) == Dims{1, 2, 8});
  CHECK(dims("stretch", {2, 1}, {8, 6}) == Dims{1, 6, 8});
  CHECK(dims("not_larger", {1, 2}, {6, 8}) == Dims{1, 4, 8});
  CHECK(dims("not_smaller", {1, 2}, {6, 8}) == Dims{1, 6, 12});
}

TEST_CASE("Resize by one is the input itself, in every mode") {
  for (const char* mode : {"nearest", "linear", "cubic"}) {
    for (const char* coordinates : {"half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel"}) {
      const OpCall call = CallOf({.mode = mode, .coordinates = coordinates});
      RequireNumbers(RunOne(Resize(), Scaled(kSquare, {1, 1}), call), {2, 2}, {1, 2, 3, 4});
      RequireNumbers(RunOne(Resize(), Sized(kSquare, {2, 2}), call), {2, 2}, {1, 2, 3, 4});
    }
  }
}

TEST_CASE("Resize of nothing, or to nothing, is empty") {
  for (const char* mode : {"nearest", "linear", "cubic"}) {
    const OpCall call = CallOf({.mode = mode});
    CHECK(RunOne(Resize(), Scaled(Tensor::Allocate(DType::kFloat, {0, 3}), {2, 2}), call).dims() == Dims{0, 6});
    CHECK(RunOne(Resize(), Scaled(Tensor::Allocate(DType::kFloat, {3, 0}), {2, 2}), call).dims() == Dims{6, 0});
    CHECK(RunOne(Resize(), Scaled(kSquare, {2, 0.25f}), call).dims() == Dims{4, 0});
  }
}

TEST_CASE("Resize takes integers, halves and doubles") {
  const OpCall linear = CallOf({.mode = "linear", .coordinates = "asymmetric"});
  const Tensor scales = Make<float>({1}, {2});
  const Tensor bytes = RunOne(Resize(), {Make<uint8_t>({2}, {10, 20}), Tensor(), scales}, linear);
  CHECK(std::vector<uint8_t>(bytes.data<uint8_t>().begin(), bytes.data<uint8_t>().end()) ==
        std::vector<uint8_t>{10, 15, 20, 20});
  RequireClose<double>(RunOne(Resize(), {Make<double>({2}, {10, 21}), Tensor(), scales}, linear), {10, 15.5, 21, 21},
                       1e-12);
  RequireClose<float16>(RunOne(Resize(), {CastTo<float16>(Make<float>({2}, {10, 21})), Tensor(), scales}, linear),
                        {10, 15.5, 21, 21}, 1e-12);
  const Tensor longs = RunOne(Resize(), {Make<int64_t>({1}, {INT64_MAX}), Tensor(), scales}, CallOf({}));
  CHECK(longs.data<int64_t>()[1] == INT64_MAX);
}

TEST_CASE("Resize takes empty roi and scales for absent ones") {
  const Tensor none = Tensor::Allocate(DType::kFloat, {0});
  CHECK(RunOne(Resize(), {kRow, none, none, Make<int64_t>({1}, {8})}, CallOf({})).dims() == Dims{8});
  CHECK(RunOne(Resize(), {kRow, none, Make<float>({1}, {2})}, CallOf({})).dims() == Dims{8});
}

TEST_CASE("Upsample enlarges by its scales, an attribute before opset 9") {
  const OpDef& upsample = *FindOp("", "Upsample");
  OpCall call;
  call.version = 9;
  RequireNumbers(RunOne(upsample, {kSquare, Make<float>({2}, {1, 2})}, call), {2, 4}, {1, 1, 2, 2, 3, 3, 4, 4});
  call.version = 7;
  call.attributes = {{"scales", std::vector<float>{2, 1}}, {"mode", std::string("linear")}};
  RequireNumbers(RunOne(upsample, {kSquare}, call), {4, 2}, {1, 2, 2, 3, 3, 4, 3, 4});
}

TEST_CASE("Resize gives the same bytes for any number of threads") {
  for (const char* mode : {"nearest", "linear", "cubic"}) {
    RequireThreadsAgree(Resize(), Sized(RandomTensor({2, 9, 31, 17}, 3), {2, 9, 40, 50}), CallOf({.mode = mode}));
  }
}

TEST_CASE("scales and sizes that are no enlargement of anything are refused") {
  const float nan = std::numeric_limits<float>::quiet_NaN(), inf = std::numeric_limits<float>::infinity();
  for (const char* mode : {"nearest", "linear", "cubic"}) {
    for (const char* coordinates : {"half_pixel", "align_corners", "half_pixel_symmetric"}) {
      const OpCall call = CallOf({.mode = mode, .coordinates = coordinates});
      for (const float bad : {0.0f, -0.0f, -1.0f, nan, inf, -inf, 1e30f, 3e9f, std::numeric_limits<float>::max()}) {
        INFO(mode << " " << coordinates << " scaled by " << bad);
        RequireRefused(Resize(), Scaled(kRow, {bad}), call);
        RequireRefused(Resize(), Scaled(kSquare, {1, bad}), call);
      }
      for (const int64_t bad : {int64_t{-1}, INT64_MIN, INT64_MAX, int64_t{1} << 40}) {
        RequireRefused(Resize(), Sized(kRow, {bad}), call);
        RequireRefused(Resize(), Sized(kSquare, {2, bad}), call);
      }
      // Each axis may pass; the product does not.
      RequireRefused(Resize(), Sized(Tensor::Allocate(DType::kFloat, {1, 1, 0, 1}), {1, 1, 5, 1}), call);
    }
  }
}

TEST_CASE("counts, axes, words and shapes that do not fit Resize are refused") {
  const OpCall call = CallOf({});
  RequireRefused(Resize(), Scaled(kSquare, {2}), call);
  RequireRefused(Resize(), Scaled(kSquare, {2, 2, 2}), call);
  RequireRefused(Resize(), Sized(kSquare, {2}), call);
  RequireRefused(Resize(), {kSquare}, call);
  RequireRefused(Resize(), {kSquare, Tensor(), Make<float>({1, 2}, {2, 2})}, call);
  RequireRefused(Resize(), {kSquare, Tensor(), Make<uint8_t>({2}, {2, 2})}, call);
  const auto refuse = [](const Options& o) { RequireRefused(Resize(), Scaled(kSquare, {2, 2}), CallOf(o)); };
  refuse({.mode = "area"});
  refuse({.coordinates = "somewhere"});
  refuse({.more = {{"nearest_mode", std::string("up")}}});
  refuse({.more = {{"axes", std::vector<int64_t>{0, 2}}}});
  refuse({.more = {{"axes", std::vector<int64_t>{0, -3}}}});
  refuse({.more = {{"axes", std::vector<int64_t>{0, 0}}}});
  refuse({.more = {{"axes", std::vector<int64_t>{1, -1}}}});
  refuse({.more = {{"axes", std::vector<int64_t>{INT64_MIN, INT64_MAX}}}});
  refuse({.coordinates = "tf_crop_and_resize"});  // no roi
}

TEST_CASE("a region of interest of any numbers ends in a tensor or an error") {
  const float nan = std::numeric_limits<float>::quiet_NaN(), inf = std::numeric_limits<float>::infinity();
  for (const char* mode : {"nearest", "linear", "cubic"}) {
    const OpCall call = CallOf({.mode = mode, .coordinates = "tf_crop_and_resize"});
    for (const float begin : {nan, inf, -inf, -1e30f, 1e30f, 0.5f}) {
      for (const float end : {nan, inf, -inf, -1e30f, 1e30f, 0.25f}) {
        for (const int64_t size : {1, 5}) {
          auto inputs = Sized(kRow, {size});
          inputs[1] = Make<float>({2}, {begin, end});
          INFO(mode << " from " << begin << " to " << end);
          const auto made = RunOp(Resize(), inputs, call);
          CHECK((made.ok() || ExitCode(made.status()) == 3));
        }
      }
    }
    auto inputs = Sized(kRow, {5});
    inputs[1] = Make<float>({3}, {0, 1, 2});
    RequireRefused(Resize(), inputs, call);
  }
}

}  // namespace
}  // namespace quant
