#include "libquant/ops/gemm.h"

#include "libquant/ops/gemm_kernel.h"
#include "tests/ops/run_op.h"

namespace quant {
const OpDef& GemmOp();
const OpDef& MatMulOp();

namespace {

// A matrix in memory of either order, with rows further apart than they need be.
struct Stored {
  std::vector<float> data;
  MatrixRef<float> ref;
};
Stored Store(int64_t rows, int64_t cols, bool transposed, uint32_t seed) {
  Stored s;
  const int64_t stride = (transposed ? rows : cols) + 3;
  const Tensor t = RandomTensor({(transposed ? cols : rows) * stride}, seed);
  s.data.assign(t.data<float>().begin(), t.data<float>().end());
  s.ref = {s.data.data(), stride, transposed};
  return s;
}

// The definition.
std::vector<double> PlainProduct(const GemmSize& s, const MatrixRef<float>& a, const MatrixRef<float>& b) {
  std::vector<double> out(static_cast<size_t>(s.m * s.n), 0);
  for (int64_t i = 0; i < s.m; ++i) {
    for (int64_t j = 0; j < s.n; ++j) {
      double& sum = out[static_cast<size_t>(i * s.n + j)];
      for (int64_t p = 0; p < s.k; ++p) sum += static_cast<double>(*a.at(i, p)) * *b.at(p, j);
    }
  }
  return out;
}

}  // namespace

TEST_CASE("the product equals its definition for every shape, order and tail") {
  const int64_t sizes[] = {1, 2, 7, 16, 65, 261};
  uint32_t seed = 1;
  for (int64_t m : sizes) {
    for (int64_t n : sizes) {
      for (int64_t k : {1, 5, 8, 33, 100}) {
        const bool ta = seed % 2 == 1, tb = seed / 2 % 2 == 1, add = seed / 4 % 2 == 1;
        ++seed;
        const Stored a = Store(m, k, ta, seed), b = Store(k, n, tb, seed + 1000);
        std::vector<double> expected = PlainProduct({m, n, k}, a.ref, b.ref);
        const int64_t stride = n + (seed % 3 == 0 ? 0 : 5);
        Tensor c = RandomTensor({m * stride}, 7);
        const std::vector<float> before(c.data<float>().begin(), c.data<float>().end());
        GemmBatch<float>({m, n, k}, 1, [&](int64_t) {
          return GemmOperands<float>{a.ref, b.ref, c.mutable_data<float>().data(), stride, add};
        });
        for (int64_t i = 0; i < m; ++i) {
          for (int64_t j = 0; j < stride; ++j) {
            const auto at = static_cast<size_t>(i * stride + j);
            const double was = before[at];
            const double want = j >= n ? was : expected[static_cast<size_t>(i * n + j)] + (add ? was : 0);
            const double tolerance = j >= n ? 0 : 3e-6 * std::sqrt(static_cast<double>(k)) * 10;
            INFO(m << "x" << n << "x" << k << " ta " << ta << " tb " << tb << " add " << add << " at " << i << ","
                   << j);
            if (std::abs(c.data<float>()[at] - want) > tolerance) REQUIRE(c.data<float>()[at] == want);
          }
        }
      }
    }
  }
}

TEST_CASE("kernels of every width give the bytes of one chain of multiply-adds") {
  const int64_t depth = 77, stride = 35;
  const Tensor a = RandomTensor({depth * kKernelRows}, 1), b = RandomTensor({depth * stride}, 2);
  const Tensor start = RandomTensor({kKernelRows * stride}, 3);
  for (const GemmKernel& kernel : RunnableGemmKernels()) {
    for (int64_t rows = 1; rows <= kKernelRows; ++rows) {
      for (bool add : {false, true}) {
        std::vector<float> c(start.data<float>().begin(), start.data<float>().end());
        kernel.by_rows[rows - 1](depth, a.data<float>().data(), b.data<float>().data(), stride, c.data(), stride, add);
        for (int64_t i = 0; i < kKernelRows; ++i) {
          for (int64_t j = 0; j < stride; ++j) {
            const auto at = static_cast<size_t>(i * stride + j);
            float want = start.data<float>()[at];
            if (i < rows && j < kernel.columns) {
              float sum = 0;
              for (int64_t p = 0; p < depth; ++p) {
                sum = std::fma(a.data<float>()[static_cast<size_t>(p * kKernelRows + i)],
                               b.data<float>()[static_cast<size_t>(p * stride + j)], sum);
              }
              want = add ? want + sum : sum;
            }
            REQUIRE(c[at] == want);
          }
        }
      }
    }
  }
}

TEST_CASE("a sum over nothing is zero, or what it is added to") {
  std::vector<float> c = {1, 2, 3, 4};
  const float unused = 0;
  GemmBatch<float>({2, 2, 0}, 1, [&](int64_t) {
    return GemmOperands<float>{{&unused, 1}, {&unused, 1}, c.data(), 2, true};
  });
  REQUIRE(c == std::vector<float>{1, 2, 3, 4});
  GemmBatch<float>({2, 2, 0}, 1, [&](int64_t) {
    return GemmOperands<float>{{&unused, 1}, {&unused, 1}, c.data(), 2, false};
  });
  REQUIRE(c == std::vector<float>{0, 0, 0, 0});
}

TEST_CASE("MatMul gives the same bytes for any number of threads") {
  for (int64_t m : {1, 3, 700})
    RequireThreadsAgree(MatMulOp(), {RandomTensor({m, 333}, 1), RandomTensor({333, 1500}, 2)});
  RequireThreadsAgree(MatMulOp(), {RandomTensor({5, 2, 40, 70}, 1), RandomTensor({2, 70, 300}, 2)});
}

TEST_CASE("MatMul broadcasts batches and takes vectors") {
  const Tensor a = RandomTensor({3, 1, 4, 5}, 1), b = RandomTensor({2, 5, 6}, 2);
  const Tensor y = RunOne(MatMulOp(), {a, b});
  REQUIRE(y.dims() == Dims{3, 2, 4, 6});
  std::vector<double> expected;
  for (int64_t i = 0; i < 3; ++i) {
    for (int64_t j = 0; j < 2; ++j) {
      const auto part =
          PlainProduct({4, 6, 5}, {a.data<float>().data() + i * 20, 5}, {b.data<float>().data() + j * 30, 6});
      expected.insert(expected.end(), part.begin(), part.end());
    }
  }
  RequireClose<float>(y, expected, 1e-6);
  REQUIRE(RunOne(MatMulOp(), {RandomTensor({5}, 1), b}).dims() == Dims{2, 6});
  REQUIRE(RunOne(MatMulOp(), {a, RandomTensor({5}, 1)}).dims() == Dims{3, 1, 4});
  REQUIRE(RunOne(MatMulOp(), {RandomTensor({5}, 1), RandomTensor({5}, 2)}).dims().empty());
  REQUIRE(RunOne(MatMulOp(), {RandomTensor({0, 5}, 1), RandomTensor({5, 3}, 2)}).dims() == Dims{0, 3});
}

TEST_CASE("MatMul of half floats computes in float32 and rounds once; of integers it is exact") {
  const Tensor a = CastTo<float16>(RandomTensor({9, 64}, 1)), b = CastTo<float16>(RandomTensor({64, 11}, 2));
  const Tensor y = RunOne(MatMulOp(), {a, b});
  std::vector<double> expected;
  for (size_t i = 0; i < 9; ++i) {
    for (size_t j = 0; j < 11; ++j) {
      double sum = 0;
      for (size_t k = 0; k < 64; ++k)
        sum += static_cast<double>(a.data<float16>()[i * 64 + k]) * static_cast<double>(b.data<float16>()[k * 11 + j]);
      expected.push_back(sum);
    }
  }
  RequireClose<float16>(y, expected, 1.0 / 2048);
  const int64_t big = int64_t{1} << 40;
  const Tensor exact = RunOne(MatMulOp(), {Make<int64_t>({1, 2}, {big, 3}), Make<int64_t>({2, 1}, {5, -7})});
  REQUIRE(exact.data<int64_t>()[0] == 5 * big - 21);
}

TEST_CASE("Gemm scales, transposes and adds") {
  uint32_t seed = 1;
  for (int64_t ta : {0, 1}) {
    for (int64_t tb : {0, 1}) {
      for (float alpha : {1.0F, 0.5F}) {
        for (const Dims& c_dims : {Dims{}, Dims{1}, Dims{7}, Dims{1, 7}, Dims{5, 1}, Dims{5, 7}}) {
          const Tensor a = RandomTensor(ta != 0 ? Dims{9, 5} : Dims{5, 9}, ++seed);
          const Tensor b = RandomTensor(tb != 0 ? Dims{7, 9} : Dims{9, 7}, ++seed);
          const Tensor c = RandomTensor(c_dims, ++seed);
          std::vector<double> expected = PlainProduct({5, 7, 9}, {a.data<float>().data(), a.dims()[1], ta != 0},
                                                      {b.data<float>().data(), b.dims()[1], tb != 0});
          for (size_t i = 0; i < 35; ++i) {
            const size_t row = c_dims.size() == 2 && c_dims[0] == 5 ? i / 7 : 0;
            const size_t cols = c_dims.empty() ? 1 : static_cast<size_t>(c_dims.back());
            expected[i] = alpha * expected[i] + 2.0 * c.data<float>()[row * cols + (cols == 7 ? i % 7 : 0)];
          }
          const Tensor y =
              RunOne(GemmOp(), {a, b, c}, {{{"transA", ta}, {"transB", tb}, {"alpha", alpha}, {"beta", 2.0F}}});
          RequireClose<float>(y, expected, 1e-6);
        }
      }
    }
  }
}

TEST_CASE("MatMul and Gemm refuse what does not fit") {
  RequireRefused(MatMulOp(), {RandomTensor({2, 3}, 1), RandomTensor({2, 3}, 1)});
  RequireRefused(MatMulOp(), {RandomTensor({}, 1), RandomTensor({2, 3}, 1)});
  RequireRefused(MatMulOp(), {RandomTensor({2, 4, 3}, 1), RandomTensor({3, 3, 2}, 1)});
  RequireRefused(MatMulOp(), {RandomTensor({2, 3}, 1), Make<double>({3, 1}, {1, 2, 3})});
  RequireRefused(GemmOp(), {RandomTensor({2, 3}, 1), RandomTensor({2, 3}, 1)});
  RequireRefused(GemmOp(), {RandomTensor({2, 3}, 1), RandomTensor({3, 4}, 1), RandomTensor({3}, 1)});
  RequireRefused(GemmOp(), {RandomTensor({2, 3, 1}, 1), RandomTensor({3, 4}, 1)});
}

}  // namespace quant
