#include "libquant/verify/same_answers.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "libquant/base/scatter_bits.h"
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

// Each number one unit in the last place further, up or down by the bits of `seed` and its index.
template <typename T>
void MoveByOneUlp(Tensor& tensor, uint64_t seed) {
  const auto data = tensor.mutable_data<T>();
  for (size_t i = 0; i < data.size(); ++i) {
    constexpr T kEnd = std::numeric_limits<T>::infinity();
    if (std::fpclassify(data[i]) != FP_NORMAL) continue;  // 0 stays: its neighbours are no rounding of anything near
    data[i] = std::nextafter(data[i], (ScatterBits(seed + i) & 1) != 0 ? kEnd : -kEnd);
  }
}

// A copy with each number moved; the tensor itself where it is neither float32 nor float64.
StatusOr<Tensor> Moved(const Tensor& tensor, uint64_t seed) {
  if (tensor.dtype() != DType::kFloat && tensor.dtype() != DType::kDouble) return tensor;
  ASSIGN_OR_RETURN(const Tensor owned, tensor.Materialize());
  Tensor out = Tensor::Allocate(owned.dtype(), owned.dims());
  std::copy(owned.bytes().begin(), owned.bytes().end(), out.mutable_bytes().begin());
  tensor.dtype() == DType::kFloat ? MoveByOneUlp<float>(out, seed) : MoveByOneUlp<double>(out, seed);
  return out;
}

StatusOr<NamedTensors> MovedFeed(const NamedTensors& feed, uint64_t& seed) {
  NamedTensors out;
  for (const auto& [name, tensor] : feed) {
    seed = ScatterBits(seed + 1);
    ASSIGN_OR_RETURN(Tensor moved, Moved(tensor, seed));
    out.emplace_back(name, std::move(moved));
  }
  return out;
}

// Constants of fewer than two axes stay: bounds, sizes and epsilons may mean the very number that they are.
StatusOr<Model> WithMovedWeights(const Model& model, uint64_t& seed) {
  Model out = model;
  for (ValueId v = 0; v < out.graph.value_count(); ++v) {
    Value& value = out.graph.value(v);
    if (value.removed || !value.constant || value.constant->dims().size() < 2) continue;
    seed = ScatterBits(seed + 1);
    ASSIGN_OR_RETURN(Tensor moved, Moved(*value.constant, seed));
    value.constant = std::move(moved);
  }
  return out;
}

// The largest relative RMS of each float output over a few ways to move inputs and weights.
StatusOr<std::map<std::string, double>> NoiseOfLastBits(const Model& model, const std::vector<NamedTensors>& feeds,
                                                        const std::vector<NamedTensors>& answers) {
  constexpr int kWays = 6;
  uint64_t seed = 0;
  std::map<std::string, double> out;
  for (int way = 0; way < kWays; ++way) {
    std::vector<NamedTensors> moved;
    for (const NamedTensors& feed : feeds) {
      ASSIGN_OR_RETURN(moved.emplace_back(), MovedFeed(feed, seed));
    }
    ASSIGN_OR_RETURN(const Model moved_model, WithMovedWeights(model, seed));
    ASSIGN_OR_RETURN(const auto now, Answers(moved_model, moved));
    std::map<std::string, OutputMetrics> metrics;
    for (size_t i = 0; i < answers.size(); ++i) {
      for (const auto& [name, expected] : answers[i]) {
        const Tensor* got = FindTensor(now[i], name);
        const bool number = InfoOf(expected.dtype()).is_float && InfoOf(expected.dtype()).bits >= 16;
        // Of another shape: nothing is known of this output's noise.
        if (!number || got == nullptr || got->dims() != expected.dims()) continue;
        RETURN_IF_ERROR(metrics[name].Add(expected, *got));
      }
    }
    for (const auto& [name, m] : metrics) {
      if (m.non_finite() == 0) out[name] = std::max(out[name], m.relative_rms());
    }
  }
  return out;
}

}  // namespace

double SameAnswers::NoiseOf(const std::string& name) const {
  if (!noise_) noise_ = NoiseOfLastBits(model_, feeds_, answers_).value_or(std::map<std::string, double>());
  const auto found = noise_->find(name);
  return found == noise_->end() ? 0 : found->second;
}

StatusOr<SameAnswers> SameAnswers::Of(const Model& model, SampleSource& samples, const AnswerTolerance& tolerance) {
  SameAnswers out;
  out.tolerance_ = tolerance;
  for (int64_t i = 0; i < samples.count(); ++i) {
    ASSIGN_OR_RETURN(out.feeds_.emplace_back(), samples.Load(i));
  }
  ASSIGN_OR_RETURN(out.answers_, Answers(model, out.feeds_));
  out.model_ = model;
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
    if (found->second.non_finite() > 0) return std::optional(fmt::format("output {} is not finite where it was", name));
    if (error <= limit) continue;
    // Noise excuses no more than its bound: there is no need to measure it then.
    const double noise = error > kMostNoise ? 0 : std::min(2 * NoiseOf(name), kMostNoise);
    if (error <= noise) continue;
    const std::string why = noise > limit ? ", which is twice what the last bits of inputs and weights move it by" : "";
    return std::optional(fmt::format("output {}: relative RMS {:.3g} where {:.3g} is allowed{}", name, error,
                                     std::max(noise, limit), why));
  }
  return std::optional<std::string>();
}

}  // namespace quant
