#include "libquant/model/signature.h"

#include "tests/catch.h"

namespace quant {
namespace {

TEST_CASE("a signature has the types of the definition that the opset brings") {
  const auto old_conv = SignatureOf("", "Conv", 21), conv = SignatureOf("ai.onnx", "Conv", 22);
  REQUIRE(old_conv.has_value());
  REQUIRE(conv.has_value());
  CHECK(old_conv->Input(0)->Takes(DType::kFloat16));
  CHECK_FALSE(old_conv->Input(0)->Takes(DType::kBfloat16));
  CHECK(conv->Input(0)->Takes(DType::kBfloat16));
  CHECK(conv->Input(3) == nullptr);
  CHECK(conv->Output(0)->variable == "T");
}

TEST_CASE("fixed types, variadic and heterogeneous parameters, sequences") {
  const auto resize = SignatureOf("", "Resize", 19);
  CHECK(resize->Input(2)->fixed);
  CHECK(resize->Input(2)->tensors == std::vector<DType>{DType::kFloat});
  const auto concat = SignatureOf("", "Concat", 13);
  CHECK(concat->Input(7)->variable == "T");
  CHECK_FALSE(concat->Input(7)->heterogeneous);
  CHECK(SignatureOf("", "Loop", 13)->Input(5)->heterogeneous);
  CHECK(SignatureOf("", "SequenceAt", 11)->Input(0)->others);
}

TEST_CASE("our rows of com.microsoft are there; unknown operators are not") {
  CHECK(SignatureOf("com.microsoft", "FastGelu", 1).has_value());
  CHECK_FALSE(SignatureOf("", "Nonsense", 21).has_value());
  CHECK_FALSE(SignatureOf("", "Gelu", 19).has_value());
}

}  // namespace
}  // namespace quant
