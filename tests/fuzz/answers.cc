#include "tests/fuzz/answers.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "libquant/exec/session.h"
#include "libquant/model/expand_operators.h"
#include "libquant/ops/random.h"
#include "libquant/report/metrics.h"
#include "tests/fuzz/load_and_run.h"

namespace quant {
namespace {

constexpr double kLargest = 1e4;
constexpr double kTolerance = 1e-5, kHalfTolerance = 1e-2;  // the driver's

template <typename T>
bool AllModerate(const Tensor& tensor) {
  const auto values = tensor.data<T>();
  return std::all_of(values.begin(), values.end(), [](T v) { return std::abs(static_cast<double>(v)) <= kLargest; });
}

bool Moderate(const Tensor& tensor) {
  if (!tensor.is_owned()) return true;
  switch (tensor.dtype()) {
    case DType::kFloat:
      return AllModerate<float>(tensor);
    case DType::kDouble:
      return AllModerate<double>(tensor);
    case DType::kFloat16:
      return AllModerate<float16>(tensor);
    case DType::kBfloat16:
      return AllModerate<bfloat16>(tensor);
    default:
      return true;
  }
}

bool IsFloat(const Tensor& tensor) { return InfoOf(tensor.dtype()).is_float && InfoOf(tensor.dtype()).bits >= 16; }

bool DrawsNumbers(const Graph& graph) {
  const auto nodes = graph.AllNodes();
  return std::any_of(nodes.begin(), nodes.end(),
                     [&](NodeId n) { return DrawsRandomNumbers(graph.node(n).domain, graph.node(n).op_type); });
}

StatusOr<NamedTensors> Run(Model model, const NamedTensors& feeds, const RunHooks& hooks) {
  RETURN_IF_ERROR(ExpandOperators(model));
  if (DrawsNumbers(model.graph)) return Unsupported("it draws random numbers");
  ASSIGN_OR_RETURN(const std::unique_ptr<Session> session, Session::Create(model, kFuzzLimits));
  return session->Run(feeds, hooks);
}

// A list's elements, or what is no list, in order.
void Flatten(const Tensor& tensor, std::vector<Tensor>& out) {
  if (tensor.list() == nullptr) return out.push_back(tensor);
  for (const Tensor& item : *tensor.list()) Flatten(item, out);
}

Status CompareOne(const std::string& name, const Tensor& expected, const Tensor& got, Sameness wanted) {
  if (got.dtype() == expected.dtype() && got.size() == 0 && expected.size() == 0) return OkStatus();
  if (got.dtype() != expected.dtype() || got.dims() != expected.dims()) {
    return GateError("output {} is {}, was {}", name, Describe(got), Describe(expected));
  }
  if (IsFloat(expected)) {
    OutputMetrics metrics;
    RETURN_IF_ERROR(metrics.Add(expected, got));
    if (metrics.non_finite() > 0 && wanted == Sameness::kWhereDefined) return OkStatus();
    const double limit = InfoOf(expected.dtype()).bits >= 32 ? kTolerance : kHalfTolerance;
    if (metrics.relative_rms() <= limit) return OkStatus();
    return GateError("output {}: relative RMS {}", name, metrics.relative_rms());
  }
  if (!expected.is_owned() || !got.is_owned()) return OkStatus();
  const bool same =
      std::equal(expected.bytes().begin(), expected.bytes().end(), got.bytes().begin(), got.bytes().end());
  return same ? OkStatus() : GateError("output {} differs", name);
}

// Dims as the model says, as far as it does.
bool FitsShape(const Tensor& tensor, const Shape& shape) {
  if (tensor.list() != nullptr || tensor.dtype() == DType::kUndefined) return true;
  if (tensor.dims().size() != shape.size()) return false;
  for (size_t i = 0; i < shape.size(); ++i) {
    if (shape[i].known() && shape[i].value != tensor.dims()[i]) return false;
  }
  return true;
}

using Shapes = std::map<std::string, Shape>;

Shapes ShapesOf(const Graph& graph) {
  Shapes out;
  for (ValueId v = 0; v < graph.value_count(); ++v) {
    const Value& value = graph.value(v);
    if (value.shape) out.emplace(value.name, *value.shape);
  }
  return out;
}

bool IsLimit(const std::string& message) {
  return message.find("memory") != std::string::npos || message.find("too often") != std::string::npos;
}

}  // namespace

std::optional<FuzzAnswers> FuzzAnswers::Of(const Model& model, const NamedTensors& feeds) {
  FuzzAnswers out;
  out.feeds_ = feeds;
  const Shapes shapes = ShapesOf(model.graph);
  const auto look = [&](const std::string& name, const Tensor& tensor) {
    if (!Moderate(tensor)) return Unsupported("{} is large", name);
    const auto declared = shapes.find(name);
    if (declared != shapes.end() && !FitsShape(tensor, declared->second)) return Unsupported("{} is not so", name);
    out.any_empty_ = out.any_empty_ || tensor.size() == 0;
    return OkStatus();
  };
  RunHooks hooks;
  hooks.probe = look;
  auto answers = Run(model, feeds, hooks);
  if (!answers.ok()) return std::nullopt;
  out.answers_ = *std::move(answers);
  for (const auto& [name, tensor] : out.answers_) {
    if (!look(name, tensor).ok()) return std::nullopt;
  }
  return out;
}

Status FuzzAnswers::Check(const Model& model, Sameness wanted) const {
  const auto now = Run(model, feeds_, {});
  if (!now.ok()) {
    return IsLimit(Message(now.status())) ? OkStatus() : GateError("it no longer runs: {}", Message(now.status()));
  }
  if (wanted == Sameness::kRuns || (wanted == Sameness::kWhereDefined && any_empty_)) return OkStatus();
  for (const auto& [name, expected] : answers_) {
    const Tensor* got = FindTensor(*now, name);
    if (got == nullptr) return GateError("output {} is missing", name);
    std::vector<Tensor> were, made;
    Flatten(expected, were);
    Flatten(*got, made);
    if (were.size() != made.size()) return GateError("output {} has {} parts, had {}", name, made.size(), were.size());
    for (size_t i = 0; i < were.size(); ++i) RETURN_IF_ERROR(CompareOne(name, were[i], made[i], wanted));
  }
  return OkStatus();
}

}  // namespace quant
