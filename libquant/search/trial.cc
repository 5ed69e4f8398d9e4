#include "libquant/search/trial.h"

#include <map>

#include "libquant/exec/session.h"
#include "libquant/model/check.h"
#include "libquant/model/expand_operators.h"
#include "libquant/model/read.h"
#include "libquant/verify/compare.h"

namespace quant {
namespace {

constexpr int64_t kKeptBytes = int64_t{64} << 20;

int64_t BytesOf(const NamedTensors& tensors) {
  int64_t bytes = 0;
  for (const auto& [name, tensor] : tensors) bytes += tensor.byte_size();
  return bytes;
}

// Samples kept in memory once loaded, as far as they fit: unpacking or drawing them again takes longer than a small
// model.
class KeptSamples : public SampleSource {
 public:
  explicit KeptSamples(SampleSource& inner) : inner_(inner) {}
  int64_t count() const override { return inner_.count(); }
  StatusOr<NamedTensors> Load(int64_t i) override {
    const auto known = kept_.find(i);
    if (known != kept_.end()) return known->second;
    ASSIGN_OR_RETURN(NamedTensors feeds, inner_.Load(i));
    const int64_t bytes = BytesOf(feeds);
    if (bytes <= kKeptBytes - bytes_) {
      bytes_ += bytes;
      kept_[i] = feeds;
    }
    return feeds;
  }
  StatusOr<NamedTensors> LoadExpected(int64_t i) override { return inner_.LoadExpected(i); }
  std::string ChosenSizes() const override { return inner_.ChosenSizes(); }

 private:
  SampleSource& inner_;
  std::map<int64_t, NamedTensors> kept_;
  int64_t bytes_ = 0;
};

}  // namespace

StatusOr<std::unique_ptr<Trials>> Trials::Make(const std::string& path, const Model& model, SampleSource& samples,
                                               TrialOptions options) {
  std::unique_ptr<Trials> trials(new Trials(path, model, std::make_unique<KeptSamples>(samples), std::move(options)));
  RETURN_IF_ERROR(trials->RunReference());
  return trials;
}

Status Trials::RunReference() {
  Model expanded = model_;
  RETURN_IF_ERROR(WithContext(ExpandOperators(expanded), path_));
  StatusOr<std::unique_ptr<Session>> session = Session::Create(expanded);
  if (!session.ok()) return WithContext(session.status(), path_);
  ASSIGN_OR_RETURN(reference_,
                   AnswersKept(*RunningAnswers(path_, expanded, std::move(*session)), *samples_, options_.progress));
  return OkStatus();
}

int64_t Trials::float_bytes() const { return SourceBytes(model_); }

StatusOr<TrialResult> Trials::Run(const QuantizeOptions& options) {
  ASSIGN_OR_RETURN(QuantizePlan plan, PlanWeights(model_, options));
  return RunPlan(options, std::move(plan));
}

StatusOr<TrialResult> Trials::RunPlan(const QuantizeOptions& options, QuantizePlan plan) {
  TrialResult result;
  result.bytes = EstimateBytes(model_, plan, options);
  Model candidate = model_;
  RETURN_IF_ERROR(ApplyPlan(candidate, options, plan));
  ASSIGN_OR_RETURN(result.diff, RunModel(std::move(candidate)));
  result.diff.reference = path_;
  result.diff.reference_bytes = float_bytes();
  result.diff.candidate_bytes = result.bytes;
  result.plan = std::move(plan);
  return result;
}

StatusOr<DiffReport> Trials::RunModel(Model candidate) {
  RETURN_IF_ERROR(InferShapes(candidate));
  RETURN_IF_ERROR(ExpandOperators(candidate));
  ASSIGN_OR_RETURN(std::unique_ptr<Session> session, Session::Create(candidate));
  const std::unique_ptr<Answers> answers = RunningAnswers(path_ + ", quantized", candidate, std::move(session));
  CompareOptions compare;
  compare.output = options_.output;
  compare.labels = options_.labels;
  compare.progress = options_.progress;
  return Compare(*reference_, *answers, *samples_, compare);
}

}  // namespace quant
