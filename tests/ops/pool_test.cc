#include <limits>

#include "tests/ops/run_op.h"

namespace quant {
const OpDef& AveragePoolOp();
const OpDef& GlobalAveragePoolOp();
const OpDef& GlobalMaxPoolOp();
const OpDef& MaxPoolOp();

namespace {

struct Pool {
  Dims in;  // height, width
  Ints kernel, strides, dilations, pads;
  bool ceil_mode = false;
  bool include_pad = false;
};

AttributeList AttributesOf(const Pool& p) {
  return {{"kernel_shape", p.kernel},          {"strides", p.strides},
          {"dilations", p.dilations},          {"pads", p.pads},
          {"ceil_mode", int64_t{p.ceil_mode}}, {"count_include_pad", int64_t{p.include_pad}}};
}

// Outputs along one axis, by trying windows one after another.
int64_t OutSize(const Pool& p, size_t i) {
  int64_t count = 0;
  for (int64_t begin = -p.pads[i];; begin += p.strides[i], ++count) {
    const int64_t last = begin + (p.kernel[i] - 1) * p.dilations[i];
    if (last < p.in[i] + p.pads[2 + i]) continue;
    // A window that hangs over the padded end counts with ceil_mode, if it begins before the padding at the end and
    // the one before it did not end there.
    const bool left_over = count == 0 || last - p.strides[i] < p.in[i] + p.pads[2 + i] - 1;
    return count + (p.ceil_mode && left_over && begin < p.in[i] && count > 0 ? 1 : 0);
  }
}

// The definition for one plane.
struct Window {
  std::vector<std::pair<int64_t, float>> inside;  // index, value
  int64_t with_pads = 0;
};
Window WindowAt(const Pool& p, const float* x, int64_t oh, int64_t ow) {
  Window out;
  for (int64_t kh = 0; kh < p.kernel[0]; ++kh) {
    for (int64_t kw = 0; kw < p.kernel[1]; ++kw) {
      const int64_t h = oh * p.strides[0] - p.pads[0] + kh * p.dilations[0];
      const int64_t w = ow * p.strides[1] - p.pads[1] + kw * p.dilations[1];
      if (h < p.in[0] + p.pads[2] && w < p.in[1] + p.pads[3]) ++out.with_pads;
      if (h < 0 || w < 0 || h >= p.in[0] || w >= p.in[1]) continue;
      out.inside.emplace_back(h * p.in[1] + w, x[h * p.in[1] + w]);
    }
  }
  return out;
}

std::vector<Pool> Pools() {
  std::vector<Pool> all;
  for (bool ceil_mode : {false, true}) {
    for (bool include_pad : {false, true}) {
      all.push_back({{8, 8}, {2, 2}, {2, 2}, {1, 1}, {0, 0, 0, 0}, ceil_mode, include_pad});
      all.push_back({{9, 10}, {3, 3}, {2, 2}, {1, 1}, {1, 1, 1, 1}, ceil_mode, include_pad});
      all.push_back({{7, 40}, {3, 2}, {3, 1}, {1, 1}, {0, 1, 2, 0}, ceil_mode, include_pad});
      all.push_back({{12, 33}, {3, 3}, {1, 3}, {2, 3}, {2, 1, 1, 2}, ceil_mode, include_pad});
      all.push_back({{5, 5}, {2, 2}, {3, 4}, {1, 1}, {1, 1, 1, 1}, ceil_mode, include_pad});
      all.push_back({{2, 2}, {2, 1}, {1, 1}, {3, 1}, {2, 0, 2, 0}, ceil_mode, include_pad});
    }
  }
  return all;
}

}  // namespace

TEST_CASE("MaxPool and AveragePool equal their definitions") {
  uint32_t seed = 1;
  for (const Pool& p : Pools()) {
    const Tensor x = RandomTensor({2, 3, p.in[0], p.in[1]}, ++seed);
    const Dims dims = {2, 3, OutSize(p, 0), OutSize(p, 1)};
    std::vector<double> largest, means;
    std::vector<int64_t> where;
    for (int64_t plane = 0; plane < 6; ++plane) {
      const float* in = x.data<float>().data() + plane * p.in[0] * p.in[1];
      for (int64_t o = 0; o < dims[2] * dims[3]; ++o) {
        const Window window = WindowAt(p, in, o / dims[3], o % dims[3]);
        float best = -std::numeric_limits<float>::infinity();
        int64_t at = -1;
        double sum = 0;
        for (const auto& [index, value] : window.inside) {
          sum += value;
          if (value > best) best = value, at = plane * p.in[0] * p.in[1] + index;
        }
        largest.push_back(best);
        where.push_back(at);
        const auto count =
            static_cast<double>(p.include_pad ? window.with_pads : static_cast<int64_t>(window.inside.size()));
        means.push_back(count == 0 ? 0 : sum / count);
      }
    }
    const OpCall call = {AttributesOf(p), 22, 2};
    const auto both = RunOp(MaxPoolOp(), {x}, call);
    REQUIRE(both.ok());
    const Tensor fast = RunOne(MaxPoolOp(), {x}, {call.attributes, 22, 1});
    REQUIRE(fast.dims() == dims);
    for (size_t i = 0; i < largest.size(); ++i) {
      REQUIRE(static_cast<double>(fast.data<float>()[i]) == largest[i]);
      REQUIRE((*both)[0].data<float>()[i] == fast.data<float>()[i]);
      REQUIRE((*both)[1].data<int64_t>()[i] == where[i]);
    }
    RequireClose<float>(RunOne(AveragePoolOp(), {x}, {call.attributes, 22}), means, 1e-7);
  }
}

TEST_CASE("MaxPool of codes and over one and three axes") {
  const Tensor codes = RunOne(MaxPoolOp(), {Make<int8_t>({1, 1, 6}, {-128, -5, 3, -9, -128, -127})},
                              {{{"kernel_shape", Ints{2}}, {"strides", Ints{2}}}, 12});
  REQUIRE(codes.data<int8_t>()[0] == -5);
  REQUIRE(codes.data<int8_t>()[1] == 3);
  REQUIRE(codes.data<int8_t>()[2] == -127);
  const Tensor cube = RandomTensor({1, 1, 3, 3, 3}, 5);
  const auto whole =
      RunOp(MaxPoolOp(), {cube}, {{{"kernel_shape", Ints{3, 3, 3}}, {"storage_order", int64_t{1}}}, 22, 2});
  REQUIRE(whole.ok());
  int64_t best = 0;
  for (int64_t i = 0; i < 27; ++i) {
    if (cube.data<float>()[static_cast<size_t>(i)] > cube.data<float>()[static_cast<size_t>(best)]) best = i;
  }
  // Column-major: the first spatial axis runs fastest.
  REQUIRE((*whole)[1].data<int64_t>()[0] == best / 9 + best / 3 % 3 * 3 + best % 3 * 9);
}

TEST_CASE("global pools") {
  const Tensor x = RandomTensor({2, 3, 5, 7}, 1);
  std::vector<double> means, largest;
  for (size_t p = 0; p < 6; ++p) {
    double sum = 0, best = -1e30;
    for (size_t i = 0; i < 35; ++i) {
      sum += x.data<float>()[p * 35 + i];
      best = std::max<double>(best, x.data<float>()[p * 35 + i]);
    }
    means.push_back(sum / 35);
    largest.push_back(best);
  }
  const Tensor y = RunOne(GlobalAveragePoolOp(), {x});
  REQUIRE(y.dims() == Dims{2, 3, 1, 1});
  RequireClose<float>(y, means, 1e-7);
  RequireClose<float>(RunOne(GlobalMaxPoolOp(), {x}), largest, 0);
}

TEST_CASE("a long average does not lose small values") {
  Tensor x = Tensor::Allocate(DType::kFloat, {1, 1, 1 << 20});
  for (float& v : x.mutable_data<float>()) v = 0.1F;
  x.mutable_data<float>()[0] = 1e6F;
  const double expected = (1e6 + ((1 << 20) - 1) * static_cast<double>(0.1F)) / (1 << 20);
  REQUIRE(static_cast<double>(RunOne(GlobalAveragePoolOp(), {x}).data<float>()[0]) == Approx(expected).epsilon(1e-7));
}

TEST_CASE("pools refuse windows that can't be") {
  const Tensor x = RandomTensor({1, 1, 4, 4}, 1);
  for (const OpDef* op : {&MaxPoolOp(), &AveragePoolOp()}) {
    RequireRefused(*op, {x});
    RequireRefused(*op, {x}, {{{"kernel_shape", Ints{}}}});
    RequireRefused(*op, {x}, {{{"kernel_shape", Ints{2}}}});
    RequireRefused(*op, {x}, {{{"kernel_shape", Ints{0, 2}}}});
    RequireRefused(*op, {x}, {{{"kernel_shape", Ints{5, 5}}}});
    RequireRefused(*op, {x}, {{{"kernel_shape", Ints{2, 2}}, {"strides", Ints{0, 1}}}});
    RequireRefused(*op, {x}, {{{"kernel_shape", Ints{2, 2}}, {"pads", Ints{-4, 0, 0, 0}}}});
    RequireRefused(*op, {RandomTensor({1, 4}, 1)}, {{{"kernel_shape", Ints{2}}}});
    RequireRefused(*op, {RandomTensor({1, 1, 0, 4}, 1)}, {{{"kernel_shape", Ints{2, 2}}}});
  }
  RequireRefused(GlobalAveragePoolOp(), {RandomTensor({1, 2, 0}, 1)});
}

}  // namespace quant
