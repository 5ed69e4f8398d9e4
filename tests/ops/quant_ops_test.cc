// QuantizeLinear, DequantizeLinear, DynamicQuantizeLinear, MatMulInteger, MatMulNBits.
#include <limits>

#include "tests/ops/run_op.h"

namespace quant {
const OpDef& DequantizeLinearOp();
const OpDef& DynamicQuantizeLinearOp();
const OpDef& MatMulIntegerOp();
const OpDef& MatMulNBitsOp();
const OpDef& QuantizeLinearOp();

namespace {

const std::vector<DType> kCodeTypes = {DType::kInt8, DType::kUint8, DType::kInt16, DType::kUint16,
                                       DType::kInt4, DType::kUint4, DType::kInt2,  DType::kUint2};

// Element i, read bit by bit.
int64_t CodeAt(const Tensor& t, int64_t i) {
  const DTypeInfo& info = InfoOf(t.dtype());
  int64_t value = 0;
  for (int b = 0; b < info.bits; ++b) {
    const int64_t bit = i * info.bits + b;
    if ((static_cast<int>(t.bytes()[static_cast<size_t>(bit / 8)]) >> (bit % 8) & 1) != 0) value |= int64_t{1} << b;
  }
  return info.is_signed && value >= int64_t{1} << (info.bits - 1) ? value - (int64_t{1} << info.bits) : value;
}

struct Layout {
  AttributeList attributes;
  Dims scale_dims;
  int64_t axis = -1;  // -1: per tensor
  int64_t block = 0;
};

std::vector<Layout> LayoutsOf(const Dims& dims) {
  std::vector<Layout> all = {{{}, {}}, {{}, {1}}};
  for (int64_t axis = 0; axis < static_cast<int64_t>(dims.size()); ++axis) {
    const int64_t dim = dims[static_cast<size_t>(axis)];
    const int64_t from_end = axis - static_cast<int64_t>(dims.size());
    all.push_back({{{"axis", axis}}, {dim}, axis, 1});
    all.push_back({{{"axis", from_end}}, {dim}, axis, 1});
    for (int64_t block : {int64_t{1}, int64_t{2}, int64_t{3}, int64_t{32}, int64_t{1} << 40}) {
      Dims scales = dims;
      scales[static_cast<size_t>(axis)] = dim / block + (dim % block != 0 ? 1 : 0);
      all.push_back({{{"axis", axis}, {"block_size", block}}, scales, axis, block});
    }
  }
  return all;
}

// The scale of element i: by the definition, from its coordinates.
int64_t ScaleIndex(const Layout& layout, const Dims& dims, int64_t i) {
  if (layout.axis < 0) return 0;
  int64_t index = 0, step = 1, rest = i;
  for (size_t back = 1; back <= dims.size(); ++back) {
    const size_t a = dims.size() - back;
    int64_t at = rest % dims[a];
    rest /= dims[a];
    const bool here = static_cast<int64_t>(a) == layout.axis;
    if (here) at /= layout.block;
    if (layout.scale_dims.size() == 1 && dims.size() > 1) {
      if (here) index = at;
    } else if (layout.scale_dims.size() == 1) {
      index = at;
    } else {
      index += at * step;
      step *= layout.scale_dims[a];
    }
  }
  return index;
}

Tensor Scales(const Dims& dims, uint32_t seed) {
  Tensor t = RandomTensor(dims, seed);
  for (float& v : t.mutable_data<float>()) v = std::abs(v) * 0.1F + 0.01F;
  return t;
}

const std::vector<Dims> kShapes = {{1}, {7}, {5, 3}, {3, 70}, {4, 1, 6}, {2, 5, 3, 9}, {33, 65}};

}  // namespace

TEST_CASE("DequantizeLinear equals its definition over every type, layout and axis, short blocks included") {
  uint32_t seed = 1;
  for (const Dims& dims : kShapes) {
    for (const Layout& layout : LayoutsOf(dims)) {
      for (DType dtype : kCodeTypes) {
        const Tensor x = RandomBytes(dtype, dims, ++seed), z = RandomBytes(dtype, layout.scale_dims, ++seed);
        const Tensor scale = Scales(layout.scale_dims, ++seed);
        const Tensor y = RunOne(DequantizeLinearOp(), {x, scale, z}, {layout.attributes, 25});
        const Tensor plain = RunOne(DequantizeLinearOp(), {x, scale}, {layout.attributes, 25});
        for (int64_t i = 0; i < x.size(); ++i) {
          const int64_t s = ScaleIndex(layout, dims, i);
          const float factor = scale.data<float>()[static_cast<size_t>(s)];
          const float want = static_cast<float>(CodeAt(x, i) - CodeAt(z, s)) * factor;
          const bool equal = y.data<float>()[static_cast<size_t>(i)] == want &&
                             plain.data<float>()[static_cast<size_t>(i)] == static_cast<float>(CodeAt(x, i)) * factor;
          INFO(NameOf(dtype) << " " << ToString(dims) << " scales " << ToString(layout.scale_dims) << " element " << i);
          if (!equal) REQUIRE(equal);
        }
      }
    }
  }
}

TEST_CASE("QuantizeLinear equals its definition over every type, layout and axis") {
  uint32_t seed = 1;
  for (const Dims& dims : kShapes) {
    for (const Layout& layout : LayoutsOf(dims)) {
      for (DType dtype : kCodeTypes) {
        const Tensor x = RandomTensor(dims, ++seed), z = RandomBytes(dtype, layout.scale_dims, ++seed);
        const Tensor scale = Scales(layout.scale_dims, ++seed);
        const Tensor y = RunOne(QuantizeLinearOp(), {x, scale, z}, {layout.attributes, 25});
        REQUIRE(y.dtype() == dtype);
        const int64_t levels = int64_t{1} << InfoOf(dtype).bits, lowest = InfoOf(dtype).is_signed ? -levels / 2 : 0;
        for (int64_t i = 0; i < x.size(); ++i) {
          const int64_t s = ScaleIndex(layout, dims, i);
          const float divided = x.data<float>()[static_cast<size_t>(i)] / scale.data<float>()[static_cast<size_t>(s)];
          const double whole = std::nearbyint(static_cast<double>(divided)) + static_cast<double>(CodeAt(z, s));
          const auto want = static_cast<int64_t>(
              std::clamp(whole, static_cast<double>(lowest), static_cast<double>(lowest + levels - 1)));
          INFO(NameOf(dtype) << " " << ToString(dims) << " scales " << ToString(layout.scale_dims) << " element " << i);
          if (CodeAt(y, i) != want) REQUIRE(CodeAt(y, i) == want);
        }
        // Bits past an odd end are 0.
        const int64_t bits = y.size() * InfoOf(dtype).bits;
        for (int64_t b = bits; b < y.byte_size() * 8; ++b)
          REQUIRE((static_cast<int>(y.bytes()[static_cast<size_t>(b / 8)]) >> (b % 8) & 1) == 0);
      }
    }
  }
}

TEST_CASE("QuantizeLinear rounds halves to even, saturates, and gives NaN the lowest code") {
  const float infinity = std::numeric_limits<float>::infinity();
  const Tensor x = Make<float>({1, 9}, {0.5F, 1.5F, 2.5F, -0.5F, -1.5F, 1e30F, -infinity, infinity, std::nanf("")});
  const std::vector<std::pair<DType, std::vector<int64_t>>> expected = {
      {DType::kUint8, {0, 2, 2, 0, 0, 255, 0, 255, 0}},
      {DType::kInt8, {0, 2, 2, 0, -2, 127, -128, 127, -128}},
      {DType::kInt16, {0, 2, 2, 0, -2, 32767, -32768, 32767, -32768}},
      {DType::kUint16, {0, 2, 2, 0, 0, 65535, 0, 65535, 0}},
      {DType::kInt4, {0, 2, 2, 0, -2, 7, -8, 7, -8}},
      {DType::kUint4, {0, 2, 2, 0, 0, 15, 0, 15, 0}},
      {DType::kInt2, {0, 1, 1, 0, -2, 1, -2, 1, -2}},
  };
  for (const auto& [dtype, codes] : expected) {
    const OpCall call = {{{"output_dtype", static_cast<int64_t>(dtype)}}, 25};
    const Tensor y = RunOne(QuantizeLinearOp(), {x, Make<float>({}, {1})}, call);
    for (int64_t i = 0; i < 9; ++i) REQUIRE(CodeAt(y, i) == codes[static_cast<size_t>(i)]);
  }
  // The zero point is added after rounding: 2.5 rounds to 2 whatever the zero point's parity.
  const Tensor odd = RunOne(QuantizeLinearOp(), {x, Make<float>({}, {1}), Make<uint8_t>({}, {3})});
  REQUIRE(CodeAt(odd, 2) == 5);
  REQUIRE(CodeAt(odd, 8) == 0);
  REQUIRE(RunOne(QuantizeLinearOp(), {x, Make<float>({}, {1})}).dtype() == DType::kUint8);
}

TEST_CASE("scales in half floats: computed in float32, rounded once") {
  const Tensor scale = Make<float16>({}, {static_cast<float16>(0.1F)});
  const Tensor x = Make<int8_t>({3}, {-128, 1, 127});
  const Tensor y = RunOne(DequantizeLinearOp(), {x, scale});
  REQUIRE(y.dtype() == DType::kFloat16);
  for (size_t i = 0; i < 3; ++i) {
    const float exact = static_cast<float>(x.data<int8_t>()[i]) * static_cast<float>(scale.data<float16>()[0]);
    REQUIRE(y.data<float16>()[i] == static_cast<float16>(exact));
  }
  const Tensor wide = RunOne(DequantizeLinearOp(), {x, scale}, {{{"output_dtype", int64_t{1}}}, 23});
  REQUIRE(wide.data<float>()[2] == 127 * static_cast<float>(scale.data<float16>()[0]));
  REQUIRE(CodeAt(RunOne(QuantizeLinearOp(), {y, scale, Make<int8_t>({}, {0})}), 2) == 127);
}

TEST_CASE("int32 codes dequantize; a zero point other than 0 is refused") {
  const Tensor x = Make<int32_t>({2}, {1 << 30, -3}), scale = Make<float>({}, {0.5F});
  REQUIRE(RunOne(DequantizeLinearOp(), {x, scale, Make<int32_t>({}, {0})}).data<float>()[1] == -1.5F);
  RequireRefused(DequantizeLinearOp(), {x, scale, Make<int32_t>({}, {1})});
}

TEST_CASE("QuantizeLinear and DequantizeLinear give the same bytes for any number of threads") {
  for (DType dtype : {DType::kInt8, DType::kInt4}) {
    const Tensor x = RandomTensor({333, 1001}, 1), scale = Scales({333, 32}, 2), z = RandomBytes(dtype, {333, 32}, 3);
    const OpCall call = {{{"axis", int64_t{1}}, {"block_size", int64_t{32}}}};
    RequireThreadsAgree(QuantizeLinearOp(), {x, scale, z}, call);
    RequireThreadsAgree(DequantizeLinearOp(), {RunOne(QuantizeLinearOp(), {x, scale, z}, call), scale, z}, call);
  }
}

TEST_CASE("Q/DQ refuse scales and types that don't fit") {
  const Tensor x = RandomBytes(DType::kInt8, {4, 6}, 1), f = RandomTensor({4, 6}, 1);
  const int64_t block = 2;
  for (const Dims& dims : {Dims{5}, Dims{4, 6}, Dims{0}, Dims{1, 1}})
    RequireRefused(DequantizeLinearOp(), {x, Scales(dims, 1)});
  RequireRefused(DequantizeLinearOp(), {x, Scales({4, 2}, 1)}, {{{"axis", int64_t{1}}, {"block_size", block}}});
  RequireRefused(DequantizeLinearOp(), {x, Scales({6}, 1)}, {{{"axis", int64_t{1}}, {"block_size", block}}});
  RequireRefused(DequantizeLinearOp(), {x, Scales({6}, 1)}, {{{"axis", int64_t{2}}}});
  RequireRefused(DequantizeLinearOp(), {x, Scales({6}, 1)}, {{{"axis", std::numeric_limits<int64_t>::min()}}});
  RequireRefused(DequantizeLinearOp(), {x, Scales({6}, 1)}, {{{"block_size", int64_t{-1}}}});
  RequireRefused(DequantizeLinearOp(), {x, Scales({6}, 1), Make<int8_t>({5}, {0, 0, 0, 0, 0})});
  RequireRefused(DequantizeLinearOp(), {x, Scales({}, 1), Make<uint8_t>({}, {0})});
  RequireRefused(DequantizeLinearOp(), {f, Scales({}, 1)});
  RequireRefused(DequantizeLinearOp(), {x, Make<int8_t>({}, {1})});
  RequireRefused(QuantizeLinearOp(), {f, Scales({}, 1), Make<int32_t>({}, {1})});
  RequireRefused(QuantizeLinearOp(), {f, Scales({}, 1), Make<int8_t>({}, {1})}, {{{"output_dtype", int64_t{2}}}});
  RequireRefused(QuantizeLinearOp(), {f, Scales({}, 1)}, {{{"output_dtype", int64_t{1} << 40}}});
}

TEST_CASE("DynamicQuantizeLinear") {
  const auto outputs = RunOp(DynamicQuantizeLinearOp(), {Make<float>({4}, {-1, 0, 1.5F, 4})}, {{}, 21, 3});
  REQUIRE(outputs.ok());
  REQUIRE((*outputs)[1].data<float>()[0] == 5.0F / 255);
  REQUIRE((*outputs)[2].data<uint8_t>()[0] == 51);
  REQUIRE(CodeAt((*outputs)[0], 0) == 0);
  REQUIRE(CodeAt((*outputs)[0], 1) == 51);
  REQUIRE(CodeAt((*outputs)[0], 3) == 255);
  REQUIRE(RunOp(DynamicQuantizeLinearOp(), {Make<float>({2}, {0, 0})}, {{}, 21, 3}).ok());
  REQUIRE(RunOp(DynamicQuantizeLinearOp(), {Make<float>({2}, {std::numeric_limits<float>::infinity(), std::nanf("")})},
                {{}, 21, 3})
              .ok());
}

TEST_CASE("MatMulInteger is exact") {
  const Tensor a = RandomBytes(DType::kUint8, {2, 5, 37}, 1), b = RandomBytes(DType::kInt8, {37, 6}, 2);
  const Tensor row_zeros = RandomBytes(DType::kUint8, {5}, 3), column_zeros = RandomBytes(DType::kInt8, {6}, 4);
  const Tensor y = RunOne(MatMulIntegerOp(), {a, b, row_zeros, column_zeros});
  for (int64_t i = 0; i < 60; ++i) {
    const int64_t row = i / 6, column = i % 6;
    int64_t sum = 0;
    for (int64_t k = 0; k < 37; ++k) {
      sum += (CodeAt(a, row * 37 + k) - CodeAt(row_zeros, row % 5)) *
             (CodeAt(b, k * 6 + column) - CodeAt(column_zeros, column));
    }
    REQUIRE(y.data<int32_t>()[static_cast<size_t>(i)] == sum);
  }
  RequireRefused(MatMulIntegerOp(), {a, b, RandomBytes(DType::kUint8, {4}, 1)});
  RequireRefused(MatMulIntegerOp(), {a, b, RandomBytes(DType::kInt8, {}, 1)});
}

namespace {

struct NBits {
  int64_t k, n, block, bits;
  int64_t blocks() const { return (k + block - 1) / block; }
  AttributeList attributes() const { return {{"K", k}, {"N", n}, {"block_size", block}, {"bits", bits}}; }
};

int64_t BitsAt(const uint8_t* bytes, int64_t bit, int64_t count) {
  int64_t value = 0;
  for (int64_t b = 0; b < count; ++b) value |= static_cast<int64_t>(bytes[(bit + b) / 8] >> ((bit + b) % 8) & 1) << b;
  return value;
}

// The definition, one weight at a time. `zero_points` may be undefined, packed or float; `groups` may be undefined.
std::vector<double> PlainNBits(const NBits& p, const Tensor& a, const Tensor& b, const Tensor& scales,
                               const Tensor& zero_points, const Tensor& groups) {
  std::vector<double> y;
  const int64_t row_zero_bytes = (p.blocks() * p.bits + 7) / 8;
  for (int64_t r = 0; r < a.size() / p.k; ++r) {
    for (int64_t n = 0; n < p.n; ++n) {
      double sum = 0;
      for (int64_t k = 0; k < p.k; ++k) {
        const int64_t block = groups.defined() ? groups.data<int32_t>()[static_cast<size_t>(k)] : k / p.block;
        double zero = static_cast<double>(int64_t{1} << (p.bits - 1));
        if (zero_points.dtype() == DType::kUint8) {
          zero = static_cast<double>(
              BitsAt(zero_points.data<uint8_t>().data() + n * row_zero_bytes, block * p.bits, p.bits));
        } else if (zero_points.defined()) {
          zero = zero_points.data<float>()[static_cast<size_t>(n * p.blocks() + block)];
        }
        const int64_t bit = (n * p.blocks() * p.block + k) * p.bits;
        const double code = static_cast<double>(BitsAt(b.data<uint8_t>().data(), bit, p.bits));
        const double weight = (code - zero) * scales.data<float>()[static_cast<size_t>(n * p.blocks() + block)];
        sum += a.data<float>()[static_cast<size_t>(r * p.k + k)] * weight;
      }
      y.push_back(sum);
    }
  }
  return y;
}

}  // namespace

TEST_CASE("MatMulNBits equals its definition over bits, blocks, tails, zero points and rows") {
  uint32_t seed = 1;
  for (int64_t bits : {2, 4, 8}) {
    for (const auto& [k, block] :
         std::vector<std::pair<int64_t, int64_t>>{{1, 16}, {33, 32}, {64, 32}, {100, 128}, {250, 16}, {300, 64}}) {
      for (int64_t n : {1, 7, 200}) {
        for (int64_t rows : {1, 5}) {
          const NBits p = {k, n, block, bits};
          const Tensor a = RandomTensor({rows, k}, ++seed), scales = RandomTensor({n, p.blocks()}, ++seed);
          const Tensor b = RandomBytes(DType::kUint8, {n, p.blocks(), block * bits / 8}, ++seed);
          const Tensor packed = RandomBytes(DType::kUint8, {n, (p.blocks() * bits + 7) / 8}, ++seed);
          const Tensor floats = RandomTensor({n, p.blocks()}, ++seed);
          Tensor groups = Tensor::Allocate(DType::kInt32, {k});
          for (int32_t& g : groups.mutable_data<int32_t>())
            g = static_cast<int32_t>(++seed % static_cast<uint32_t>(p.blocks()));
          for (const Tensor& zero_points : {Tensor(), packed, floats}) {
            for (const Tensor& g : {Tensor(), groups}) {
              const Tensor y = RunOne(MatMulNBitsOp(), {a, b, scales, zero_points, g}, {p.attributes()});
              REQUIRE(y.dims() == Dims{rows, n});
              RequireClose<float>(y, PlainNBits(p, a, b, scales, zero_points, g), 2e-6);
            }
          }
        }
      }
    }
  }
}

TEST_CASE("MatMulNBits adds a bias, takes half floats, and gives the same bytes for any number of threads") {
  const NBits p = {96, 333, 32, 4};
  const Tensor a = RandomTensor({2, 3, 96}, 1), scales = RandomTensor({333, 3}, 2), bias = RandomTensor({333}, 3);
  const Tensor b = RandomBytes(DType::kUint8, {333, 3, 16}, 4);
  std::vector<double> expected = PlainNBits(p, a, b, scales, Tensor(), Tensor());
  for (size_t i = 0; i < expected.size(); ++i) expected[i] += bias.data<float>()[i % 333];
  const Tensor y = RunOne(MatMulNBitsOp(), {a, b, scales, Tensor(), Tensor(), bias}, {p.attributes()});
  REQUIRE(y.dims() == Dims{2, 3, 333});
  RequireClose<float>(y, expected, 2e-6);
  const std::vector<Tensor> half = {CastTo<float16>(a), b,        CastTo<float16>(scales),
                                    Tensor(),           Tensor(), CastTo<float16>(bias)};
  RequireClose<float16>(RunOne(MatMulNBitsOp(), half, {p.attributes()}), expected, 2e-3);
  RequireThreadsAgree(MatMulNBitsOp(), {a, b, scales}, {p.attributes()});
  RequireThreadsAgree(MatMulNBitsOp(), {RandomTensor({1, 96}, 1), b, scales}, {p.attributes()});
}

TEST_CASE("MatMulNBits refuses sizes that don't fit") {
  const Tensor a = RandomTensor({2, 64}, 1), b = RandomBytes(DType::kUint8, {8, 2, 16}, 2),
               scales = RandomTensor({8, 2}, 3);
  const NBits p = {64, 8, 32, 4};
  const auto refused = [&](const char* name, int64_t value) {
    AttributeList attributes = p.attributes();
    attributes.emplace_back(name, value);
    RequireRefused(MatMulNBitsOp(), {a, b, scales}, {attributes});
  };
  REQUIRE(RunOp(MatMulNBitsOp(), {a, b, scales}, {p.attributes()}).ok());
  for (const char* name : {"K", "N", "block_size"}) {
    for (int64_t bad : {int64_t{0}, int64_t{-1}, int64_t{63}, std::numeric_limits<int64_t>::max()}) refused(name, bad);
  }
  for (int64_t bits : {0, 3, 5, 16, -4}) refused("bits", bits);
  refused("weight_prepacked", 1);
  RequireRefused(MatMulNBitsOp(), {a, RandomBytes(DType::kInt8, {8, 2, 16}, 2), scales}, {p.attributes()});
  RequireRefused(MatMulNBitsOp(), {a, b, RandomTensor({8, 3}, 3)}, {p.attributes()});
  RequireRefused(MatMulNBitsOp(), {a, b, scales, RandomBytes(DType::kUint8, {8, 2}, 1)}, {p.attributes()});
  RequireRefused(MatMulNBitsOp(), {a, b, scales, Tensor(), Tensor(), RandomTensor({7}, 1)}, {p.attributes()});
  Tensor groups = Tensor::Allocate(DType::kInt32, {64});
  for (int32_t& g : groups.mutable_data<int32_t>()) g = 2;
  RequireRefused(MatMulNBitsOp(), {a, b, scales, Tensor(), groups}, {p.attributes()});
}

}  // namespace quant
