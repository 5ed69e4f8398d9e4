#include "libquant/verify/same_answers.h"

#include <algorithm>
#include <map>

#include "libquant/exec/session.h"
#include "libquant/model/expand_operators.h"
#include "libquant/report/metrics.h"

namespace quant {
namespace {

// Each sample's outputs.
StatusOr<std::vector<NamedTensors>> Answers(const Model& model, const std::vector<NamedTensors>& feeds) {
  Model expanded = model;
  RETURN_IF_ERROR(ExpandOperators(expanded));
  ASSIGN_OR_RETURN(const std::unique_ptr<Session> session, Session::Create(expanded));
  std::vector<NamedTensors> out;
  for (const NamedTensors& feed : feeds) {
    ASSIGN_OR_RETURN(out.emplace_back(), session->Run(feed));
  }
  return out;
}

bool SameBytes(const Tensor& a, const Tensor& b) {
  if (a.strings() != nullptr && b.strings() != nullptr) return *a.strings() == *b.strings();
  if (a.list() != nullptr && b.list() != nullptr) {
    return std::equal(a.list()->begin(), a.list()->end(), b.list()->begin(), b.list()->end(), SameBytes);
  }
  if (a.dtype() != b.dtype() || !a.is_owned() || !b.is_owned()) return a.dtype() == b.dtype() && a.size() == b.size();
  return std::equal(a.bytes().begin(), a.bytes().end(), b.bytes().begin(), b.bytes().end());
}

// What differs between two answers to one sample, floats aside, whose errors are summed up.
std::optional<std::string> Compare(const NamedTensors& before, const NamedTensors& now,
                                   std::map<std::string, OutputMetrics>& metrics) {
  for (const auto& [name, expected] : before) {
    const Tensor* got = FindTensor(now, name);
    if (got == nullptr) return fmt::format("output {} is missing", name);
    if (got->dtype() != expected.dtype() || got->dims() != expected.dims()) {
      return fmt::format("output {} is {}, was {}", name, Describe(*got), Describe(expected));
    }
    if (InfoOf(expected.dtype()).is_float && InfoOf(expected.dtype()).bits >= 16) {
      const Status added = metrics[name].Add(expected, *got);
      if (!added.ok()) return fmt::format("output {}: {}", name, Message(added));
    } else if (!SameBytes(expected, *got)) {
      return fmt::format("output {} differs", name);
    }
  }
  return std::nullopt;
}

}  // namespace

StatusOr<SameAnswers> SameAnswers::Of(const Model& model, SampleSource& samples, const AnswerTolerance& tolerance) {
  SameAnswers out;
  out.tolerance_ = tolerance;
  for (int64_t i = 0; i < samples.count(); ++i) {
    ASSIGN_OR_RETURN(out.feeds_.emplace_back(), samples.Load(i));
  }
  ASSIGN_OR_RETURN(out.answers_, Answers(model, out.feeds_));
  return out;
}

StatusOr<std::optional<std::string>> SameAnswers::Check(const Model& model) const {
  const auto now = Answers(model, feeds_);
  if (!now.ok()) return std::optional<std::string>(Message(now.status()));
  std::map<std::string, OutputMetrics> metrics;
  for (size_t i = 0; i < answers_.size(); ++i) {
    if (auto wrong = Compare(answers_[i], (*now)[i], metrics)) return wrong;
  }
  for (const auto& [name, tensor] : answers_.empty() ? NamedTensors() : answers_[0]) {
    const auto found = metrics.find(name);
    if (found == metrics.end()) continue;
    const bool wide = InfoOf(tensor.dtype()).bits >= 32;
    const double limit = wide ? tolerance_.wide : tolerance_.half, error = found->second.relative_rms();
    if (error > limit || found->second.non_finite() > 0) {
      return std::optional(fmt::format("output {}: relative RMS {:.3g} where {:.3g} is allowed{}", name, error, limit,
                                       found->second.non_finite() > 0 ? "; not finite where it was" : ""));
    }
  }
  return std::optional<std::string>();
}

}  // namespace quant
