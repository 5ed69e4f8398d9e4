#include "tools/auto_args.h"

#include <cmath>

#include "libquant/base/file.h"
#include "libquant/config/quantize_file.h"
#include "libquant/model/read.h"
#include "libquant/model/write.h"
#include "libquant/search/sensitivity.h"
#include "tools/progress.h"
#include "tools/units.h"

namespace quant {
namespace {

constexpr int64_t kMostRounds = 100;

// What a trial measured, by the names that conditions use.
Measures MeasuresOf(const TrialResult& trial, int64_t bytes, int64_t source_bytes) {
  Measures out = MeasuresOf(trial.diff);
  std::erase_if(out, [](const auto& m) { return m.first == "size.ratio"; });
  out.emplace_back("coverage", trial.plan.coverage());
  out.emplace_back("bits_per_weight", trial.plan.bits_per_weight());
  out.emplace_back("size.ratio", static_cast<double>(bytes) / static_cast<double>(source_bytes));
  return out;
}

StatusOr<int64_t> BytesToWrite(const Model& model, const QuantizeOptions& options) {
  Model copy = model;
  ASSIGN_OR_RETURN(QuantizePlan plan, PlanWeights(copy, options));
  RETURN_IF_ERROR(ApplyPlan(copy, options, plan));
  ASSIGN_OR_RETURN(const WriteResult sizes, SizesToWrite(copy));
  return sizes.model_bytes + sizes.data_bytes;
}

// Everything in one candidate's format: what a user would do without a search.
void AddRivals(const WeightFormats& formats, SearchSettings& settings) {
  for (size_t c = 0; c < formats.candidates().size(); ++c) {
    const std::optional<Choice> uniform = formats.Uniform(c);
    if (!uniform) continue;
    settings.rivals.push_back(*uniform);
    settings.rival_names.push_back("all " + formats.candidates()[c].label);
  }
}

}  // namespace

void AutoArgs::Declare(Args& args) {
  args.Group("Choosing formats");
  args.Value("--auto", "EXPR", &conditions_,
             "choose the format of each weight so that the model is as small as can be and this holds: a condition as "
             "in --gate, 'sqnr>=35', measured on the samples; may be repeated, then all hold");
  args.Value("--budget", "SIZE", &budget_,
             "choose the format of each weight so that SQNR is as high as can be within this size: 4.5bpw (bits of "
             "each weight that there is a choice for), 30% of the model's size, or bytes as 400K or 2M");
  search_.Declare(args);
  args.Value("--search-rounds", "N", &rounds_,
             "rounds in which the choice is measured as a whole and improved; default 2");
  args.Value("--write-config", "FILE.yaml", &write_config_, "write what was chosen as a file for --config");
}

std::string AutoArgs::Goal() const {
  if (budget_) return "--budget " + *budget_;
  std::string out;
  for (const std::string& condition : conditions_)
    out += fmt::format("{}--auto '{}'", out.empty() ? "" : " ", condition);
  return out;
}

Status AutoArgs::Check(const Args& args, bool has_samples, const std::map<std::string, std::string>& unmeasured) {
  for (const char* name : {"--candidates", "--samples-for-search", "--search-rounds", "--write-config"}) {
    if (!given() && args.Given(name)) return UsageError("{} has no effect without --auto or --budget", name);
  }
  if (!given()) return OkStatus();
  if (budget_ && !conditions_.empty()) {
    return UsageError("--auto and --budget exclude each other; --gate holds what --budget chose against a condition");
  }
  if (!has_samples) {
    return UsageError("{} needs samples: what a format costs is measured (--data PATH or --random N)", Goal());
  }
  for (const char* name : {"--weights", "--group-size"}) {
    if (args.Given(name))
      return UsageError("{} has no effect with {}: --candidates says what to choose from", name, Goal());
  }
  if (rounds_ && (*rounds_ < 0 || *rounds_ > kMostRounds))
    return UsageError("--search-rounds takes 0 to {}", kMostRounds);
  RETURN_IF_ERROR(search_.Check());
  for (const std::string& text : conditions_) {
    StatusOr<Gate> gate = ParseGate(text);
    if (!gate.ok()) return UsageError("--auto: {}", Message(gate.status()));
    if (gate->against != Gate::Against::kNumber) return UsageError("--auto '{}': give a number to hold to", text);
    const auto hint = unmeasured.find(gate->metric);
    if (hint != unmeasured.end()) return UsageError("--auto '{}': {}", text, hint->second);
    gates_.push_back(*std::move(gate));
  }
  if (!budget_) return OkStatus();
  StatusOr<Budget> budget = ParseBudget(*budget_);
  if (!budget.ok()) return UsageError("--{}", Message(budget.status()));
  parsed_budget_ = *std::move(budget);
  return OkStatus();
}

StatusOr<FormatChoice> AutoArgs::Choose(const std::string& path, const Model& model, SampleSource& samples,
                                        const QuantizeOptions& options, const std::optional<std::string>& labels,
                                        bool quiet) const {
  FormatChoice out;
  out.goal = Goal();
  ASSIGN_OR_RETURN(MeasuredFormats measured, search_.Measure(path, model, samples, options, quiet));
  TrialOptions trial_options;
  trial_options.labels = labels;
  ASSIGN_OR_RETURN(const std::unique_ptr<Trials> trials, Trials::Make(path, model, samples, trial_options));
  const WeightFormats& formats = measured.formats;
  const auto options_for = [&](const Choice& choice) { return formats.OptionsFor(choice, out.goal); };
  SearchSettings settings;
  settings.base_noise = measured.base_noise;
  if (rounds_) settings.rounds = *rounds_;
  settings.measure = [&](const Choice& choice) -> StatusOr<Outcome> {
    Outcome outcome;
    const QuantizeOptions chosen = options_for(choice);
    ASSIGN_OR_RETURN(outcome.bytes, BytesToWrite(model, chosen));
    ASSIGN_OR_RETURN(const TrialResult trial, trials->Run(chosen));
    outcome.measures = MeasuresOf(trial, outcome.bytes, SourceBytes(model));
    outcome.noise = NoiseFrom(outcome.measures);
    return outcome;
  };
  settings.probe = [&](const Choice& choice) -> StatusOr<double> {
    ASSIGN_OR_RETURN(const TrialResult trial, measured.trials->Run(options_for(choice)));
    return NoiseFrom(MeasuresOf(trial.diff));
  };
  AddRivals(formats, settings);
  Progress progress("choosing formats", quiet);
  settings.progress = [&](int64_t done, int64_t all) { progress.Update(done, all); };
  if (parsed_budget_) {
    const SizeLimit limit = LimitFor(*parsed_budget_, formats, SourceBytes(model));
    ASSIGN_OR_RETURN(out.result, SearchWithin(formats.items(), limit, settings));
  } else {
    ASSIGN_OR_RETURN(out.result, SearchMeeting(formats.items(), gates_, settings));
  }
  out.options = options_for(out.best().choice);
  ASSIGN_OR_RETURN(TrialResult best, trials->Run(out.options));
  out.diff = std::move(best.diff);
  out.formats = std::move(measured.formats);
  return out;
}

Status AutoArgs::Verdict(const FormatChoice& choice) const {
  if (choice.result.found) return OkStatus();
  const TriedChoice& best = choice.best();
  if (!std::isfinite(best.outcome.noise)) {
    return GateError("{}: no choice gives finite answers; nothing was written", choice.goal);
  }
  if (parsed_budget_) {
    const double elements = static_cast<double>(choice.formats.elements());
    return GateError("{}: the smallest choice takes {:.3f} bits for each weight, {} in all; nothing was written",
                     choice.goal, elements == 0 ? 0 : static_cast<double>(best.bits) / elements,
                     Bytes(best.outcome.bytes));
  }
  ASSIGN_OR_RETURN(const std::vector<GateVerdict> verdicts, JudgeGates(gates_, best.outcome.measures));
  std::string values;
  for (const GateVerdict& v : verdicts) {
    values += fmt::format("{}{} {:.6g}", values.empty() ? "" : ", ", v.gate.metric, v.value);
  }
  return GateError("{}: even the choice that changes answers least has {}; nothing was written", choice.goal, values);
}

void AutoArgs::NameIn(QuantizePlan& plan) const {
  for (WeightVerdict& v : plan.verdicts) {
    if (!v.rule.ends_with(fmt::format(" ({})", Goal()))) continue;
    if (v.reason == v.rule) v.reason = "float by " + Goal();
    v.rule = Goal();
  }
}

Status AutoArgs::WriteConfig(const FormatChoice& choice) const {
  if (!write_config_) return OkStatus();
  const std::string head = fmt::format("# Chosen by nibble quantize {}\n", choice.goal);
  return WriteFileAtomically(*write_config_, head + QuantizeFileText(choice.options));
}

}  // namespace quant
