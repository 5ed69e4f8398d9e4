#include "libquant/search/trial.h"

#include <cmath>

#include "libquant/model/load.h"
#include "libquant/model/read.h"
#include "libquant/model/write.h"
#include "libquant/verify/compare.h"
#include "tests/catch.h"
#include "tests/data/data_fixture.h"

using namespace quant;

namespace {

const std::string kDigits = std::string(NIBBLE_SOURCE_DIR) + "/testdata/digits/";

std::unique_ptr<SampleSource> HeldOut(const Model& model) {
  return *OpenSamples(kDigits + "heldout.npz", RequiredInputs(model), nullptr);
}

QuantizeOptions OptionsOf(const std::vector<std::pair<std::string, std::string>>& words) {
  QuantizeOptions options;
  for (const auto& [key, word] : words) REQUIRE(SetQuantizeOption(options, key, word).ok());
  return options;
}

// What `quantize` and `diff` find: the model written, read again and compared with the float one.
DiffReport Separately(const std::string& path, const QuantizeOptions& options, const std::string& out,
                      SampleSource& samples, int64_t& bytes) {
  Model model = *LoadModel(path);
  QuantizePlan plan = *PlanWeights(model, options);
  REQUIRE(ApplyPlan(model, options, plan).ok());
  bytes = WriteModel(model, out)->model_bytes;
  const Model before = *LoadToRun(path);
  const Model after = *LoadToRun(out);
  const auto ours = RunningAnswers(path, before, *Session::Create(before));
  const auto theirs = RunningAnswers(out, after, *Session::Create(after));
  CompareOptions compare;
  compare.labels = kDigits + "labels.npy";
  return *Compare(*ours, *theirs, samples, compare);
}

}  // namespace

TEST_CASE("a trial finds what quantize and diff find") {
  const std::string path = kDigits + "digits_vit.onnx";
  const Model model = *LoadModel(path);
  const auto samples = HeldOut(model);
  TrialOptions options;
  options.labels = kDigits + "labels.npy";
  int64_t told = 0;
  options.progress = [&](int64_t, int64_t) { ++told; };
  const auto trials = *Trials::Make(path, model, *samples, options);
  CHECK(told == samples->count());
  const TempFolder folder;
  for (const auto& words : {std::vector<std::pair<std::string, std::string>>{},
                            {{"weights", "int8"}, {"group-size", "channel"}, {"emit", "nbits"}},
                            {{"scheme", "asymmetric"}, {"group-size", "64"}}}) {
    const QuantizeOptions quantize = OptionsOf(words);
    const TrialResult found = *trials->Run(quantize);
    int64_t bytes = 0;
    const DiffReport wanted = Separately(path, quantize, folder / "q.onnx", *samples, bytes);
    CHECK(MeasuresOf(found.diff).front() == MeasuresOf(wanted).front());
    CHECK(found.diff.outputs[0].metrics.max_abs() == wanted.outputs[0].metrics.max_abs());
    CHECK(found.diff.task->candidate.accuracy == wanted.task->candidate.accuracy);
    CHECK(found.diff.samples == samples->count());
    CHECK(*found.diff.reference_bytes == SourceBytes(model));
    // Names and nodes that the rewrite adds are not in the estimate.
    CHECK(std::abs(static_cast<double>(found.bytes - bytes)) < 0.1 * static_cast<double>(bytes));
    CHECK(found.plan.coverage() > 0.9);
  }
}

TEST_CASE("a trial of a pattern without a match is refused as quantize refuses it") {
  const std::string path = kDigits + "digits_cnn.onnx";
  const Model model = *LoadModel(path);
  const auto samples = RandomSamples(2, 1, RequiredInputs(model));
  const auto trials = *Trials::Make(path, model, *samples);
  const auto found = trials->Run(OptionsOf({{"skip", "nothing_of_that_name"}}));
  REQUIRE_FALSE(found.ok());
  CHECK(ExitCode(found.status()) == 2);
}
