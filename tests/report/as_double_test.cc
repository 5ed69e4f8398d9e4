#include "libquant/report/as_double.h"

#include <cmath>
#include <vector>

#include "tests/catch.h"

namespace quant {
namespace {

TEST_CASE("small floats are read as doubles, packed ones from any element on") {
  Tensor eights = Tensor::Allocate(DType::kFloat8E4M3FN, {3});
  eights.mutable_data<uint8_t>()[0] = 0x38;  // 1
  eights.mutable_data<uint8_t>()[1] = 0xfe;  // -448
  eights.mutable_data<uint8_t>()[2] = 0x7f;  // NaN
  std::vector<double> out(2);
  REQUIRE(ReadAsDouble(eights, 0, out).ok());
  CHECK(out == std::vector<double>{1, -448});
  REQUIRE(ReadAsDouble(eights, 1, out).ok());
  CHECK(std::isnan(out[1]));

  Tensor fours = Tensor::Allocate(DType::kFloat4E2M1, {3});
  fours.mutable_bytes()[0] = std::byte{0xf1};  // 0.5, -6
  fours.mutable_bytes()[1] = std::byte{0x02};  // 1
  REQUIRE(ReadAsDouble(fours, 1, out).ok());
  CHECK(out == std::vector<double>{-6, 1});
}

}  // namespace
}  // namespace quant
