#include "passes/quant/permuted_tensor.h"

#include "tests/catch.h"

namespace quant {
namespace {

std::vector<int32_t> Numbers(const Tensor& t) {
  const auto made = t.Materialize();
  REQUIRE(made.ok());
  return {made->data<int32_t>().begin(), made->data<int32_t>().end()};
}
Tensor Counted(Dims dims) {
  Tensor t = Tensor::Allocate(DType::kInt32, std::move(dims));
  int32_t next = 0;
  for (int32_t& v : t.mutable_data<int32_t>()) v = next++;
  return t;
}

TEST_CASE("axes of a constant change places") {
  const Tensor t = Permuted(Counted({2, 3}), {1, 0});
  CHECK(t.dims() == Dims{3, 2});
  CHECK(Numbers(t) == std::vector<int32_t>{0, 3, 1, 4, 2, 5});
  CHECK(Numbers(Permuted(Counted({2, 2, 2}), {2, 0, 1})) == std::vector<int32_t>{0, 2, 4, 6, 1, 3, 5, 7});
}

TEST_CASE("nothing is copied where only axes of length 1 move") {
  const Tensor source = Counted({1, 3, 1, 2});
  const Tensor t = Permuted(source, {1, 0, 3, 2});
  CHECK(t.dims() == Dims{3, 1, 2, 1});
  CHECK(t.SharesPayloadWith(source));
}

TEST_CASE("permuting there and back gives the same, over many pieces and none") {
  const Tensor large = Counted({3, 1000, 1001});
  CHECK(Numbers(Permuted(Permuted(large, {2, 0, 1}), {1, 2, 0})) == Numbers(large));
  CHECK(Permuted(Counted({0, 3, 2}), {2, 1, 0}).Materialize()->dims() == Dims{2, 3, 0});
}

}  // namespace
}  // namespace quant
