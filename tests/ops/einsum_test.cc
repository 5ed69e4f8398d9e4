// Einsum: equations that are broken, broadcasting that ONNX Runtime has its own mind about, threads.
#include "tests/ops/run_op.h"

namespace quant {
namespace {

const OpDef& Einsum() { return *FindOp("", "Einsum"); }

OpCall Equation(const std::string& text) { return {.attributes = {{"equation", text}}}; }

Tensor Run(const std::string& equation, const std::vector<Tensor>& inputs) {
  return RunOne(Einsum(), inputs, Equation(equation));
}

const Tensor kMatrix = Make<float>({2, 3}, {1, 2, 3, 4, 5, 6});

TEST_CASE("Einsum refuses equations that say nothing sensible") {
  for (const char* equation : {"", "i", "ijk", "ij->k", "ij->ii", "i1->i", "ij->i->j", "ij,", ",ij", "i..j", "....ij",
                               "...i...->i", "...ij->ij...k", "...i->i", "ii", "ij-", ">", "->ij"}) {
    INFO(equation);
    RequireRefused(Einsum(), {kMatrix}, Equation(equation));
  }
  RequireRefused(Einsum(), {kMatrix, kMatrix}, Equation("ij->ij"));
  RequireRefused(Einsum(), {kMatrix, kMatrix}, Equation("ij,jk->ik"));
  RequireRefused(Einsum(), {kMatrix, CastTo<double>(kMatrix)}, Equation("ij,ij->ij"));
  RequireRefused(Einsum(), {kMatrix}, {});
}

TEST_CASE("Einsum takes spaces, capitals and ellipses of no axes") {
  RequireClose<float>(Run(" i j -> j i ", {kMatrix}), {1, 4, 2, 5, 3, 6}, 0);
  // Capitals come first in an implicit output.
  RequireClose<float>(Run("iJ", {kMatrix}), {1, 4, 2, 5, 3, 6}, 0);
  RequireClose<float>(Run("...ij->...j", {kMatrix}), {5, 7, 9}, 0);
}

TEST_CASE("Einsum broadcasts axes of 1, of letters and of ellipses of different length") {
  const Tensor row = Make<float>({1, 3}, {1, 10, 100});
  RequireClose<float>(Run("ij,ij->ij", {kMatrix, row}), {1, 20, 300, 4, 50, 600}, 0);
  const Tensor stack = Make<float>({2, 1, 2}, {1, 2, 3, 4}), vector = Make<float>({2}, {1, 10});
  const Tensor out = Run("...i,...i->...", {stack, vector});
  CHECK(out.dims() == Dims{2, 1});
  RequireClose<float>(out, {21, 43}, 0);
}

TEST_CASE("Einsum sums over nothing to 0") {
  const Tensor empty = Make<float>({2, 0}, {});
  RequireClose<float>(Run("ij->i", {empty}), {0, 0}, 0);
  RequireClose<float>(Run("ij,jk->ik", {empty, Make<float>({0, 2}, {})}), {0, 0, 0, 0}, 0);
  CHECK(Run("ij->ji", {empty}).dims() == Dims{0, 2});
}

TEST_CASE("Einsum of integers wraps") {
  const Tensor x = Make<int32_t>({2}, {INT32_MAX, 2});
  CHECK(Run("i,i->", {x, x}).data<int32_t>()[0] == 5);
}

TEST_CASE("Einsum refuses a product too large to make") {
  const Tensor x = Make<float>({int64_t{1} << 20}, std::vector<float>(size_t{1} << 20, 1.0F));
  RequireRefused(Einsum(), {x, x, x, x}, Equation("a,b,c,d->abcd"));
}

TEST_CASE("Einsum has the same bytes for any number of threads") {
  RequireThreadsAgree(Einsum(), {RandomTensor({4, 70, 90}, 1), RandomTensor({4, 90, 33}, 2)}, Equation("bij,bjk->kbi"));
  RequireThreadsAgree(Einsum(), {RandomTensor({50, 300}, 3)}, Equation("ij->j"));
}

}  // namespace
}  // namespace quant
