// Integer products and convolutions against the definition, where ONNX's cases and ONNX Runtime don't reach: all types,
// zero points by row and filter, batches, transposes, sums that wrap around, and inputs that don't fit.
#include <numeric>

#include "libquant/ops/integer_gemm.h"
#include "tests/ops/run_op.h"

namespace quant {
const OpDef& ConvIntegerOp();
const OpDef& DynamicQuantizeMatMulOp();
const OpDef& MatMulIntegerOp();
const OpDef& MatMulIntegerToFloatOp();
const OpDef& QGemmOp();
const OpDef& QLinearConvOp();
const OpDef& QLinearMatMulOp();

namespace {

const std::vector<DType> kTypes = {DType::kUint8, DType::kInt8};

int32_t CodeAt(const Tensor& t, int64_t i) {
  const auto at = static_cast<size_t>(i);
  return t.dtype() == DType::kInt8 ? int32_t{t.data<int8_t>()[at]} : int32_t{t.data<uint8_t>()[at]};
}

Tensor Float(float value) { return Tensor::Scalar(value); }

// Bytes of the extremes alone: sums as large as they get.
Tensor Extremes(DType dtype, Dims dims, uint32_t seed) {
  Tensor t = RandomBytes(dtype, std::move(dims), seed);
  for (std::byte& b : t.mutable_bytes()) {
    const bool high = (static_cast<int>(b) & 1) != 0;
    b = static_cast<std::byte>(dtype == DType::kInt8 ? (high ? 0x7f : 0x80) : (high ? 0xff : 0));
  }
  return t;
}

// One product of matrices m x k and k x n with a zero point for each row and column.
std::vector<int32_t> PlainProduct(const Tensor& a, const Tensor& b, const Tensor& a_zeros, const Tensor& b_zeros) {
  const int64_t m = a.dims()[0], k = a.dims()[1], n = b.dims()[1];
  std::vector<int32_t> out;
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      uint32_t sum = 0;
      for (int64_t p = 0; p < k; ++p) {
        sum += static_cast<uint32_t>((CodeAt(a, i * k + p) - CodeAt(a_zeros, i)) *
                                     (CodeAt(b, p * n + j) - CodeAt(b_zeros, j)));
      }
      out.push_back(static_cast<int32_t>(sum));
    }
  }
  return out;
}

Tensor Transposed(const Tensor& t) {
  const int64_t rows = t.dims()[0], columns = t.dims()[1];
  Tensor out = Tensor::Allocate(t.dtype(), {columns, rows});
  for (int64_t i = 0; i < rows * columns; ++i) {
    out.mutable_bytes()[static_cast<size_t>(i % columns * rows + i / columns)] = t.bytes()[static_cast<size_t>(i)];
  }
  return out;
}

std::vector<int32_t> Ints32(const Tensor& t) { return {t.data<int32_t>().begin(), t.data<int32_t>().end()}; }

}  // namespace

TEST_CASE("Integer products of any size, type and layout are exact") {
  uint32_t seed = 1;
  for (const GemmSize& size : {GemmSize{1, 1, 1}, GemmSize{6, 16, 2}, GemmSize{7, 17, 3}, GemmSize{13, 33, 511},
                               GemmSize{5, 16, 512}, GemmSize{2, 40, 1025}, GemmSize{100, 300, 9}}) {
    for (DType left : kTypes) {
      for (DType right : kTypes) {
        const Tensor a = RandomBytes(left, {size.m, size.k}, ++seed), b = Extremes(right, {size.k, size.n}, ++seed);
        const Tensor a_zeros = RandomBytes(left, {size.m}, ++seed), b_zeros = RandomBytes(right, {size.n}, ++seed);
        const auto want = PlainProduct(a, b, a_zeros, b_zeros);
        CHECK(Ints32(RunOne(MatMulIntegerOp(), {a, b, a_zeros, b_zeros})) == want);
        std::vector<int32_t> rows, columns, got(want.size());
        for (int64_t i = 0; i < size.m; ++i) rows.push_back(CodeAt(a_zeros, i));
        for (int64_t j = 0; j < size.n; ++j) columns.push_back(CodeAt(b_zeros, j));
        const Tensor ta = Transposed(a), tb = Transposed(b);
        IntegerTile(size, {ta.data<uint8_t>().data(), size.m, true, left == DType::kInt8, rows.data(), 1},
                    {tb.data<uint8_t>().data(), size.k, true, right == DType::kInt8, columns.data(), 1}, got.data(),
                    size.n);
        CHECK(got == want);
      }
    }
  }
}

TEST_CASE("Integer sums wrap around") {
  constexpr int64_t kLength = 40000;  // 255 * 255 * 40000 is above 2^31
  const Tensor a = Extremes(DType::kUint8, {1, kLength}, 1), zero = Make<uint8_t>({1}, {255});
  std::vector<uint8_t> full(static_cast<size_t>(kLength), 255);
  const Tensor b = Make<uint8_t>({kLength, 1}, full), ones = Make<uint8_t>({1, kLength}, full);
  const Tensor none = Make<uint8_t>({1}, {0});
  CHECK(Ints32(RunOne(MatMulIntegerOp(), {ones, b})) == PlainProduct(ones, b, none, none));
  CHECK(Ints32(RunOne(MatMulIntegerOp(), {ones, b}))[0] < 0);
  CHECK(Ints32(RunOne(MatMulIntegerOp(), {a, b, zero, zero})) == std::vector<int32_t>{0});
}

TEST_CASE("Zero points of MatMulInteger may differ by matrix") {
  const Tensor a = RandomBytes(DType::kInt8, {2, 3, 4, 5}, 1), b = RandomBytes(DType::kUint8, {2, 1, 5, 6}, 2);
  const auto part = [](const Tensor& t, int64_t i, const Dims& dims) {
    return Make<uint8_t>(dims, {reinterpret_cast<const uint8_t*>(t.bytes().data()) + i * Count(dims),
                                reinterpret_cast<const uint8_t*>(t.bytes().data()) + (i + 1) * Count(dims)});
  };
  const auto typed = [&](const Tensor& t, int64_t i, const Dims& dims) {
    const Tensor bytes = part(t, i, dims);
    Tensor out = Tensor::Allocate(t.dtype(), dims);
    std::copy(bytes.bytes().begin(), bytes.bytes().end(), out.mutable_bytes().begin());
    return out;
  };
  // By matrix and row; for a vector and for rows in a row, the same for all matrices.
  for (const Dims& dims : {Dims{2, 3, 4, 1}, Dims{1, 3, 1, 1}, Dims{4, 1}, Dims{4}, Dims{1, 1, 1, 1}, Dims{}}) {
    const Tensor a_zeros = RandomBytes(DType::kInt8, dims, 3), b_zeros = RandomBytes(DType::kUint8, {2, 1, 1, 6}, 4);
    const auto got = Ints32(RunOne(MatMulIntegerOp(), {a, b, a_zeros, b_zeros}));
    for (int64_t i = 0; i < 6; ++i) {
      Tensor rows = Tensor::Allocate(DType::kInt8, {4});
      for (int64_t r = 0; r < 4; ++r) {
        const int64_t at = dims == Dims{2, 3, 4, 1}   ? i * 4 + r
                           : dims == Dims{1, 3, 1, 1} ? i % 3
                           : a_zeros.size() == 4      ? r
                                                      : 0;
        rows.mutable_data<int8_t>()[static_cast<size_t>(r)] = static_cast<int8_t>(CodeAt(a_zeros, at));
      }
      const auto want = PlainProduct(typed(a, i, {4, 5}), typed(b, i / 3, {5, 6}), rows, typed(b_zeros, i / 3, {6}));
      INFO("zero points " << ToString(dims) << ", matrix " << i);
      CHECK(std::vector<int32_t>(got.begin() + i * 24, got.begin() + (i + 1) * 24) == want);
    }
  }
  RequireRefused(MatMulIntegerOp(), {a, b, RandomBytes(DType::kInt8, {3, 3, 4, 1}, 3)});
  RequireRefused(MatMulIntegerOp(), {a, b, RandomBytes(DType::kInt8, {2, 3, 4, 5}, 3)});
  RequireRefused(MatMulIntegerOp(), {a, b, RandomBytes(DType::kInt8, {1, 2, 3, 4, 1}, 3)});
  RequireRefused(MatMulIntegerOp(), {a, b, RandomBytes(DType::kInt8, {0}, 3)});
  RequireRefused(MatMulIntegerOp(), {RandomTensor({2, 2}, 1), b});
}

TEST_CASE("Integer products of nothing are 0") {
  const Tensor empty = RandomBytes(DType::kUint8, {3, 0}, 1), other = RandomBytes(DType::kUint8, {0, 2}, 1);
  CHECK(Ints32(RunOne(MatMulIntegerOp(), {empty, other})) == std::vector<int32_t>(6, 0));
  CHECK(RunOne(MatMulIntegerOp(), {other, RandomBytes(DType::kUint8, {2, 4}, 1)}).dims() == Dims{0, 4});
  const Tensor zero = Make<uint8_t>({}, {7});
  const Tensor y = RunOne(QLinearMatMulOp(), {empty, Float(1), zero, other, Float(1), zero, Float(1), zero});
  CHECK(y.data<uint8_t>()[5] == 7);
  const Tensor floats =
      RunOne(MatMulIntegerToFloatOp(), {empty, other, Float(1), Float(1), {}, {}, RandomTensor({2}, 1)});
  CHECK(floats.data<float>()[3] == RandomTensor({2}, 1).data<float>()[1]);
  CHECK(RunOne(DynamicQuantizeMatMulOp(), {RandomTensor({0, 3}, 1), RandomBytes(DType::kInt8, {3, 2}, 1), Float(1)})
            .dims() == Dims{0, 2});
}

TEST_CASE("QLinearMatMul scales rows and columns and rounds halves to even") {
  const Tensor a = Make<int8_t>({3, 1}, {1, 3, 5}), b = Make<int8_t>({1, 2}, {1, 1});
  const Tensor zero = Make<int8_t>({}, {0});
  const Tensor rows = Make<float>({3}, {0.5F, 0.5F, 1}), columns = Make<float>({2}, {1, 100});
  const Tensor y = RunOne(QLinearMatMulOp(), {a, rows, zero, b, columns, zero, Float(1), zero});
  // 0.5, 1.5 and 5; 50, 150 and 500, which saturate.
  const std::vector<int8_t> want = {0, 50, 2, 127, 5, 127};
  CHECK(std::vector<int8_t>(y.data<int8_t>().begin(), y.data<int8_t>().end()) == want);
  // A scale of 0 and one that isn't a number don't end in undefined conversions.
  for (float bad : {0.0F, std::nanf("")}) {
    CHECK(RunOne(QLinearMatMulOp(), {a, rows, zero, b, columns, zero, Float(bad), zero}).size() == 6);
  }
  RequireRefused(QLinearMatMulOp(), {a, Make<float>({2}, {1, 1}), zero, b, columns, zero, Float(1), zero});
  RequireRefused(QLinearMatMulOp(), {a, rows, zero, b, columns, zero, Make<float>({2}, {1, 1}), zero});
  RequireRefused(QLinearMatMulOp(), {a, rows, zero, b, columns, zero, Float(1), Make<float>({}, {0})});
  const Tensor wide = RandomBytes(DType::kUint8, {90, 700}, 1), weight = RandomBytes(DType::kInt8, {700, 530}, 2);
  RequireThreadsAgree(QLinearMatMulOp(), {wide, Float(0.01F), Make<uint8_t>({}, {100}), weight, Float(0.01F),
                                          Make<int8_t>({}, {3}), Float(1), Make<uint8_t>({}, {128})});
}

namespace {

struct ConvCase {
  Dims x, w;
  int64_t group, stride, pad, dilation;
};

// Two spatial axes of equal stride, pads and dilation.
std::vector<int32_t> PlainConv(const ConvCase& c, const Tensor& x, const Tensor& w, int32_t x_zero,
                               const Tensor& w_zeros) {
  const int64_t kh = c.w[2], kw = c.w[3], per_group = c.w[0] / c.group;
  const auto out = [&](int64_t in, int64_t kernel) {
    return (in + 2 * c.pad - (kernel - 1) * c.dilation - 1) / c.stride + 1;
  };
  std::vector<int32_t> y;
  for (int64_t n = 0; n < c.x[0]; ++n) {
    for (int64_t m = 0; m < c.w[0]; ++m) {
      for (int64_t oh = 0; oh < out(c.x[2], kh); ++oh) {
        for (int64_t ow = 0; ow < out(c.x[3], kw); ++ow) {
          int32_t sum = 0;
          for (int64_t t = 0; t < c.w[1] * kh * kw; ++t) {
            const int64_t channel = m / per_group * c.w[1] + t / (kh * kw);
            const int64_t ih = oh * c.stride - c.pad + t / kw % kh * c.dilation;
            const int64_t iw = ow * c.stride - c.pad + t % kw * c.dilation;
            if (ih < 0 || ih >= c.x[2] || iw < 0 || iw >= c.x[3]) continue;
            const int32_t code = CodeAt(x, ((n * c.x[1] + channel) * c.x[2] + ih) * c.x[3] + iw);
            sum += (code - x_zero) * (CodeAt(w, m * c.w[1] * kh * kw + t) - CodeAt(w_zeros, m));
          }
          y.push_back(sum);
        }
      }
    }
  }
  return y;
}

AttributeList AttributesOf(const ConvCase& c) {
  return {{"group", c.group},
          {"strides", Ints{c.stride, c.stride}},
          {"pads", Ints{c.pad, c.pad, c.pad, c.pad}},
          {"dilations", Ints{c.dilation, c.dilation}}};
}

const std::vector<ConvCase> kConvs = {
    {{2, 3, 8, 7}, {5, 3, 3, 2}, 1, 2, 1, 1},     {{1, 6, 9, 9}, {4, 3, 3, 3}, 2, 1, 2, 2},
    {{1, 20, 5, 6}, {33, 20, 1, 1}, 1, 1, 0, 1},  {{2, 5, 12, 13}, {10, 1, 3, 3}, 5, 2, 1, 1},
    {{1, 2, 20, 20}, {2, 1, 17, 17}, 2, 1, 3, 1},  // more taps than float32 sums hold
    {{1, 2, 17, 18}, {2, 1, 16, 16}, 2, 1, 1, 1},  // almost as many
};

}  // namespace

TEST_CASE("ConvInteger is exact, with zero points by filter") {
  uint32_t seed = 1;
  for (const ConvCase& c : kConvs) {
    for (DType left : kTypes) {
      for (DType right : kTypes) {
        const Tensor x = Extremes(left, c.x, ++seed), w = Extremes(right, c.w, ++seed);
        const Tensor x_zero = RandomBytes(left, {}, ++seed), w_zeros = RandomBytes(right, {c.w[0]}, ++seed);
        const Tensor y = RunOne(ConvIntegerOp(), {x, w, x_zero, w_zeros}, {AttributesOf(c)});
        INFO("weight " << ToString(c.w) << " in " << c.group << " groups");
        CHECK(Ints32(y) == PlainConv(c, x, w, CodeAt(x_zero, 0), w_zeros));
      }
    }
    RequireThreadsAgree(ConvIntegerOp(), {RandomBytes(DType::kUint8, c.x, 1), RandomBytes(DType::kInt8, c.w, 2)},
                        {AttributesOf(c)});
  }
}

TEST_CASE("QLinearConv requantizes sums with zero points and scales by filter") {
  for (const ConvCase& c : kConvs) {
    const Tensor x = RandomBytes(DType::kInt8, c.x, 1), w = RandomBytes(DType::kUint8, c.w, 2);
    const Tensor x_zero = RandomBytes(DType::kInt8, {}, 3), w_zeros = RandomBytes(DType::kUint8, {c.w[0]}, 4);
    Tensor scales = Tensor::Allocate(DType::kFloat, {c.w[0]}), bias = Tensor::Allocate(DType::kInt32, {c.w[0]});
    for (size_t m = 0; m < static_cast<size_t>(c.w[0]); ++m) {
      scales.mutable_data<float>()[m] = 0.01F + 0.001F * static_cast<float>(m);
      bias.mutable_data<int32_t>()[m] = static_cast<int32_t>(m) * 1000 - 2000;
    }
    const float y_scale = 3;
    const Tensor y = RunOne(QLinearConvOp(),
                            {x, Float(0.5F), x_zero, w, scales, w_zeros, Float(y_scale), Make<int8_t>({}, {5}), bias},
                            {AttributesOf(c)});
    const auto sums = PlainConv(c, x, w, CodeAt(x_zero, 0), w_zeros);
    const auto plane = static_cast<size_t>(y.dims()[2] * y.dims()[3]), filters = static_cast<size_t>(c.w[0]);
    REQUIRE(static_cast<size_t>(y.size()) == sums.size());
    for (size_t i = 0; i < sums.size(); ++i) {
      const size_t m = i / plane % filters;
      const float scale = 0.5F * scales.data<float>()[m] / y_scale;
      const float value = std::rint(static_cast<float>(sums[i] + bias.data<int32_t>()[m]) * scale);
      REQUIRE(static_cast<float>(y.data<int8_t>()[i]) == std::clamp(value + 5, -128.0F, 127.0F));
    }
  }
}

TEST_CASE("Convolutions of codes refuse what doesn't fit") {
  const Tensor x = RandomBytes(DType::kUint8, {1, 2, 5, 5}, 1), w = RandomBytes(DType::kInt8, {3, 2, 3, 3}, 2);
  const Tensor x_zero = RandomBytes(DType::kUint8, {}, 3), w_zero = RandomBytes(DType::kInt8, {}, 4);
  RequireRefused(ConvIntegerOp(), {x, w, RandomBytes(DType::kUint8, {2}, 1)});
  RequireRefused(ConvIntegerOp(), {x, w, w_zero});
  RequireRefused(ConvIntegerOp(), {x, w, x_zero, RandomBytes(DType::kInt8, {2}, 1)});
  RequireRefused(ConvIntegerOp(), {x, w, x_zero, RandomBytes(DType::kInt8, {1, 3}, 1)});
  RequireRefused(ConvIntegerOp(), {x, RandomTensor({3, 2, 3, 3}, 1)});
  RequireRefused(ConvIntegerOp(), {x, w}, {{{"group", int64_t{2}}}});
  const auto with = [&](size_t i, const Tensor& t) {
    std::vector<Tensor> inputs = {x, Float(1), x_zero, w, Float(1), w_zero, Float(1), x_zero};
    inputs.resize(std::max(inputs.size(), i + 1));
    inputs[i] = t;
    return inputs;
  };
  REQUIRE(RunOp(QLinearConvOp(), with(0, x)).ok());
  RequireRefused(QLinearConvOp(), with(1, Make<float>({2}, {1, 1})));
  RequireRefused(QLinearConvOp(), with(4, Make<float>({2}, {1, 1})));
  RequireRefused(QLinearConvOp(), with(6, Make<float>({0}, {})));
  RequireRefused(QLinearConvOp(), with(7, Make<int32_t>({}, {0})));
  RequireRefused(QLinearConvOp(), with(8, Make<int32_t>({2}, {0, 0})));
  RequireRefused(QLinearConvOp(), with(8, Make<float>({3}, {0, 0, 0})));
}

TEST_CASE("QGemm adds before it scales and refuses what doesn't fit") {
  const Tensor a = Make<uint8_t>({1, 2}, {3, 4}), b = Make<int8_t>({2, 1}, {10, -1}), zero = Make<uint8_t>({}, {1});
  const Tensor b_zero = Make<int8_t>({}, {0}), c = Make<int32_t>({1}, {100});
  // (2 * 10 - 3 * 1 + 100) * 0.5 * 2 * 0.25
  const Tensor y = RunOne(QGemmOp(), {a, Float(0.5F), zero, b, Float(2), b_zero, c}, {{{"alpha", 0.25F}}});
  CHECK(y.data<float>()[0] == 117 * 0.25F);
  const Tensor q = RunOne(QGemmOp(), {a, Float(0.5F), zero, b, Float(2), b_zero, c, Float(2), zero});
  CHECK(q.data<uint8_t>()[0] == 59);  // 58.5 is rounded to 58
  RequireRefused(QGemmOp(), {a, Float(1), zero, {}, Float(1), b_zero});
  RequireRefused(QGemmOp(), {a, Float(1), zero, b, Float(1), b_zero, c, Float(1)});
  RequireRefused(QGemmOp(), {a, Float(1), zero, b, Float(1), b_zero, Make<float>({1}, {1})});
  RequireRefused(QGemmOp(), {a, Float(1), zero, b, Float(1), b_zero, Make<int32_t>({3}, {1, 1, 1})});
  RequireRefused(QGemmOp(), {a, Float(1), zero, b, Make<float>({2}, {1, 1}), b_zero});
  RequireRefused(QGemmOp(), {a, Float(1), zero, b, Float(1), Make<int8_t>({0}, {})});
  RequireRefused(QGemmOp(), {a, Float(1), zero, b, Float(1), b_zero}, {{{"transB", int64_t{1}}}});
}

TEST_CASE("Float results of integer products take scales by column") {
  const Tensor a = RandomBytes(DType::kInt8, {2, 3, 4}, 1), b = RandomBytes(DType::kUint8, {4, 5}, 2);
  const Tensor scales = RandomTensor({5}, 3), bias = RandomTensor({5}, 4), zeros = RandomBytes(DType::kUint8, {5}, 5);
  const Tensor sums = RunOne(MatMulIntegerOp(), {a, b, {}, zeros});
  const Tensor y = RunOne(MatMulIntegerToFloatOp(), {a, b, Float(0.5F), scales, {}, zeros, bias});
  for (size_t i = 0; i < 30; ++i) {
    const float scale = 0.5F * scales.data<float>()[i % 5];
    REQUIRE(y.data<float>()[i] == static_cast<float>(sums.data<int32_t>()[i]) * scale + bias.data<float>()[i % 5]);
  }
  RequireRefused(MatMulIntegerToFloatOp(), {a, b, scales, scales});
  RequireRefused(MatMulIntegerToFloatOp(), {a, b, Float(1), RandomTensor({4}, 1)});
  RequireRefused(MatMulIntegerToFloatOp(), {a, b, Float(1), scales, {}, {}, RandomTensor({4}, 1)});
  RequireRefused(DynamicQuantizeMatMulOp(), {RandomBytes(DType::kUint8, {3, 4}, 1), b, scales});
  RequireRefused(DynamicQuantizeMatMulOp(), {RandomTensor({3, 3}, 1), b, scales});
}

}  // namespace quant
