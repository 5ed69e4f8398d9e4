// Which weights there is a choice for, and the rules that a choice becomes.
#include "libquant/search/weight_formats.h"

#include <cmath>

#include "libquant/config/quantize_file.h"
#include "libquant/model/check.h"
#include "libquant/model/text.h"
#include "libquant/search/budget.h"
#include "libquant/search/sensitivity.h"
#include "tests/catch.h"

namespace quant {
namespace {

Model Parse(const std::string& text) {
  auto model = ParseModelText(text);
  INFO(Message(model.status()));
  REQUIRE(model.ok());
  REQUIRE(InferShapes(*model).ok());
  return *std::move(model);
}

std::string Zeros(int count) {
  std::string out = "{0.5";
  for (int i = 1; i < count; ++i) out += ", 0.25";
  return out + "}";
}

// `a` is read twice, `b` once; `t` by an Add.
Model TwoLayers() {
  return Parse(R"(<ir_version: 8, opset_import: ["": 17]>
g (float[N,8] x) => (float[N,8] y)
<float[8,8] a = )" +
               Zeros(64) + R"(, float[8,8] b = )" + Zeros(64) + R"(, float[2,8] t = )" + Zeros(16) + R"(>
{
  [m1] h = MatMul(x, a)
  [m2] i = MatMul(h, a)
  [m3] j = MatMul(i, b)
  [r] s = ReduceSum(t)
  [p] y = Add(j, s)
})");
}

std::vector<CandidateFormat> Candidates(const std::string& list = DefaultCandidates()) {
  const auto out = ParseCandidates(list);
  INFO(Message(out.status()));
  REQUIRE(out.ok());
  return *out;
}

WeightFormats Make(const Model& model, const QuantizeOptions& options = {},
                   const std::string& list = DefaultCandidates()) {
  auto out = WeightFormats::Make(model, options, Candidates(list));
  INFO(Message(out.status()));
  REQUIRE(out.ok());
  return *std::move(out);
}

TEST_CASE("a weight with several readers is chosen for once, and forms that are the same count once") {
  const WeightFormats formats = Make(TwoLayers());
  REQUIRE(formats.units().size() == 2);
  CHECK(formats.units()[0].weights == std::vector<std::string>{"a"});
  CHECK(formats.elements() == 128);
  // The reduction has 8 values: all groups are one channel.
  const auto& alternatives = formats.items()[1].alternatives;
  REQUIRE(alternatives.size() == 3);
  CHECK(alternatives[0].label == "int4/32");
  CHECK(alternatives[0].bits == 64 * 4 + 8 * 32);
  CHECK(alternatives[1].label == "int8/32");
  CHECK(alternatives[2].label == "float");
  CHECK(alternatives[2].bits == 64 * 32);
  CHECK(formats.units()[1].alternatives[2] == 0U);
}

TEST_CASE("a choice becomes rules that give it back, through a file too") {
  const Model model = TwoLayers();
  const WeightFormats formats = Make(model);
  const QuantizeOptions options = formats.OptionsFor({2, 1}, "--auto");
  QuantizeOptions read;
  const std::string text = QuantizeFileText(options);
  INFO(text);
  REQUIRE(ReadQuantizeText(text, "f.yaml", read).ok());
  for (const QuantizeOptions& o : {options, read}) {
    const auto plan = PlanWeights(model, o);
    INFO(Message(plan.status()));
    REQUIRE(plan.ok());
    CHECK(plan->verdicts[0].kind == VerdictKind::kSkipped);
    CHECK(plan->verdicts[1].spec.format->name == "int8");
  }
}

TEST_CASE("what a user's rule takes or skips is no choice") {
  const Model model = TwoLayers();
  QuantizeOptions options;
  options.rules.push_back({"^a$", "", false, {{"weights", "int8"}}, "rules.yaml:1"});
  const WeightFormats formats = Make(model, options);
  REQUIRE(formats.units().size() == 1);
  CHECK(formats.units()[0].names == std::vector<std::string>{"b"});
  CHECK(formats.changes_others());
  options.rules.clear();
  options.skip = {"^b$"};
  CHECK(Make(model, options).units().size() == 1);
  CHECK(!Make(model, options).changes_others());
}

TEST_CASE("weights that rules can't tell apart go together") {
  // A node has the name of another node's weight.
  const Model model = Parse(R"(<ir_version: 8, opset_import: ["": 17]>
g (float[N,8] x) => (float[N,8] y)
<float[8,8] a = )" + Zeros(64) +
                            R"(, float[8,8] b = )" + Zeros(64) + R"(>
{
  [m1] h = MatMul(x, a)
  [a] y = MatMul(h, b)
})");
  const WeightFormats formats = Make(model);
  REQUIRE(formats.units().size() == 1);
  CHECK(formats.units()[0].weights == std::vector<std::string>{"a", "b"});
  CHECK(formats.units()[0].elements == 128);
  for (size_t i = 0; i < formats.items()[0].alternatives.size(); ++i) {
    const auto plan = PlanWeights(model, formats.OptionsFor({i}, ""));
    INFO(Message(plan.status()));
    REQUIRE(plan.ok());
    CHECK(plan->verdicts[0].kind == plan->verdicts[1].kind);
  }
}

TEST_CASE("names are matched letter for letter") {
  const Model model = Parse(R"(<ir_version: 8, opset_import: ["": 17]>
g (float[N,8] x) => (float[N,8] y)
<float[8,8] "w.1" = )" + Zeros(64) +
                            R"(, float[8,8] "wx1" = )" + Zeros(64) + R"(>
{
  h = MatMul(x, "w.1")
  y = MatMul(h, "wx1")
})");
  const WeightFormats formats = Make(model);
  REQUIRE(formats.units().size() == 2);
  const auto plan = PlanWeights(model, formats.OptionsFor({2, 0}, ""));
  REQUIRE(plan.ok());
  CHECK(plan->verdicts[0].kind == VerdictKind::kSkipped);
  CHECK(plan->verdicts[1].kind == VerdictKind::kQuantized);
}

TEST_CASE("a model without weights to quantize has no units") {
  const Model model = Parse(R"(<ir_version: 8, opset_import: ["": 17]>
g (float[N] x) => (float[N] y) { y = Relu(x) })");
  const WeightFormats formats = Make(model);
  CHECK(formats.units().empty());
  CHECK(formats.elements() == 0);
  CHECK(formats.Uniform(0) == Choice{});
}

TEST_CASE("an operator named by --include-op that no choice quantizes is left out") {
  const Model model = Parse(R"(<ir_version: 8, opset_import: ["": 17]>
g (float[8,N] x) => (float[8,N] y)
<float[8,8] a = )" + Zeros(64) +
                            R"(>
{
  y = MatMul(a, x)
})");
  CHECK(Make(model).units().empty());
  QuantizeOptions options;
  options.include_op = {"MatMul"};
  const WeightFormats formats = Make(model, options);
  REQUIRE(formats.units().size() == 1);
  for (size_t i = 0; i < formats.items()[0].alternatives.size(); ++i) {
    const auto plan = PlanWeights(model, formats.OptionsFor({i}, ""));
    INFO(Message(plan.status()));
    REQUIRE(plan.ok());
    CHECK((plan->verdicts[0].kind == VerdictKind::kQuantized) == (formats.items()[0].alternatives[i].label != "float"));
  }
  options.include_op = {"LSTM"};
  CHECK(!WeightFormats::Make(model, options, Candidates()).ok());
}

TEST_CASE("sensitivity is each weight's own, less what the rest costs") {
  const Model model = TwoLayers();
  QuantizeOptions options;
  options.keep = Keep::kHalf;
  WeightFormats formats = Make(model, options);
  int runs = 0;
  SensitivityOptions sensitivity;
  sensitivity.measure = [&](const QuantizeOptions& o) -> StatusOr<double> {
    ++runs;
    double noise = 0.001;
    for (const WeightRule& rule : o.rules) {
      if (!rule.skip) noise += (rule.match == "^b$" ? 0.5 : 0.1) / (rule.format[0].second == "int8" ? 256 : 1);
    }
    return noise;
  };
  const auto base = MeasureSensitivity(formats, sensitivity);
  REQUIRE(base.ok());
  CHECK(*base == 0.001);
  CHECK(runs == 5);
  CHECK(formats.items()[0].alternatives[0].noise == Approx(0.1));
  CHECK(formats.items()[1].alternatives[1].noise == Approx(0.5 / 256));
  CHECK(formats.items()[1].alternatives[2].noise == 0);
  CHECK(RankBySensitivity(formats.items()) == std::vector<size_t>{1, 0});
}

TEST_CASE("noise of answers that are no numbers is endless") {
  CHECK(NoiseFrom({{"sqnr", 20.0}}) == Approx(0.01));
  CHECK(NoiseFrom({{"sqnr", INFINITY}}) == 0);
  CHECK(std::isinf(NoiseFrom({{"sqnr", -INFINITY}})));
  CHECK(std::isinf(NoiseFrom({{"sqnr", std::nan("")}})));
  CHECK(NoiseFrom({{"top1", 1.0}}) == 0);
}

TEST_CASE("candidates that are none are refused") {
  CHECK(Candidates("int8/channel/asymmetric,float")[0].words.size() == 3);
  for (const char* list : {"", "int4", "int4/", "int5/32", "int4/0", "int4/32/sideways", "int4/32/symmetric/x",
                           "int4/32,int4/32", "float,", "int4/32,,float"}) {
    INFO(list);
    const auto parsed = ParseCandidates(list);
    REQUIRE(!parsed.ok());
    CHECK(ExitCode(parsed.status()) == 2);
  }
}

TEST_CASE("budgets are bits, parts or bytes") {
  const WeightFormats formats = Make(TwoLayers());
  const auto limit = [&](const char* text) {
    const auto budget = ParseBudget(text);
    INFO(text);
    REQUIRE(budget.ok());
    return LimitFor(*budget, formats, 1000);
  };
  CHECK(limit("4.5bpw").bits == 576);
  CHECK(limit("30%").bytes == 300);
  CHECK(limit("400").bytes == 400);
  CHECK(limit("1.5K").bytes == 1536);
  CHECK(limit("2M").bytes == 2 << 20);
  CHECK(limit("400").bits == (400 - formats.other_bytes()) * 8);
  for (const char* text :
       {"", "bpw", "0bpw", "-3%", "4.5 bpw", "nan", "inf", "1e999", "12Q", "0", "%", "0x10", "4bpw2"}) {
    INFO(text);
    CHECK(!ParseBudget(text).ok());
  }
}

}  // namespace
}  // namespace quant
