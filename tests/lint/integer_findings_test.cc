// Findings about quantizers.
#include "tests/lint/lint_model.h"

namespace quant {
namespace {

const char* const kOpsets = "\"\": 21";

Model Quantized(const std::string& body, const std::string& constants, const std::string& io) {
  return ModelOf("g " + io + " <float s = {0.1}, uint8 z = {3}, int8 n = {0}, " + constants + "> { " + body + " }",
                 kOpsets, 10);
}

std::string Where(const Model& model, const std::string& id, const std::string& target) {
  const auto found = Found(model, id, target);
  return found.empty() ? "" : fmt::format("{}", fmt::join(found[0].where, "; "));
}

const char* const kWeight = "int8[1,1,1,1] w = {100}, float t = {0.1}";
const char* const kIo = "(float[1,1,4,4] x) => (float[1,1,4,4] y)";
const char* const kWhole = R"(q = QuantizeLinear(x, s, z) d = DequantizeLinear(q, s, z) v = DequantizeLinear(w, t, n)
    c = Conv(d, v) r = Relu(c) e = QuantizeLinear(r, s, z) y = DequantizeLinear(e, s, z))";

TEST_CASE("a node between quantizers fuses") {
  for (const char* target : {"onnxruntime-cpu", "onnxruntime-vnni", "qnn", "portable"}) {
    INFO(target);
    CHECK(Where(Quantized(kWhole, kWeight, kIo), "target.unfused", target).empty());
    CHECK(Where(Quantized(kWhole, kWeight, kIo), "target.quantizer", target).empty());
  }
}

TEST_CASE("a node whose surroundings are partly float does not") {
  const std::string before = "q = QuantizeLinear(x, s, z) d = DequantizeLinear(q, s, z) v = DequantizeLinear(w, t, n) ";
  // Its output stays float.
  CHECK(Where(Quantized(before + "y = Conv(d, v)", kWeight, kIo), "target.unfused", "onnxruntime-cpu")
            .find("its output is an output of the model, as float") != std::string::npos);
  // Somebody reads it as float besides.
  CHECK(
      Where(Quantized(before + "c = Conv(d, v) e = QuantizeLinear(c, s, z) f = DequantizeLinear(e, s, z) y = Add(c, f)",
                      kWeight, kIo),
            "target.unfused", "onnxruntime-cpu")
          .find("reads its output as float") != std::string::npos);
  // Its weight is float.
  CHECK(Where(Quantized("q = QuantizeLinear(x, s, z) d = DequantizeLinear(q, s, z) c = Conv(d, w)"
                        " e = QuantizeLinear(c, s, z) y = DequantizeLinear(e, s, z)",
                        "float[1,1,1,1] w = {100.0}", kIo),
              "target.unfused", "onnxruntime-cpu")
            .find("its input w is float") != std::string::npos);
  // A product may end in float there.
  CHECK(Where(Quantized("q = QuantizeLinear(x, s, z) d = DequantizeLinear(q, s, z) v = DequantizeLinear(w, t, n) y = "
                        "MatMul(d, v)",
                        "int8[4,4] w = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}, float t = {0.1}", kIo),
              "target.unfused", "onnxruntime-cpu")
            .empty());
}

TEST_CASE("quantizers that a target does not take") {
  // Of unsigned activations, where it takes signed ones.
  CHECK(Where(Quantized(kWhole, kWeight, kIo), "target.quantizer", "tensorrt")
            .find("takes activations as int8, not uint8") != std::string::npos);
  // Zero points.
  const char* const shifted = R"(q = QuantizeLinear(x, s, o) d = DequantizeLinear(q, s, o) v = DequantizeLinear(w, t, n)
      c = Conv(d, v) e = QuantizeLinear(c, s, o) y = DequantizeLinear(e, s, o))";
  const std::string constants = std::string(kWeight) + ", int8 o = {5}";
  CHECK(Where(Quantized(shifted, constants, kIo), "target.quantizer", "tensorrt").find("takes no zero points") !=
        std::string::npos);
  CHECK(Where(Quantized(shifted, constants, kIo), "target.quantizer", "tflite").empty());
  // A scale for each channel of an activation.
  const char* const by_channel = R"(q = QuantizeLinear<axis = 1>(x, k) d = DequantizeLinear<axis = 1>(q, k)
      v = DequantizeLinear(w, t, n) c = Conv(d, v) e = QuantizeLinear(c, s, z) y = DequantizeLinear(e, s, z))";
  CHECK(Where(Quantized(by_channel, "int8[1,2,1,1] w = {10, 20}, float t = {0.1}, float[2] k = {0.1, 0.2}",
                        "(float[1,2,4,4] x) => (float[1,1,4,4] y)"),
              "target.quantizer", "onnxruntime-cpu")
            .find("an activation has one scale") != std::string::npos);
  // An int32 bias, where biases are floats.
  const char* const biased = R"(q = QuantizeLinear(x, s, n) d = DequantizeLinear(q, s, n) v = DequantizeLinear(w, t, n)
      b = DequantizeLinear(i, t) c = Conv(d, v, b) e = QuantizeLinear(c, s, n) y = DequantizeLinear(e, s, n))";
  const std::string with_bias = std::string(kWeight) + ", int32[1] i = {7}";
  CHECK(Where(Quantized(biased, with_bias, kIo), "target.quantizer", "tensorrt").find("takes biases as floats") !=
        std::string::npos);
  CHECK(Where(Quantized(biased, with_bias, kIo), "target.quantizer", "onnxruntime-cpu").empty());
}

TEST_CASE("broken quantizers and long chains are looked over") {
  // Inputs left out: the checker says so, and nothing else trips over it.
  CHECK_FALSE(
      LintFor(ModelOf("g (float[4] x) => (float[4] y) { q = QuantizeLinear(, ) d = DequantizeLinear() y = Add(x, d) }",
                      kOpsets, 10))
          .empty());
  std::string chain =
      "q = QuantizeLinear(x, s, z) d = DequantizeLinear(q, s, z) v = DequantizeLinear(w, t, n) r0 = Conv(d, v) ";
  constexpr int kLong = 20000;
  for (int i = 0; i < kLong; ++i) chain += fmt::format("r{} = Relu(r{}) ", i + 1, i);
  const Model model = Quantized(chain + fmt::format("y = Identity(r{})", kLong), kWeight, kIo);
  CHECK(Where(model, "target.unfused", "onnxruntime-cpu").find("reads its output as float") != std::string::npos);
}

TEST_CASE("signed weights of all 8 bits may saturate without VNNI") {
  CHECK(Where(Quantized(kWhole, kWeight, kIo), "target.saturation", "onnxruntime-cpu").find("codes up to 100") !=
        std::string::npos);
  CHECK(
      Where(Quantized(kWhole, "int8[1,1,1,1] w = {-64}, float t = {0.1}", kIo), "target.saturation", "onnxruntime-cpu")
          .empty());
  CHECK(Where(Quantized(kWhole, kWeight, kIo), "target.saturation", "onnxruntime-vnni").empty());
}

}  // namespace
}  // namespace quant
