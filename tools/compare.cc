#include "tools/compare.h"

#include <algorithm>

#include "libquant/exec/session.h"
#include "tools/argument_groups.h"
#include "tools/progress.h"

namespace quant {
namespace {

const InputSpec* FindInput(const std::vector<InputSpec>& inputs, const std::string& name) {
  for (const InputSpec& input : inputs) {
    if (input.name == name) return &input;
  }
  return nullptr;
}

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

std::vector<std::string> OutputNames(const Model& model) {
  std::vector<std::string> names;
  for (ValueId v : model.graph.main().outputs) names.push_back(model.graph.value(v).name);
  return names;
}

// Names of the outputs to compare, in the reference's order.
StatusOr<std::vector<std::string>> MatchOutputs(const NamedModel& reference, const NamedModel& candidate,
                                                const std::optional<std::string>& only) {
  const std::vector<std::string> ours = OutputNames(reference.model);
  const std::vector<std::string> theirs = OutputNames(candidate.model);
  std::vector<std::string> names = ours;
  if (only) {
    if (std::find(ours.begin(), ours.end(), *only) == ours.end()) {
      return UsageError("--output {}: {} has no such output{}", *only, reference.path, NearestHint(*only, ours));
    }
    names = {*only};
  }
  for (const std::string& name : names) {
    if (std::find(theirs.begin(), theirs.end(), name) == theirs.end()) {
      return UsageError("{} has no output '{}'; --output NAME compares one output alone", candidate.path, name);
    }
  }
  return names;
}

// Counts right answers of both models on the one output that has a class axis.
class AccuracyCounter {
 public:
  static StatusOr<AccuracyCounter> Make(const std::optional<std::string>& labels) {
    AccuracyCounter counter;
    if (!labels) return counter;
    ASSIGN_OR_RETURN(counter.labels_, ReadLabels(*labels));
    counter.path_ = *labels;
    return counter;
  }

  bool active() const { return !path_.empty(); }

  // Chooses the output from the first sample's answers.
  Status Choose(const std::vector<std::string>& names, const NamedTensors& answers) {
    std::vector<std::string> fitting;
    for (const std::string& name : names) {
      const Tensor* t = FindTensor(answers, name);
      if (t != nullptr && InfoOf(t->dtype()).is_float && t->rank() >= 2 && t->dims().back() >= 2)
        fitting.push_back(name);
    }
    if (fitting.size() != 1) {
      return UsageError("--labels: {} outputs have a class axis (float, rank 2 or more); --output NAME chooses one",
                        fitting.empty() ? "no" : "several");
    }
    accuracy_.output = fitting[0];
    return OkStatus();
  }

  Status Add(const NamedTensors& reference, const NamedTensors& candidate) {
    ASSIGN_OR_RETURN(std::vector<int64_t> ours, Argmax(*FindTensor(reference, accuracy_.output)));
    ASSIGN_OR_RETURN(std::vector<int64_t> theirs, Argmax(*FindTensor(candidate, accuracy_.output)));
    for (size_t i = 0; i < std::min(ours.size(), theirs.size()); ++i, ++next_) {
      if (next_ >= labels_.size()) continue;
      right_reference_ += ours[i] == labels_[next_];
      right_candidate_ += theirs[i] == labels_[next_];
    }
    return OkStatus();
  }

  StatusOr<Accuracy> Finish() {
    if (next_ != labels_.size()) {
      return DataError("{} has {} labels, but output '{}' has {} rows of classes over all samples", path_,
                       labels_.size(), accuracy_.output, next_);
    }
    const auto count = static_cast<double>(std::max<size_t>(labels_.size(), 1));
    accuracy_.labels = static_cast<int64_t>(labels_.size());
    accuracy_.reference = static_cast<double>(right_reference_) / count;
    accuracy_.candidate = static_cast<double>(right_candidate_) / count;
    return accuracy_;
  }

 private:
  std::string path_;
  std::vector<int64_t> labels_;
  size_t next_ = 0;
  int64_t right_reference_ = 0;
  int64_t right_candidate_ = 0;
  Accuracy accuracy_;
};

Status AddSample(const NamedTensors& reference, const NamedTensors& candidate, DiffReport& report) {
  for (DiffOutput& output : report.outputs) {
    const Tensor& ours = *FindTensor(reference, output.name);
    const Tensor& theirs = *FindTensor(candidate, output.name);
    output.dtype = ours.dtype();
    RETURN_IF_ERROR(WithContext(output.metrics.Add(ours, theirs), "output '" + output.name + "'"));
  }
  return OkStatus();
}

}  // namespace

StatusOr<DiffReport> CompareModels(const NamedModel& reference, const NamedModel& candidate, SampleSource& samples,
                                   const CompareOptions& options) {
  RETURN_IF_ERROR(MatchInputs(reference, candidate));
  ASSIGN_OR_RETURN(std::vector<std::string> names, MatchOutputs(reference, candidate, options.output));
  ASSIGN_OR_RETURN(AccuracyCounter counter, AccuracyCounter::Make(options.labels));
  ASSIGN_OR_RETURN(std::unique_ptr<Session> ours, CreateSession(reference.path, reference.model));
  ASSIGN_OR_RETURN(std::unique_ptr<Session> theirs, CreateSession(candidate.path, candidate.model));
  DiffReport report;
  for (const std::string& name : names) report.outputs.emplace_back().name = name;
  Progress progress("comparing", options.quiet);
  for (int64_t i = 0; i < samples.count(); ++i) {
    const std::string where = fmt::format("sample {}", i);
    ASSIGN_OR_RETURN(NamedTensors feeds, samples.Load(i));
    StatusOr<NamedTensors> a = ours->Run(feeds);
    if (!a.ok()) return WithContext(InSample(a.status(), samples, i), reference.path);
    StatusOr<NamedTensors> b = theirs->Run(feeds);
    if (!b.ok()) return WithContext(InSample(b.status(), samples, i), candidate.path);
    RETURN_IF_ERROR(WithContext(AddSample(*a, *b, report), where));
    if (counter.active()) {
      if (i == 0) RETURN_IF_ERROR(counter.Choose(names, *a));
      RETURN_IF_ERROR(WithContext(counter.Add(*a, *b), where));
    }
    ++report.samples;
    progress.Update(i + 1, samples.count());
  }
  if (counter.active()) {
    ASSIGN_OR_RETURN(report.accuracy, counter.Finish());
  }
  return report;
}

}  // namespace quant
