// What a changed model may answer: within the tolerance, or within what the last bits of inputs and weights move it by.
#include "libquant/verify/same_answers.h"

#include "libquant/data/samples.h"
#include "libquant/exec/session.h"
#include "libquant/model/check.h"
#include "libquant/model/text.h"
#include "tests/catch.h"

namespace quant {
namespace {

Model Parsed(const std::string& nodes, double factor) {
  auto model =
      ParseModelText(fmt::format("<ir_version: 8, opset_import: [\"\": 17]>\n"
                                 "g (float[64] x) => (float[64] y) <float f = {{{:.9g}}}, float s = {{500}}> {{ {} }}",
                                 factor, nodes));
  INFO(Message(model.status()));
  REQUIRE(model.ok());
  REQUIRE(InferShapes(*model).ok());
  return std::move(*model);
}

std::optional<std::string> Difference(const std::string& nodes, double was, double is) {
  const Model before = Parsed(nodes, was);
  const auto samples = RandomSamples(2, 7, RequiredInputs(before));
  const auto answers = SameAnswers::Of(before, *samples);
  REQUIRE(answers.ok());
  const auto wrong = answers->Check(Parsed(nodes, is));
  REQUIRE(wrong.ok());
  return *wrong;
}

const char* const kPlain = "t = Mul(x, f) z = Mul(s, t) y = Identity(z)";
// A phase of hundreds: the last bit of x moves the answer by several 1e-5.
const char* const kIllConditioned = "t = Mul(x, f) z = Mul(s, t) y = Sin(z)";

TEST_CASE("a well-conditioned model is held to the tolerance") {
  CHECK_FALSE(Difference(kPlain, 1, 1));
  CHECK_FALSE(Difference(kPlain, 1, 1.000005));
  CHECK(*Difference(kPlain, 1, 1.00003) == "output y: relative RMS 3e-05 where 1e-05 is allowed");
}

TEST_CASE("an ill-conditioned model may move as last bits move it, and no further") {
  CHECK_FALSE(Difference(kIllConditioned, 1, 0.99999994));  // the next number below 1
  const auto wrong = Difference(kIllConditioned, 1, 1.0000005);
  REQUIRE(wrong);
  CHECK(wrong->find("is allowed, which is twice what the last bits of inputs and weights move it by") !=
        std::string::npos);
  // So far off that noise excuses nothing.
  CHECK(Difference(kIllConditioned, 1, 1.001)->find("where 1e-05 is allowed") != std::string::npos);
}

}  // namespace
}  // namespace quant
