#include "libquant/verify/compare.h"

#include <algorithm>

#include "libquant/base/nearest_hint.h"
#include "libquant/report/as_double.h"

namespace quant {
namespace {

const InputSpec* FindInput(const std::vector<InputSpec>& inputs, const std::string& name) {
  for (const InputSpec& input : inputs) {
    if (input.name == name) return &input;
  }
  return nullptr;
}

}  // namespace

Status MatchInputs(const NamedModel& reference, const NamedModel& candidate) {
  const std::vector<InputSpec> ours = RequiredInputs(reference.model);
  const std::vector<InputSpec> theirs = RequiredInputs(candidate.model);
  for (const InputSpec& input : theirs) {
    const InputSpec* match = FindInput(ours, input.name);
    if (match == nullptr) {
      return UsageError("{} has an input '{}' that {} has not", candidate.path, input.name, reference.path);
    }
    if (match->dtype != input.dtype) {
      return UsageError("input '{}' is {} in {} and {} in {}", input.name, NameOf(match->dtype), reference.path,
                        NameOf(input.dtype), candidate.path);
    }
  }
  for (const InputSpec& input : ours) {
    if (FindInput(theirs, input.name) == nullptr) {
      return UsageError("{} has an input '{}' that {} has not", reference.path, input.name, candidate.path);
    }
  }
  return OkStatus();
}

namespace {

// Names of the outputs to compare, in the reference's order.
StatusOr<std::vector<std::string>> MatchOutputs(Answers& reference, Answers& candidate,
                                                const std::optional<std::string>& only) {
  ASSIGN_OR_RETURN(const std::vector<std::string> ours, reference.Names());
  ASSIGN_OR_RETURN(const std::vector<std::string> theirs, candidate.Names());
  std::vector<std::string> names = ours;
  if (only) {
    if (std::find(ours.begin(), ours.end(), *only) == ours.end()) {
      return UsageError("--output {}: {} has no such output{}", *only, reference.path(), NearestHint(*only, ours));
    }
    names = {*only};
  }
  for (const std::string& name : names) {
    if (std::find(theirs.begin(), theirs.end(), name) == theirs.end()) {
      return UsageError("{} has no output '{}'; --output NAME compares one output alone", candidate.path(), name);
    }
  }
  return names;
}

// Holds both sides' answers against what is right, on one output.
class TaskJudge {
 public:
  static StatusOr<TaskJudge> Make(const std::optional<std::string>& labels) {
    TaskJudge judge;
    if (!labels) return judge;
    ASSIGN_OR_RETURN(judge.labels_, ReadLabels(*labels));
    judge.path_ = *labels;
    return judge;
  }

  bool active() const { return !path_.empty(); }

  // Chooses the output from the first sample's answers; `samples` of them are to come.
  Status Choose(const std::vector<std::string>& names, const NamedTensors& answers, int64_t samples) {
    samples_ = samples;
    std::vector<std::string> fitting;
    for (const std::string& name : names) {
      const Tensor* t = FindTensor(answers, name);
      const bool fits =
          t != nullptr && InfoOf(t->dtype()).is_float && (labels_.numbers || (t->rank() >= 2 && t->dims().back() >= 2));
      if (fits) fitting.push_back(name);
    }
    if (fitting.size() != 1) {
      return UsageError("--labels: {} outputs {}; --output NAME chooses one", fitting.empty() ? "no" : "several",
                        labels_.numbers ? "are floats" : "have a class axis (float, rank 2 or more)");
    }
    output_ = fitting[0];
    if (labels_.numbers && (labels_.numbers->rank() == 0 || labels_.numbers->dims()[0] != samples)) {
      return DataError("{} is {}, but there are {} samples: its rows are to be one for each", path_,
                       Describe(*labels_.numbers), samples);
    }
    return OkStatus();
  }

  Status Add(const NamedTensors& reference, const NamedTensors& candidate) {
    const Tensor& ours = *FindTensor(reference, output_);
    const Tensor& theirs = *FindTensor(candidate, output_);
    return labels_.numbers ? AddNumbers(ours, theirs) : AddClasses(ours, theirs);
  }

  Status Finish(DiffReport& report) const {
    if (labels_.numbers) {
      report.numbers = NumberDiff{output_, our_error_.mean(), their_error_.mean()};
      return OkStatus();
    }
    if (next_ != labels_.classes.size()) {
      return DataError("{} has {} labels, but output '{}' has {} rows of classes over all samples", path_,
                       labels_.classes.size(), output_, next_);
    }
    report.task = TaskDiff{output_, static_cast<int64_t>(next_), ScoresOf(ours_), ScoresOf(theirs_)};
    return OkStatus();
  }

 private:
  static TaskScores ScoresOf(const ClassCounts& counts) {
    return {counts.accuracy(), counts.macro_precision(), counts.macro_recall(), counts.macro_f1()};
  }

  Status AddClasses(const Tensor& reference, const Tensor& candidate) {
    ASSIGN_OR_RETURN(const std::vector<int64_t> ours, Argmax(reference));
    ASSIGN_OR_RETURN(const std::vector<int64_t> theirs, Argmax(candidate));
    for (size_t i = 0; i < std::min(ours.size(), theirs.size()); ++i, ++next_) {
      if (next_ >= labels_.classes.size()) continue;
      ours_.Add(labels_.classes[next_], ours[i]);
      theirs_.Add(labels_.classes[next_], theirs[i]);
    }
    return OkStatus();
  }

  Status AddNumbers(const Tensor& reference, const Tensor& candidate) {
    const int64_t count = labels_.numbers->size() / samples_;
    std::vector<double> target(static_cast<size_t>(count));
    RETURN_IF_ERROR(ReadAsDouble(*labels_.numbers, static_cast<int64_t>(next_++) * count, target));
    RETURN_IF_ERROR(WithContext(our_error_.Add(target, reference), path_));
    return WithContext(their_error_.Add(target, candidate), path_);
  }

  std::string path_;
  std::string output_;
  Labels labels_;
  int64_t samples_ = 0;
  size_t next_ = 0;
  ClassCounts ours_, theirs_;
  SquaredError our_error_, their_error_;
};

Status AddSample(const NamedTensors& reference, const NamedTensors& candidate, DiffReport& report) {
  for (DiffOutput& output : report.outputs) {
    const Tensor* ours = FindTensor(reference, output.name);
    const Tensor* theirs = FindTensor(candidate, output.name);
    if (ours == nullptr || theirs == nullptr) return DataError("there is no '{}' in the saved answers", output.name);
    output.dtype = ours->dtype();
    OutputMetrics alone;
    RETURN_IF_ERROR(WithContext(alone.Add(*ours, *theirs), "output '" + output.name + "'"));
    output.metrics.Merge(alone);
    output.sqnr_by_sample.push_back(alone.sqnr_db());
  }
  return OkStatus();
}

// Of the sample whose answers are farthest off.
Status DrawHistograms(Answers& reference, Answers& candidate, SampleSource& samples, const CompareOptions& options,
                      DiffReport& report) {
  const int64_t worst = WorstSample(report);
  if (worst < 0) return OkStatus();
  LayerCollector& layers = *options.layers;
  layers.BeginHistograms(options.worst_layers);
  while (layers.WantsAnotherRun()) {
    ASSIGN_OR_RETURN(const NamedTensors feeds, samples.Load(worst));
    RETURN_IF_ERROR(reference.Of(worst, feeds, layers.ReferenceHooks()).status());
    RETURN_IF_ERROR(candidate.Of(worst, feeds, layers.CandidateHooks()).status());
    RETURN_IF_ERROR(layers.EndSample());
  }
  layers.AddHistograms(*report.layers);
  return OkStatus();
}

}  // namespace

Status InSample(const Status& status, const SampleSource& source, int64_t i) {
  const std::string sizes = source.ChosenSizes();
  Status where = WithContext(status, fmt::format("sample {}", i));
  if (status.ok() || sizes.empty()) return where;
  return Status(status.code(), Message(where) + "; sizes of dynamic dimensions were chosen: " + sizes +
                                   "; --dynamic-dim N or --dim NAME=N choose others");
}

StatusOr<DiffReport> Compare(Answers& reference, Answers& candidate, SampleSource& samples,
                             const CompareOptions& options) {
  ASSIGN_OR_RETURN(const std::vector<std::string> names, MatchOutputs(reference, candidate, options.output));
  ASSIGN_OR_RETURN(TaskJudge judge, TaskJudge::Make(options.labels));
  LayerCollector* layers = options.layers;
  DiffReport report;
  report.line = options.line;
  for (const std::string& name : names) report.outputs.emplace_back().name = name;
  for (int64_t i = 0; i < samples.count(); ++i) {
    const std::string where = fmt::format("sample {}", i);
    ASSIGN_OR_RETURN(const NamedTensors feeds, samples.Load(i));
    const StatusOr<NamedTensors> ours = reference.Of(i, feeds, layers ? layers->ReferenceHooks() : RunHooks());
    if (!ours.ok()) return WithContext(InSample(ours.status(), samples, i), reference.path());
    const StatusOr<NamedTensors> theirs = candidate.Of(i, feeds, layers ? layers->CandidateHooks() : RunHooks());
    if (!theirs.ok()) return WithContext(InSample(theirs.status(), samples, i), candidate.path());
    RETURN_IF_ERROR(WithContext(AddSample(*ours, *theirs, report), where));
    if (judge.active()) {
      if (i == 0) RETURN_IF_ERROR(judge.Choose(names, *ours, samples.count()));
      RETURN_IF_ERROR(WithContext(judge.Add(*ours, *theirs), where));
    }
    if (layers != nullptr) RETURN_IF_ERROR(layers->EndSample());
    ++report.samples;
    if (options.progress) options.progress(i + 1, samples.count());
  }
  if (judge.active()) RETURN_IF_ERROR(judge.Finish(report));
  if (layers != nullptr) {
    report.layers = layers->Finish();
    RETURN_IF_ERROR(DrawHistograms(reference, candidate, samples, options, report));
  }
  return report;
}

}  // namespace quant
