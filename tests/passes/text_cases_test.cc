// Pass tests as text: every tests/passes/cases/*.txt holds cases of one pass, in ONNX's text syntax.
//
//   # RUN: quantize-weights weights=int8 group=channel      the pass and its options, for all cases that follow
//   # RUN: to-half keep-op=MatMul keep=pattern type=bf16 io-half=true      the model made half
//   # RUN: fold-constants,fold-shapes target=onnxruntime-cpu   passes of passes.def, run until nothing changes
//   # CASE folds into a convolution used once               the model before
//   # EXPECT | # UNCHANGED | # ERROR part of the message     the model after, printed by ourselves
//
// With NIBBLE_REBASE=1 in the environment, expectations are rewritten to what came out. Free with each case: the graph
// verifies before and after, ONNX's checker accepts the result, a second run changes nothing, and, for passes of
// passes.def, the executor gives the same answers before and after to random samples.
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "libquant/data/samples.h"
#include "libquant/exec/session.h"
#include "libquant/model/check.h"
#include "libquant/model/text.h"
#include "libquant/verify/same_answers.h"
#include "passes/convert/to_half.h"
#include "passes/driver.h"
#include "passes/pipeline.h"
#include "passes/quant/weight_quant.h"
#include "tests/catch.h"

namespace quant {
namespace {

namespace fs = std::filesystem;

struct Case {
  std::string run;
  std::string title;
  std::string before;
  std::string verdict;  // EXPECT, UNCHANGED, or "ERROR text"
  std::string after;
};

std::vector<Case> ReadCases(const fs::path& path) {
  std::ifstream in(path);
  std::vector<Case> cases;
  std::string run;
  std::string* body = nullptr;
  for (std::string line; std::getline(in, line);) {
    if (line.rfind("# RUN: ", 0) == 0) {
      run = line.substr(7);
    } else if (line.rfind("# CASE ", 0) == 0) {
      cases.push_back({run, line.substr(7), {}, {}, {}});
      body = &cases.back().before;
    } else if (!cases.empty() && (line == "# EXPECT" || line == "# UNCHANGED" || line.rfind("# ERROR", 0) == 0)) {
      cases.back().verdict = line.substr(2);
      body = &cases.back().after;
    } else if (body != nullptr) {
      *body += line + "\n";
    }
  }
  return cases;
}

std::string Trimmed(std::string text) {
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.back()))) text.pop_back();
  return text + "\n";
}

void WriteCases(const fs::path& path, const std::vector<Case>& cases) {
  std::ofstream out(path);
  std::string run;
  for (const Case& c : cases) {
    if (c.run != run) out << "# RUN: " << c.run << "\n";
    run = c.run;
    out << "# CASE " << c.title << "\n" << Trimmed(c.before) << "# " << c.verdict << "\n";
    if (c.verdict == "EXPECT") out << Trimmed(c.after);
  }
}

// "weights=int8 group-size=channel": the keys of the command line.
StatusOr<QuantizeOptions> OptionsOf(std::istringstream& words) {
  QuantizeOptions o;
  for (std::string word; words >> word;) {
    const size_t equals = word.find('=');
    RETURN_IF_ERROR(SetQuantizeOption(o, word.substr(0, equals), word.substr(equals + 1)));
  }
  return o;
}

StatusOr<DriverOptions> DriverOptionsOf(std::istringstream& words) {
  DriverOptions options;
  ASSIGN_OR_RETURN(options.pass.target, FindTarget("portable"));
  for (std::string word; words >> word;) {
    const size_t equals = word.find('=');
    const std::string key = word.substr(0, equals), value = word.substr(equals + 1);
    if (key == "target") {
      ASSIGN_OR_RETURN(options.pass.target, FindTarget(value));
    } else if (key == "fold-limit") {
      options.pass.max_constant_bytes = std::stoll(value);
    } else {
      return UsageError("unknown option {}", key);
    }
  }
  return options;
}

StatusOr<HalfOptions> HalfOptionsOf(std::istringstream& words) {
  HalfOptions options;
  for (std::string word; words >> word;) {
    const size_t equals = word.find('=');
    const std::string key = word.substr(0, equals), value = word.substr(equals + 1);
    if (key == "type") options.type = value == "bf16" ? DType::kBfloat16 : DType::kFloat16;
    if (key == "io-half") options.io_half = value == "true";
    if (key == "keep-op") options.keep_ops.push_back(value);
    if (key == "keep") options.keep.push_back(value);
  }
  return options;
}

// Half and back: answers stay within half's rounding where inputs and outputs do.
Status RunToHalf(const HalfOptions& options, Model& model) {
  RETURN_IF_ERROR(InferShapes(model));
  if (options.io_half) return ConvertToHalf(model, options).status();
  const auto samples = RandomSamples(2, 7, RequiredInputs(model));
  ASSIGN_OR_RETURN(const SameAnswers answers, SameAnswers::Of(model, *samples, {.wide = 1e-2, .half = 1e-2}));
  RETURN_IF_ERROR(ConvertToHalf(model, options).status());
  ASSIGN_OR_RETURN(const auto wrong, answers.Check(model));
  INFO(wrong.value_or(""));
  CHECK_FALSE(wrong.has_value());
  return OkStatus();
}

std::vector<std::string> Split(const std::string& list) {
  std::istringstream in(list);
  std::vector<std::string> out;
  for (std::string name; std::getline(in, name, ',');) out.push_back(name);
  return out;
}

// Runs graph passes; answers must not change.
Status RunGraphPasses(const std::vector<const Pass*>& passes, const DriverOptions& options, Model& model) {
  RETURN_IF_ERROR(InferShapes(model));
  const auto samples = RandomSamples(2, 7, RequiredInputs(model));
  ASSIGN_OR_RETURN(const SameAnswers answers, SameAnswers::Of(model, *samples));
  ASSIGN_OR_RETURN(const DriverReport report, RunPasses(model, passes, options));
  CHECK(report.settled);
  ASSIGN_OR_RETURN(const auto wrong, answers.Check(model));
  INFO(wrong.value_or(""));
  CHECK_FALSE(wrong.has_value());
  return OkStatus();
}

Status RunPass(const std::string& run, Model& model) {
  std::istringstream words(run);
  std::string pass;
  words >> pass;
  if (pass == "to-half") {
    ASSIGN_OR_RETURN(const HalfOptions options, HalfOptionsOf(words));
    return RunToHalf(options, model);
  }
  if (pass != "quantize-weights") {
    ASSIGN_OR_RETURN(const std::vector<const Pass*> passes, PassesNamed(Split(pass)));
    ASSIGN_OR_RETURN(const DriverOptions options, DriverOptionsOf(words));
    return RunGraphPasses(passes, options, model);
  }
  ASSIGN_OR_RETURN(const QuantizeOptions options, OptionsOf(words));
  RETURN_IF_ERROR(InferShapes(model));
  ASSIGN_OR_RETURN(QuantizePlan plan, PlanWeights(model, options));
  return ApplyPlan(model, options, plan);
}

// Prints the result, after the checks that come free with each case.
std::string Outcome(const Case& c) {
  auto model = ParseModelText(c.before);
  if (!model.ok()) FAIL("the case does not parse: " << Message(model.status()));
  REQUIRE(Verify(model->graph).ok());
  const Status status = RunPass(c.run, *model);
  if (!status.ok()) return "ERROR " + Message(status);
  REQUIRE(Verify(model->graph).ok());
  const Status checked = CheckModel(*model);
  INFO(Message(checked));
  CHECK(checked.ok());
  auto text = PrintModelText(*model);
  INFO(Message(text.status()));
  REQUIRE(text.ok());
  // A pattern or an operator that was asked for finds nothing any more.
  const auto has = [&](const char* key) { return c.run.find(key) != std::string::npos; };
  if (!has("skip=") && !has("only=") && !has("include-op=")) {
    CHECK(RunPass(c.run, *model).ok());
    CHECK(*PrintModelText(*model) == *text);
  }
  return Trimmed(*text);
}

}  // namespace

TEST_CASE("pass cases as text") {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(fs::path(NIBBLE_SOURCE_DIR) / "tests/passes/cases")) {
    files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  REQUIRE_FALSE(files.empty());
  const bool rebase = std::getenv("NIBBLE_REBASE") != nullptr;
  for (const fs::path& file : files) {
    std::vector<Case> cases = ReadCases(file);
    REQUIRE_FALSE(cases.empty());
    for (Case& c : cases) {
      INFO(file.filename().string() << ": " << c.title);
      std::string outcome = Outcome(c);
      if (c.verdict.rfind("ERROR", 0) == 0) {
        CHECK(outcome.rfind("ERROR", 0) == 0);
        CHECK(outcome.find(Trimmed(c.verdict).substr(6, c.verdict.size() - 6)) != std::string::npos);
      } else if (rebase && c.verdict == "EXPECT") {
        c.after = outcome;
      } else {
        auto before = ParseModelText(c.before);
        const std::string expected = c.verdict == "UNCHANGED" ? Trimmed(*PrintModelText(*before)) : Trimmed(c.after);
        CHECK(outcome == expected);
      }
    }
    if (rebase) WriteCases(file, cases);
  }
}

}  // namespace quant
