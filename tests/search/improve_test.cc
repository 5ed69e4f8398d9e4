// Accuracy helpers: what is kept helps, by as much as is said.
#include "libquant/search/improve.h"

#include "libquant/model/load.h"
#include "libquant/search/trial.h"
#include "passes/quant/static_quant.h"
#include "tests/catch.h"
#include "tests/data/data_fixture.h"

using namespace quant;

namespace {

const std::string kDigits = std::string(NIBBLE_SOURCE_DIR) + "/testdata/digits/";

struct Outcome {
  std::vector<TriedImprovement> tried;
  double sqnr = 0;  // measured again, of the model that came out
};

Outcome Improve(const std::string& name, const std::vector<std::pair<std::string, std::string>>& words) {
  const std::string path = kDigits + name + ".onnx";
  QuantizeOptions options;
  for (const auto& [key, word] : words) REQUIRE(SetQuantizeOption(options, key, word).ok());
  REQUIRE(CompleteOptions(options).ok());
  Model model = *LoadModel(path);
  REQUIRE(PrepareForIntegers(model, options, true).ok());
  const Model before = model;
  QuantizePlan weights = *PlanWeights(model, options);
  const IntegerPlan integers = *PlanIntegers(model, weights, options);
  const auto samples = RandomSamples(8, 1, RequiredInputs(model));
  const auto improved = ImproveIntegers(path, model, weights, integers, options, *samples, {});
  REQUIRE(improved.ok());
  const auto trials = *Trials::Make(path, before, *samples);
  REQUIRE(ApplyIntegers(model, options, weights, integers, improved->ranges).ok());
  const auto diff = trials->RunModel(model);
  REQUIRE(diff.ok());
  return {improved->tried, diff->outputs[0].metrics.sqnr_db()};
}

}  // namespace

TEST_CASE("what helps is kept, and the model that comes out is as good as is said") {
  for (const char* name : {"digits_cnn", "digits_vit"}) {
    INFO(name);
    const Outcome outcome = Improve(name, {{"target", "onnxruntime-cpu"},
                                           {"activations", "uint8"},
                                           {"group-size", "tensor"},
                                           {"improve", "equalize"},
                                           {"improve", "balance=0.5"},
                                           {"improve", "correct-bias"}});
    REQUIRE(outcome.tried.size() == 3);
    double sqnr = outcome.tried[0].without;
    for (const TriedImprovement& tried : outcome.tried) {
      INFO(tried.what.Label() << ": " << tried.without << " dB without, " << tried.with << " with");
      CHECK(tried.without == sqnr);
      CHECK(tried.kept == (tried.with > tried.without));
      CHECK((tried.places > 0 || tried.with == tried.without));
      if (tried.kept) sqnr = tried.with;
    }
    CHECK(outcome.sqnr == sqnr);
  }
}
