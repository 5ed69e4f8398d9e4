#include "libquant/report/gate.h"

#include <cmath>

#include "tests/catch.h"

namespace quant {
namespace {

Status CheckGates(std::span<const Gate> gates, const Measures& measures) {
  ASSIGN_OR_RETURN(const std::vector<GateVerdict> verdicts, JudgeGates(gates, measures));
  return CheckVerdicts(verdicts);
}

Gate MustParse(const std::string& text) {
  auto gate = ParseGate(text);
  INFO(gate.status());
  REQUIRE(gate.ok());
  return *gate;
}

std::string UsageOf(const std::string& text) {
  const auto gate = ParseGate(text);
  REQUIRE(!gate.ok());
  CHECK(ExitCode(gate.status()) == 2);
  return Message(gate.status());
}

TEST_CASE("gates are a metric, a comparison and a number") {
  const Gate gate = MustParse(" accuracy.drop <= 0.5 ");
  CHECK(gate.metric == "accuracy.drop");
  CHECK(gate.comparison == Comparison::kAtMost);
  CHECK(gate.limit == 0.5);
  CHECK(MustParse("max_abs<1e-3").limit == 1e-3);
  CHECK(MustParse("sqnr>-5").limit == -5);
  CHECK(MustParse("sqnr>-5").comparison == Comparison::kMore);
  for (const char* text : {"cosine>=0.9", "relative_rms<=0.1", "rmse<=1", "mean_abs<1", "non_finite<=0", "top1>=0.99",
                           "accuracy>=0.97", "coverage>=0.9", "bits_per_weight<=4.5", "size.ratio<=0.3"}) {
    MustParse(text);
  }
}

TEST_CASE("anything else says what is wrong and what there is") {
  CHECK(UsageOf("sqrn>=30").find("no metric 'sqrn'; there are sqnr (dB), cosine") != std::string::npos);
  CHECK(UsageOf("sqnr").find("METRIC OP NUMBER") != std::string::npos);
  CHECK(UsageOf("").find("METRIC OP NUMBER") != std::string::npos);
  CHECK(UsageOf("sqnr=30").find("'=' is none of") != std::string::npos);
  CHECK(UsageOf("sqnr==30").find("'==' is none of") != std::string::npos);
  CHECK(UsageOf("sqnr=>30").find("'=>' is none of") != std::string::npos);
  CHECK(UsageOf("sqnr>=").find("'' is no number") != std::string::npos);
  CHECK(UsageOf("sqnr>=30dB").find("'30dB' is no number") != std::string::npos);
  CHECK(UsageOf("sqnr>=nan").find("is no number") != std::string::npos);
  CHECK(UsageOf("sqnr>=1e999").find("is no number") != std::string::npos);
  CHECK(UsageOf("sqnr>=30<=40").find("'30<=40' is no number") != std::string::npos);
  CHECK(UsageOf(">=30").find("no metric ''") != std::string::npos);
  CHECK(UsageOf("top1>=99").find("0 to 1") != std::string::npos);
}

TEST_CASE("unmet gates are all named, with the values found") {
  const std::vector<Gate> gates = {MustParse("sqnr>=30"), MustParse("max_abs<=1"), MustParse("top1>=0.99")};
  const Measures measures = {{"sqnr", 20.5}, {"max_abs", 1}, {"top1", 0.5}};
  const Status status = CheckGates(gates, measures);
  CHECK(ExitCode(status) == 1);
  CHECK(Message(status) == "gate 'sqnr>=30' is not met: sqnr is 20.5; gate 'top1>=0.99' is not met: top1 is 0.5");
  CHECK(CheckGates(std::span(gates).first(0), measures).ok());
  CHECK(CheckGates(std::span(gates).subspan(1, 1), measures).ok());
}

TEST_CASE("limits are met exactly or not, as written, and NaN meets none") {
  const double nan = std::nan("");
  for (const auto& [text, below, at, above] : {std::tuple{"sqnr>=1", false, true, true},
                                               {"sqnr>1", false, false, true},
                                               {"sqnr<=1", true, true, false},
                                               {"sqnr<1", true, false, false}}) {
    const std::vector<Gate> gate = {MustParse(text)};
    CHECK(CheckGates(gate, {{"sqnr", 0.5}}).ok() == below);
    CHECK(CheckGates(gate, {{"sqnr", 1}}).ok() == at);
    CHECK(CheckGates(gate, {{"sqnr", 2}}).ok() == above);
    CHECK(!CheckGates(gate, {{"sqnr", nan}}).ok());
  }
}

TEST_CASE("a gate on what was not measured is a mistake, never passed over") {
  const Status status = CheckGates(std::vector{MustParse("top1>=0.9")}, {{"sqnr", 40}, {"cosine", 1}});
  CHECK(ExitCode(status) == 2);
  CHECK(Message(status) == "gate 'top1>=0.9': this run measured no top1; it measured sqnr, cosine");
}

TEST_CASE("a limit may be what an accepted report measured, plus a number or times it") {
  const Measures accepted = {{"sqnr", 30}, {"size.ratio", 0.25}, {"mean_abs", 1}};
  const auto limit = [&](const std::string& text) {
    const auto gate = ResolveGate(MustParse(text), &accepted);
    REQUIRE(gate.ok());
    CHECK(gate->against == Gate::Against::kNumber);
    return gate->limit;
  };
  CHECK(limit("sqnr >= baseline") == 30);
  CHECK(limit("sqnr >= baseline - 0.5") == 29.5);
  CHECK(limit("sqnr>=baseline+1") == 31);
  CHECK(limit("size.ratio<=baseline*2") == 0.5);
  CHECK(limit("sqnr>=12") == 12);
  CHECK(ExitCode(ResolveGate(MustParse("cosine>=baseline"), &accepted).status()) == 2);
  CHECK(ExitCode(ResolveGate(MustParse("sqnr>=baseline"), nullptr).status()) == 2);
  for (const char* wrong : {"sqnr>=baseline/2", "sqnr>=baselines", "sqnr>=baseline-", "sqnr>=baseline*x"}) {
    CHECK(ExitCode(ParseGate(wrong).status()) == 2);
  }
}

TEST_CASE("without gates an accepted report is held against what both measured") {
  const auto gates = BaselineGates({{"sqnr", 30}, {"coverage", 1}, {"mean_abs", 1}}, {{"sqnr", 29}, {"mean_abs", 2}});
  REQUIRE(gates.size() == 1);
  CHECK(gates[0].text == "sqnr>=baseline-0.1");
}

}  // namespace
}  // namespace quant
