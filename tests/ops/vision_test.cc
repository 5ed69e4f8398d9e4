// Sampling, regions and pools: edges and inputs that mean harm.
#include <limits>

#include "tests/ops/run_op.h"

namespace quant {
namespace {

using Numbers = std::vector<float>;
constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

void RequireNumbers(const Tensor& made, const Dims& dims, const std::vector<double>& wanted) {
  REQUIRE(made.dims() == dims);
  RequireClose<float>(made, wanted, 1e-6);
}

// GridSample of the row 1 2 3 4 at places of one axis.
Tensor SampleRow(const Numbers& places, const std::string& mode, const std::string& padding, int64_t align = 1) {
  const Tensor row = Make<float>({1, 1, 4}, {1, 2, 3, 4});
  const auto count = static_cast<int64_t>(places.size());
  return RunOne(*FindOp("", "GridSample"), {row, Make<float>({1, count, 1}, places)},
                {.attributes = {{"mode", mode}, {"padding_mode", padding}, {"align_corners", align}}});
}

TEST_CASE("GridSample reads beyond the ends as padding says") {
  const Numbers places = {-1, 1, 0, -5.0F / 3, 5.0F / 3, 3};  // elements 0, 3, 1.5, -1, 4 and 6
  RequireNumbers(SampleRow(places, "linear", "zeros"), {1, 1, 6}, {1, 4, 2.5, 0, 0, 0});
  RequireNumbers(SampleRow(places, "linear", "border"), {1, 1, 6}, {1, 4, 2.5, 1, 4, 4});
  RequireNumbers(SampleRow(places, "linear", "reflection"), {1, 1, 6}, {1, 4, 2.5, 2, 3, 1});
  // Reflected at the elements' outer edges, -0.5 and 3.5: places -1, 4, 5 and -6.
  RequireNumbers(SampleRow({-1.25F, 1.25F, 1.75F, -3.75F}, "nearest", "reflection", 0), {1, 1, 4}, {1, 4, 3, 3});
}

TEST_CASE("GridSample takes any coordinate") {
  const Numbers places = {kNan, kInf, -kInf, 1e30F, -1e30F};
  for (const std::string mode : {"nearest", "linear", "cubic"}) {
    RequireNumbers(SampleRow(places, mode, "zeros"), {1, 1, 5}, {0, 0, 0, 0, 0});
    RequireNumbers(SampleRow(places, mode, "border"), {1, 1, 5}, {1, 4, 1, 4, 1});
    const Tensor reflected = SampleRow(places, mode, "reflection");
    for (float v : reflected.data<float>()) REQUIRE((v > 0 && v < 5));
  }
}

TEST_CASE("GridSample holds integers within their type") {
  const Tensor row = Make<int8_t>({1, 1, 6}, {-128, -128, 127, 127, -128, -128});
  const Tensor y = RunOne(*FindOp("", "GridSample"), {row, Make<float>({1, 1, 1}, {0})},
                          {.attributes = {{"mode", std::string("cubic")}, {"align_corners", int64_t{1}}}});
  REQUIRE(y.data<int8_t>()[0] == 127);  // cubic interpolation overshoots
}

TEST_CASE("GridSample refuses what does not fit") {
  const OpDef& op = *FindOp("", "GridSample");
  const Tensor x = RandomTensor({1, 1, 3, 3}, 1);
  RequireRefused(op, {x, RandomTensor({1, 2, 2, 3}, 1)});
  RequireRefused(op, {x, RandomTensor({2, 2, 2, 2}, 1)});
  RequireRefused(op, {x, RandomTensor({1, 2, 2}, 1)});
  RequireRefused(op, {Make<float>({1, 1}, {1}), Make<float>({1, 0}, {})});
  RequireRefused(op, {x, RandomTensor({1, 2, 2, 2}, 1)}, {.attributes = {{"mode", std::string("area")}}});
  const Tensor empty = Make<float>({1, 1, 0, 3}, {});
  RequireRefused(op, {empty, RandomTensor({1, 2, 2, 2}, 1)}, {.attributes = {{"padding_mode", std::string("border")}}});
  RequireNumbers(RunOne(op, {empty, RandomTensor({1, 1, 2, 2}, 1)}), {1, 1, 1, 2}, {0, 0});
}

TEST_CASE("Sampling, regions and DeformConv give the same bytes for any number of threads") {
  const Tensor x = RandomTensor({2, 4, 19, 23}, 1);
  RequireThreadsAgree(*FindOp("", "GridSample"), {x, RandomTensor({2, 31, 33, 2}, 2)});
  const Tensor rois = Make<float>({2, 4}, {0, 0, 9, 9, 3, 1, 20, 17});
  RequireThreadsAgree(*FindOp("", "RoiAlign"), {x, rois, Make<int64_t>({2}, {1, 0})},
                      {.attributes = {{"output_height", int64_t{3}}, {"output_width", int64_t{4}}}});
  RequireThreadsAgree(*FindOp("", "DeformConv"), {x, RandomTensor({6, 4, 3, 3}, 3), RandomTensor({2, 18, 17, 21}, 4)});
}

TEST_CASE("RoiAlign before opset 16 does not shift by half an element") {
  const Tensor x = Make<float>({1, 1, 2, 2}, {1, 2, 3, 4});
  const std::vector<Tensor> inputs = {x, Make<float>({1, 4}, {0, 0, 1, 1}), Make<int64_t>({1}, {0})};
  const AttributeList once = {{"sampling_ratio", int64_t{1}}};
  RequireNumbers(RunOne(*FindOp("", "RoiAlign"), inputs, {.attributes = once, .version = 10}), {1, 1, 1, 1}, {2.5});
  RequireNumbers(RunOne(*FindOp("", "RoiAlign"), inputs, {.attributes = once, .version = 16}), {1, 1, 1, 1}, {1});
}

TEST_CASE("RoiAlign refuses regions that are none") {
  const OpDef& op = *FindOp("", "RoiAlign");
  const Tensor x = RandomTensor({2, 1, 3, 3}, 1), roi = Make<float>({1, 4}, {0, 0, 2, 2});
  RequireRefused(op, {x, roi, Make<int64_t>({1}, {2})});
  RequireRefused(op, {x, roi, Make<int64_t>({1}, {-1})});
  RequireRefused(op, {x, roi, Make<int64_t>({2}, {0, 0})});
  RequireRefused(op, {x, Make<float>({1, 4}, {0, 0, kNan, 2}), Make<int64_t>({1}, {0})});
  RequireRefused(op, {x, Make<float>({1, 4}, {0, 0, 1e9F, 2}), Make<int64_t>({1}, {0})});
  RequireRefused(op, {x, roi, Make<int64_t>({1}, {0})}, {.attributes = {{"output_height", int64_t{0}}}});
  RequireRefused(op, {x, roi, Make<int64_t>({1}, {0})}, {.attributes = {{"output_height", int64_t{1} << 40}}});
  // A region outside the map reads zeros.
  const Tensor far = Make<float>({1, 4}, {50, 50, 60, 60});
  RequireNumbers(RunOne(op, {x, far, Make<int64_t>({1}, {0})}), {1, 1, 1, 1}, {0});
}

TEST_CASE("MaxRoiPool pools what bins hold") {
  const OpDef& op = *FindOp("", "MaxRoiPool");
  const Tensor x = Make<float>({1, 1, 3, 3}, {1, 2, 3, 4, 5, 6, 7, 8, 9});
  const OpCall call = {.attributes = {{"pooled_shape", Ints{2, 2}}}};
  RequireNumbers(RunOne(op, {x, Make<float>({1, 5}, {0, 0, 0, 2, 2})}, call), {1, 1, 2, 2}, {5, 6, 8, 9});
  RequireNumbers(RunOne(op, {x, Make<float>({1, 5}, {0, 7, 7, 9, 9})}, call), {1, 1, 2, 2}, {0, 0, 0, 0});
  RequireRefused(op, {x, Make<float>({1, 5}, {1, 0, 0, 2, 2})}, call);
  RequireRefused(op, {x, Make<float>({1, 5}, {kNan, 0, 0, 2, 2})}, call);
  RequireRefused(op, {x, Make<float>({1, 5}, {0, 0, 0, kInf, 2})}, call);
  RequireRefused(op, {x, Make<float>({1, 5}, {0, 0, 0, 2, 2})}, {.attributes = {{"pooled_shape", Ints{2, 0}}}});
}

TEST_CASE("NonMaxSuppression picks by score, then by index, and never a NaN") {
  const OpDef& op = *FindOp("", "NonMaxSuppression");
  const Tensor boxes = Make<float>({1, 4, 4}, {0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7});
  const Tensor scores = Make<float>({1, 1, 4}, {0.5F, kNan, 0.5F, 0.9F});
  const Tensor picked = RunOne(op, {boxes, scores, Make<int64_t>({}, {9})});
  REQUIRE(picked.dims() == Dims{3, 3});
  const auto rows = picked.data<int64_t>();
  REQUIRE((rows[2] == 3 && rows[5] == 0 && rows[8] == 2));
  REQUIRE(RunOne(op, {boxes, scores}).dims() == Dims{0, 3});
  REQUIRE(RunOne(op, {boxes, scores, Make<int64_t>({}, {-5})}).dims() == Dims{0, 3});
  RequireRefused(op, {boxes, scores, Make<int64_t>({}, {9}), Make<float>({}, {1.5F})});
  RequireRefused(op, {boxes, Make<float>({1, 1, 3}, {1, 1, 1})});
}

TEST_CASE("MaxUnpool writes inside its output alone") {
  const OpDef& op = *FindOp("", "MaxUnpool");
  const OpCall call = {.attributes = {{"kernel_shape", Ints{2}}, {"strides", Ints{2}}}};
  const Tensor x = Make<float>({1, 1, 2}, {1, 2});
  RequireNumbers(RunOne(op, {x, Make<int64_t>({1, 1, 2}, {3, 0})}, call), {1, 1, 4}, {2, 0, 0, 1});
  RequireRefused(op, {x, Make<int64_t>({1, 1, 2}, {3, 4})}, call);
  RequireRefused(op, {x, Make<int64_t>({1, 1, 2}, {-1, 0})}, call);
  RequireRefused(op, {x, Make<int64_t>({1, 2}, {1, 0})}, call);
  RequireRefused(op, {x, Make<int64_t>({1, 1, 2}, {3, 0}), Make<int64_t>({3}, {1, 1, 3})}, call);
  RequireRefused(op, {x, Make<int64_t>({1, 1, 2}, {3, 0})}, {.attributes = {{"kernel_shape", Ints{2, 2}}}});
}

TEST_CASE("Col2Im adds up, and integers wrap") {
  const OpDef& op = *FindOp("", "Col2Im");
  const Tensor image = Make<int64_t>({1}, {3}), block = Make<int64_t>({1}, {2});
  const Tensor columns = Make<int8_t>({1, 2, 2}, {1, 100, 100, 4});
  const Tensor y = RunOne(op, {columns, image, block});
  REQUIRE(y.dims() == Dims{1, 1, 3});
  REQUIRE((y.data<int8_t>()[0] == 1 && y.data<int8_t>()[1] == -56 && y.data<int8_t>()[2] == 4));
  RequireRefused(op, {Make<int8_t>({1, 2, 1}, {1, 2}), image, block});
  RequireRefused(op, {Make<int8_t>({1, 1, 2}, {1, 2}), image, block});
  RequireRefused(op, {columns, Make<int64_t>({1}, {-3}), block});
  RequireRefused(op, {columns, image, Make<int64_t>({2}, {2, 1})});
  RequireRefused(op, {columns, image, Make<int64_t>({1}, {0})});
}

TEST_CASE("DeformConv without offsets is Conv") {
  for (const Dims& spatial : {Dims{7}, Dims{5, 6}, Dims{4, 3, 5}}) {
    Dims x = {2, 4}, w = {6, 2}, out = {2, 2};
    int64_t taps = 1;
    for (int64_t n : spatial) {
      x.push_back(n);
      w.push_back(2);
      out.push_back((n + 2 - 2) / 2 + 1);
      taps *= 2;
    }
    const std::vector<int64_t> ones(2 * spatial.size(), 1), twos(spatial.size(), 2);
    out[1] = 2 * taps * static_cast<int64_t>(spatial.size());
    Tensor offset = Tensor::Allocate(DType::kFloat, out);
    for (float& v : offset.mutable_data<float>()) v = 0;
    const Tensor input = RandomTensor(x, 1), weight = RandomTensor(w, 2), bias = RandomTensor({6}, 3);
    AttributeList attributes = {{"group", int64_t{2}}, {"pads", ones}, {"strides", twos}};
    const Tensor wanted = RunOne(*FindOp("", "Conv"), {input, weight, bias}, {.attributes = attributes});
    attributes.emplace_back("offset_group", int64_t{2});
    const Tensor made = RunOne(*FindOp("", "DeformConv"), {input, weight, offset, bias}, {.attributes = attributes});
    RequireNumbers(made, wanted.dims(), {wanted.data<float>().begin(), wanted.data<float>().end()});
  }
}

TEST_CASE("DeformConv refuses what does not fit, and reads zero far outside") {
  const OpDef& op = *FindOp("", "DeformConv");
  const Tensor x = Make<float>({1, 1, 2, 2}, {1, 2, 3, 4}), w = Make<float>({1, 1, 1, 1}, {1});
  const Tensor far = Make<float>({1, 2, 2, 2}, {kNan, kInf, -kInf, 1e30F, 0, 0, 0, 0});
  RequireNumbers(RunOne(op, {x, w, far}), {1, 1, 2, 2}, {0, 0, 0, 0});
  RequireRefused(op, {x, w, RandomTensor({1, 1, 2, 2}, 1)});
  RequireRefused(op, {x, w, RandomTensor({1, 2, 2, 1}, 1)});
  RequireRefused(op, {x, w, far, RandomTensor({2}, 1)});
  RequireRefused(op, {x, w, far, Tensor(), RandomTensor({1, 2, 2, 2}, 1)});
  RequireRefused(op, {x, w, far}, {.attributes = {{"group", int64_t{0}}}});
  RequireRefused(op, {x, w, far}, {.attributes = {{"offset_group", std::numeric_limits<int64_t>::max()}}});
}

TEST_CASE("LpPool and GlobalLpPool take any p from 1") {
  const Tensor x = Make<float>({1, 1, 3}, {-1, 2, -3});
  const auto call = [](int64_t p) { return OpCall{.attributes = {{"p", p}, {"kernel_shape", Ints{2}}}}; };
  RequireNumbers(RunOne(*FindOp("", "LpPool"), {x}, call(1)), {1, 1, 2}, {3, 5});
  RequireNumbers(RunOne(*FindOp("", "LpPool"), {x}, call(3)), {1, 1, 2}, {std::cbrt(9.0), std::cbrt(35.0)});
  RequireNumbers(RunOne(*FindOp("", "GlobalLpPool"), {x}, call(3)), {1, 1, 1}, {std::cbrt(36.0)});
  RequireRefused(*FindOp("", "LpPool"), {x}, call(0));
  RequireRefused(*FindOp("", "GlobalLpPool"), {x}, call(-1));
}

TEST_CASE("AffineGrid names places of the axes asked for") {
  const OpDef& op = *FindOp("", "AffineGrid");
  const Tensor same = Make<float>({1, 2, 3}, {1, 0, 0, 0, 1, 0});
  const OpCall corners = {.attributes = {{"align_corners", int64_t{1}}}};
  RequireNumbers(RunOne(op, {same, Make<int64_t>({4}, {1, 1, 1, 3})}, corners), {1, 1, 3, 2}, {-1, -1, 0, -1, 1, -1});
  REQUIRE(RunOne(op, {same, Make<int64_t>({4}, {1, 1, 0, 3})}).dims() == Dims{1, 0, 3, 2});
  RequireRefused(op, {same, Make<int64_t>({4}, {1, 1, -1, 3})});
  RequireRefused(op, {same, Make<int64_t>({4}, {2, 1, 1, 3})});
  RequireRefused(op, {same, Make<int64_t>({5}, {1, 1, 1, 1, 3})});
  RequireRefused(op, {same, Make<int64_t>({4}, {1, 1, int64_t{1} << 40, int64_t{1} << 40})});
}

TEST_CASE("MeanVarianceNormalization over any axes") {
  const OpDef& op = *FindOp("", "MeanVarianceNormalization");
  const Tensor x = Make<float>({2, 2}, {1, 5, 3, 5});
  RequireNumbers(RunOne(op, {x}, {.attributes = {{"axes", Ints{0}}}}), {2, 2}, {-1, 0, 1, 0});
  RequireNumbers(RunOne(op, {x}, {.attributes = {{"axes", Ints{-1}}}}), {2, 2}, {-1, 1, -1, 1});
  REQUIRE(RunOne(op, {Make<float>({0, 2}, {})}, {.attributes = {{"axes", Ints{0}}}}).size() == 0);
  RequireRefused(op, {x});  // the default axes need four
  RequireRefused(op, {x}, {.attributes = {{"axes", Ints{0, -2}}}});
}

}  // namespace
}  // namespace quant
