#include "passes/convert/decompose.h"

#include "libquant/model/check.h"
#include "libquant/model/text.h"
#include "passes/convert/to_half.h"
#include "tests/catch.h"

namespace quant {
namespace {

Status Decomposed(const std::string& op_type, const std::string& graph) {
  auto model = ParseModelText("<ir_version: 10, opset_import: [\"\": 21]>\n" + graph);
  REQUIRE(model.ok());
  REQUIRE(InferShapes(*model).ok());
  return DecomposeOperators(*model, {{op_type}, std::nullopt}).status();
}

TEST_CASE("an axis that no rank has is not followed") {
  for (const char* axis : {"-9223372036854775808", "-65", "9223372036854775807"}) {
    const std::string graph =
        fmt::format("g (float[] x, float[3] s) => (float[] y) {{ y = LayerNormalization<axis = {}>(x, s) }}", axis);
    const int code = ExitCode(Decomposed("LayerNormalization", graph));
    CHECK((code == 0 || code == 4));  // ONNX's body takes any axis; what counts is that it returns
  }
}

TEST_CASE("AffineGrid of one image stays, as ONNX's body of it does not run") {
  const auto graph = [](int batch) {
    return fmt::format("g (float[{0},2,3] x) => (float[] y) <int64[4] s = {{{0}, 1, 2, 4}}> {{ y = AffineGrid(x, s) }}",
                       batch);
  };
  const Status one = Decomposed("AffineGrid", graph(1));
  CHECK(ExitCode(one) == 4);
  CHECK(Message(one).find("a batch of 1") != std::string::npos);
  CHECK(Decomposed("AffineGrid", graph(2)).ok());
}

TEST_CASE("LayerNormalization with a scale of other dims than it normalizes is not left to ONNX's body") {
  const auto graph = [](const char* dims) {
    return fmt::format(
        "g (float[5,5] x, float[5] s, float[{}] b) => (float[5,5] y) {{ y = LayerNormalization(x, s, b) }}", dims);
  };
  CHECK(Decomposed("LayerNormalization", graph("5")).ok());
  const int code = ExitCode(Decomposed("LayerNormalization", graph("5,5")));
  CHECK((code == 0 || code == 4));  // our own rule may take it
}

TEST_CASE("types that contradict each other are not made half") {
  auto model = ParseModelText(R"(<ir_version: 10, opset_import: ["": 21]>
    g (float[2] x) => (float16[2] y, float[2] z) { y = Cast<to = 1>(x)  z = Sum(x, x, y) })");
  REQUIRE(model.ok());
  (void)InferShapes(*model);
  HalfOptions options;
  options.type = DType::kFloat16;
  CHECK(ExitCode(ConvertToHalf(*model, options).status()) == 3);
}

}  // namespace
}  // namespace quant
