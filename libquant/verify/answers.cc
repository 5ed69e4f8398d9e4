#include "libquant/verify/answers.h"

#include <map>

#include "libquant/data/saved_outputs.h"
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

class Remembered : public Answers {
 public:
  Remembered(std::unique_ptr<Answers> inner, std::unique_ptr<TensorSpill> spill)
      : inner_(std::move(inner)), spill_(std::move(spill)) {}
  const std::string& path() const override { return inner_->path(); }
  StatusOr<std::vector<std::string>> Names() override { return inner_->Names(); }

  StatusOr<NamedTensors> Of(int64_t sample, const NamedTensors& feeds, const RunHooks& hooks) override {
    const auto known = places_.find(sample);
    if (known == places_.end()) return Ask(sample, feeds, hooks);
    NamedTensors out;
    for (const auto& [name, place] : known->second) {
      ASSIGN_OR_RETURN(Tensor tensor, spill_->Get(place));
      out.emplace_back(name, std::move(tensor));
    }
    return out;
  }

 private:
  StatusOr<NamedTensors> Ask(int64_t sample, const NamedTensors& feeds, const RunHooks& hooks) {
    ASSIGN_OR_RETURN(NamedTensors answers, inner_->Of(sample, feeds, hooks));
    std::vector<std::pair<std::string, TensorSpill::Place>> places;
    for (const auto& [name, tensor] : answers) {
      ASSIGN_OR_RETURN(TensorSpill::Place place, spill_->Put(tensor));
      places.emplace_back(name, std::move(place));
    }
    places_[sample] = std::move(places);
    return answers;
  }

  std::unique_ptr<Answers> inner_;
  std::unique_ptr<TensorSpill> spill_;
  std::map<int64_t, std::vector<std::pair<std::string, TensorSpill::Place>>> places_;
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
  ASSIGN_OR_RETURN(std::unique_ptr<TensorSpill> spill, TensorSpill::Create());
  return std::unique_ptr<Answers>(std::make_unique<Remembered>(std::move(inner), std::move(spill)));
}

}  // namespace quant
