#include "tests/ops/run_op.h"

namespace quant {
const OpDef& GatherBlockQuantizedOp();

namespace {

const OpDef& Op() { return GatherBlockQuantizedOp(); }

OpCall With(int64_t bits, int64_t block) { return {{{"bits", bits}, {"block_size", block}}, 1}; }

// Code i of bytes that hold codes of `bits` bits, low bits first.
int CodeAt(const Tensor& t, int bits, int64_t i) {
  const auto byte = static_cast<int>(t.bytes()[static_cast<size_t>(i * bits / 8)]);
  return byte >> (i * bits % 8) & ((1 << bits) - 1);
}

}  // namespace

TEST_CASE("GatherBlockQuantized of uint8 tables packs codes and zero points by rows") {
  for (int bits : {2, 4, 8}) {
    for (bool with_zero_points : {false, true}) {
      const int64_t rows = 5, columns = 40, blocks = 3, zero_point_bytes = (blocks * bits + 7) / 8;
      const Tensor data = RandomBytes(DType::kUint8, {rows, columns * bits / 8}, 1);
      const Tensor scales = RandomTensor({rows, blocks}, 2);
      const Tensor zero_points = with_zero_points ? RandomBytes(DType::kUint8, {rows, zero_point_bytes}, 3) : Tensor();
      const std::vector<int64_t> picks = {4, 0, -1, 2};
      std::vector<double> want;
      for (int64_t pick : picks) {
        const int64_t row = pick < 0 ? pick + rows : pick;
        for (int64_t c = 0; c < columns; ++c) {
          const int64_t b = c / 16;
          const int zero_point =
              with_zero_points ? CodeAt(zero_points, bits, row * zero_point_bytes * 8 / bits + b) : 1 << (bits - 1);
          want.push_back((CodeAt(data, bits, row * columns + c) - zero_point) *
                         static_cast<double>(scales.data<float>()[static_cast<size_t>(row * blocks + b)]));
        }
      }
      const Tensor y = RunOne(Op(), {data, Make<int64_t>({2, 2}, picks), scales, zero_points}, With(bits, 16));
      REQUIRE(y.dims() == Dims{2, 2, columns});
      RequireClose<float>(y, want, 1e-7);
    }
  }
}

TEST_CASE("GatherBlockQuantized of int4 tables along any pair of axes") {
  const Dims dims = {3, 20, 5};
  const Tensor data = RandomBytes(DType::kInt4, dims, 1);
  for (int64_t quantize_axis : {0, 1, 2}) {
    Dims scale_dims = dims;
    scale_dims[static_cast<size_t>(quantize_axis)] = (dims[static_cast<size_t>(quantize_axis)] + 15) / 16;
    const Tensor scales = RandomTensor(scale_dims, 2);
    const Tensor zero_points = RandomBytes(DType::kInt4, scale_dims, 3);
    const auto code = [](const Tensor& t, int64_t i) { return (CodeAt(t, 4, i) ^ 8) - 8; };
    for (int64_t gather_axis : {0, 1, 2}) {
      std::vector<double> want;
      Dims out = dims;
      out[static_cast<size_t>(gather_axis)] = 2;
      for (int64_t i = 0; i < Count(out); ++i) {
        Dims at = {i / (out[1] * out[2]), i / out[2] % out[1], i % out[2]};
        int64_t& picked = at[static_cast<size_t>(gather_axis)];
        picked = picked == 0 ? 2 : 1;
        Dims block = at;
        block[static_cast<size_t>(quantize_axis)] /= 16;
        const int64_t s = (block[0] * scale_dims[1] + block[1]) * scale_dims[2] + block[2];
        want.push_back((code(data, (at[0] * dims[1] + at[1]) * dims[2] + at[2]) - code(zero_points, s)) *
                       static_cast<double>(scales.data<float>()[static_cast<size_t>(s)]));
      }
      const OpCall call = {
          {{"gather_axis", gather_axis}, {"quantize_axis", quantize_axis}, {"block_size", int64_t{16}}}, 1};
      const Tensor y = RunOne(Op(), {data, Make<int32_t>({2}, {2, 1}), scales, zero_points}, call);
      REQUIRE(y.dims() == out);
      RequireClose<float>(y, want, 1e-7);
    }
  }
}

TEST_CASE("GatherBlockQuantized takes a missing int4 zero point as 0 and answers in the scales' type") {
  const Tensor data = RandomBytes(DType::kUint4, {2, 16}, 1);
  const Tensor y = RunOne(Op(), {data, Make<int64_t>({}, {1}), CastTo<float16>(Make<float>({2, 1}, {1, 0.5F}))});
  REQUIRE(y.dtype() == DType::kFloat16);
  REQUIRE(y.dims() == Dims{16});
  for (int64_t i = 0; i < 16; ++i) {
    REQUIRE(static_cast<float>(y.data<float16>()[static_cast<size_t>(i)]) ==
            0.5F * static_cast<float>(CodeAt(data, 4, 16 + i)));
  }
}

TEST_CASE("GatherBlockQuantized refuses what does not fit") {
  const Tensor data = RandomBytes(DType::kUint8, {4, 16}, 1), scales = RandomTensor({4, 2}, 2);
  const Tensor one = Make<int64_t>({1}, {1});
  RunOne(Op(), {data, one, scales}, With(4, 16));
  RequireRefused(Op(), {data, Make<int64_t>({1}, {4}), scales}, With(4, 16));
  RequireRefused(Op(), {data, Make<int64_t>({1}, {-5}), scales}, With(4, 16));
  RequireRefused(Op(), {data, one, scales}, With(8, 16));
  RequireRefused(Op(), {data, one, scales}, With(3, 16));
  RequireRefused(Op(), {data, one, scales}, With(4, 15));
  RequireRefused(Op(), {data, one, scales}, With(4, 0));
  RequireRefused(Op(), {data, one, RandomTensor({8}, 2)}, With(4, 16));
  RequireRefused(Op(), {data, one, scales, RandomBytes(DType::kUint8, {4, 2}, 2)}, With(4, 16));
  RequireRefused(Op(), {data, one, scales, RandomBytes(DType::kUint4, {4, 2}, 2)}, With(4, 16));
  RequireRefused(Op(), {RandomBytes(DType::kInt8, {4, 16}, 1), one, scales}, With(4, 16));
  RequireRefused(Op(), {RandomBytes(DType::kUint8, {}, 1), one, scales}, With(4, 16));
  RequireRefused(Op(), {data, one, scales}, {{{"block_size", int64_t{16}}, {"gather_axis", int64_t{1}}}, 1});
  std::vector<int64_t> picks(200);
  for (size_t i = 0; i < picks.size(); ++i) picks[i] = static_cast<int64_t>(i * 7 % 50);
  const Tensor table = RandomBytes(DType::kUint8, {50, 512}, 1);
  RequireThreadsAgree(Op(), {table, Make<int64_t>({200}, picks), RandomTensor({50, 64}, 2)}, With(4, 16));
}

}  // namespace quant
