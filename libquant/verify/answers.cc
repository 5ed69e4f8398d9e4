#include "libquant/verify/answers.h"

#include <map>

#include "libquant/data/saved_outputs.h"
#include "libquant/verify/compare.h"
#include "libquant/verify/tensor_spill.h"

namespace quant {
namespace {

std::vector<std::string> NamesOf(const NamedTensors& tensors) {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : tensors) names.push_back(name);
  return names;
}

class Running : public Answers {
 public:
  Running(std::string path, const Model& model, std::unique_ptr<Session> session)
      : path_(std::move(path)), session_(std::move(session)) {
    for (ValueId v : model.graph.main().outputs) names_.push_back(model.graph.value(v).name);
  }
  const std::string& path() const override { return path_; }
  StatusOr<std::vector<std::string>> Names() override { return names_; }
  StatusOr<NamedTensors> Of(int64_t /*sample*/, const NamedTensors& feeds, const RunHooks& hooks) override {
    return session_->Run(feeds, hooks);
  }

 private:
  std::string path_;
  std::unique_ptr<Session> session_;
  std::vector<std::string> names_;
};

class Saved : public Answers {
 public:
  Saved(std::string path, SavedOutputs outputs) : path_(std::move(path)), outputs_(std::move(outputs)) {}
  const std::string& path() const override { return path_; }
  StatusOr<std::vector<std::string>> Names() override {
    ASSIGN_OR_RETURN(const NamedTensors first, outputs_.Load(0));
    return NamesOf(first);
  }
  StatusOr<NamedTensors> Of(int64_t sample, const NamedTensors& /*feeds*/, const RunHooks& /*hooks*/) override {
    return outputs_.Load(sample);
  }

 private:
  std::string path_;
  SavedOutputs outputs_;
};

class Stored : public Answers {
 public:
  Stored(std::string path, SampleSource& samples) : path_(std::move(path)), samples_(samples) {}
  const std::string& path() const override { return path_; }
  StatusOr<std::vector<std::string>> Names() override {
    ASSIGN_OR_RETURN(const NamedTensors first, samples_.LoadExpected(0));
    return NamesOf(first);
  }
  StatusOr<NamedTensors> Of(int64_t sample, const NamedTensors& /*feeds*/, const RunHooks& /*hooks*/) override {
    return samples_.LoadExpected(sample);
  }

 private:
  std::string path_;
  SampleSource& samples_;
};

// Answers by sample in a temporary file.
class AnswerSpill {
 public:
  static StatusOr<AnswerSpill> Create() {
    AnswerSpill out;
    ASSIGN_OR_RETURN(out.spill_, TensorSpill::Create());
    return out;
  }

  Status Put(int64_t sample, const NamedTensors& answers) {
    std::vector<std::pair<std::string, TensorSpill::Place>> places;
    for (const auto& [name, tensor] : answers) {
      ASSIGN_OR_RETURN(TensorSpill::Place place, spill_->Put(tensor));
      places.emplace_back(name, std::move(place));
    }
    places_[sample] = std::move(places);
    return OkStatus();
  }

  bool Has(int64_t sample) const { return places_.count(sample) != 0; }

  StatusOr<NamedTensors> Get(int64_t sample) const {
    NamedTensors out;
    for (const auto& [name, place] : places_.at(sample)) {
      ASSIGN_OR_RETURN(Tensor tensor, spill_->Get(place));
      out.emplace_back(name, std::move(tensor));
    }
    return out;
  }

 private:
  std::unique_ptr<TensorSpill> spill_;
  std::map<int64_t, std::vector<std::pair<std::string, TensorSpill::Place>>> places_;
};

class Remembered : public Answers {
 public:
  Remembered(std::unique_ptr<Answers> inner, AnswerSpill spill) : inner_(std::move(inner)), spill_(std::move(spill)) {}
  const std::string& path() const override { return inner_->path(); }
  StatusOr<std::vector<std::string>> Names() override { return inner_->Names(); }

  StatusOr<NamedTensors> Of(int64_t sample, const NamedTensors& feeds, const RunHooks& hooks) override {
    if (spill_.Has(sample)) return spill_.Get(sample);
    ASSIGN_OR_RETURN(NamedTensors answers, inner_->Of(sample, feeds, hooks));
    RETURN_IF_ERROR(spill_.Put(sample, answers));
    return answers;
  }

 private:
  std::unique_ptr<Answers> inner_;
  AnswerSpill spill_;
};

class Kept : public Answers {
 public:
  Kept(std::string path, std::vector<std::string> names, AnswerSpill spill)
      : path_(std::move(path)), names_(std::move(names)), spill_(std::move(spill)) {}
  const std::string& path() const override { return path_; }
  StatusOr<std::vector<std::string>> Names() override { return names_; }
  StatusOr<NamedTensors> Of(int64_t sample, const NamedTensors& /*feeds*/, const RunHooks& /*hooks*/) override {
    if (!spill_.Has(sample)) return BugError("{}: no answer to sample {} was kept", path_, sample);
    return spill_.Get(sample);
  }

 private:
  std::string path_;
  std::vector<std::string> names_;
  AnswerSpill spill_;
};

}  // namespace

std::unique_ptr<Answers> RunningAnswers(std::string path, const Model& model, std::unique_ptr<Session> session) {
  return std::make_unique<Running>(std::move(path), model, std::move(session));
}

StatusOr<std::unique_ptr<Answers>> SavedAnswers(std::string path, int64_t samples) {
  ASSIGN_OR_RETURN(SavedOutputs outputs, SavedOutputs::Open(path, samples));
  return std::unique_ptr<Answers>(std::make_unique<Saved>(std::move(path), std::move(outputs)));
}

StatusOr<std::unique_ptr<Answers>> StoredAnswers(std::string path, SampleSource& samples) {
  auto out = std::make_unique<Stored>(path, samples);
  ASSIGN_OR_RETURN(const std::vector<std::string> names, out->Names());
  if (names.empty()) return DataError("{} holds no outputs (output_*.pb) beside its samples", path);
  return std::unique_ptr<Answers>(std::move(out));
}

StatusOr<std::unique_ptr<Answers>> RememberedAnswers(std::unique_ptr<Answers> inner) {
  ASSIGN_OR_RETURN(AnswerSpill spill, AnswerSpill::Create());
  return std::unique_ptr<Answers>(std::make_unique<Remembered>(std::move(inner), std::move(spill)));
}

StatusOr<std::unique_ptr<Answers>> AnswersKept(Answers& inner, SampleSource& samples,
                                               const std::function<void(int64_t, int64_t)>& progress) {
  ASSIGN_OR_RETURN(AnswerSpill spill, AnswerSpill::Create());
  for (int64_t i = 0; i < samples.count(); ++i) {
    ASSIGN_OR_RETURN(const NamedTensors feeds, samples.Load(i));
    const StatusOr<NamedTensors> answers = inner.Of(i, feeds, {});
    if (!answers.ok()) return WithContext(InSample(answers.status(), samples, i), inner.path());
    RETURN_IF_ERROR(spill.Put(i, *answers));
    if (progress) progress(i + 1, samples.count());
  }
  ASSIGN_OR_RETURN(std::vector<std::string> names, inner.Names());
  return std::unique_ptr<Answers>(std::make_unique<Kept>(inner.path(), std::move(names), std::move(spill)));
}

}  // namespace quant
