#include "passes/shape/bind_dims.h"

#include <algorithm>
#include <set>
#include <utility>

#include "libquant/model/check.h"
#include "libquant/model/kept_dims.h"
#include "passes/shape/dim_name.h"
#include "passes/shape/fix_input.h"
#include "passes/shape/infer_anew.h"

namespace quant {
namespace {

constexpr size_t kMostNamed = 12;  // in a message

bool IsName(const std::string& symbol) { return !symbol.empty() && symbol != "?"; }

// What every name stands for, checked before anything is changed.
class Binder {
 public:
  explicit Binder(const Model& model) : model_(model) {}

  Status Collect(const DimRequest& request) {
    RETURN_IF_ERROR(CollectNames());
    for (const DimRequest::Named& d : request.dims) {
      if (d.number < 0) return UsageError("dimension '{}' can't be {}: a dimension is 0 or more", d.name, d.number);
      RETURN_IF_ERROR(CheckKnown(d.name));
      RETURN_IF_ERROR(Add(d.name, d.number, "--dim"));
    }
    std::map<std::string, const DimRequest::Input*> seen;
    for (const DimRequest::Input& input : request.inputs) {
      const auto [other, first] = seen.emplace(input.name, &input);
      if (!first && other->second->dims != input.dims) {
        return UsageError("input '{}' is given twice, with different shapes", input.name);
      }
      RETURN_IF_ERROR(AddInput(input));
    }
    return Compute();
  }

  // The number of a name as a whole; a use of it is counted.
  std::optional<int64_t> Use(const std::string& name) {
    const auto it = index_.find(name);
    if (it == index_.end()) return std::nullopt;
    ++bound_[it->second].places;
    return bound_[it->second].number;
  }

  // Shapes of inputs as the request gives them.
  const std::map<ValueId, Shape>& inputs() const { return inputs_; }
  int unnamed() const { return unnamed_; }

  // Those that stand somewhere or that others are made of.
  std::vector<BoundDim> Take() { return std::move(bound_); }

 private:
  Status CollectNames() {
    const auto note = [this](const std::string& name) {
      if (known_.insert(name).second) order_.push_back(name);
      return std::optional<int64_t>();
    };
    const auto note_graph = [&](const Graph& graph) {
      for (ValueId v : graph.main().inputs) NoteShape(graph.value(v), note);
      for (ValueId v = 0; v < graph.value_count(); ++v) {
        if (!graph.value(v).removed) NoteShape(graph.value(v), note);
      }
      Graph copy = graph;  // only asked: nothing gets a number
      return BindKeptDims(copy, note);
    };
    RETURN_IF_ERROR(note_graph(model_.graph));
    for (const Function& f : model_.functions) RETURN_IF_ERROR(note_graph(f.body));
    for (const std::string& name : order_) {
      for (std::string& part : PartsOfDimName(name)) parts_.insert(std::move(part));
    }
    return OkStatus();
  }

  template <typename Note>
  static void NoteShape(const Value& value, const Note& note) {
    if (!value.shape || value.constant) return;
    for (const Dim& d : *value.shape) {
      if (!d.known() && !d.symbol.empty()) note(d.symbol);
    }
  }

  Status CheckKnown(const std::string& name) const {
    if (known_.count(name) > 0 || parts_.count(name) > 0) return OkStatus();
    if (order_.empty()) return UsageError("there is no dimension '{}': the model names none", name);
    std::vector<std::string> some(order_.begin(), order_.begin() + std::min(order_.size(), kMostNamed));
    if (order_.size() > kMostNamed) some.emplace_back("...");
    return UsageError("there is no dimension '{}'; the model names {}", name, fmt::join(some, ", "));
  }

  Status Add(const std::string& name, int64_t number, const std::string& from) {
    const auto [it, first] = index_.emplace(name, bound_.size());
    if (first) {
      bound_.push_back({name, number, from, 0});
      return OkStatus();
    }
    const BoundDim& other = bound_[it->second];
    if (other.number == number) return OkStatus();
    if (other.from == from) return UsageError("dimension '{}' is given twice: {} and {}", name, other.number, number);
    return UsageError("dimension '{}' is {} by {} but {} by {}", name, other.number, other.from, number, from);
  }

  StatusOr<ValueId> FindInput(const std::string& name) const {
    std::vector<std::string> names;
    for (ValueId v : model_.graph.main().inputs) {
      const Value& value = model_.graph.value(v);
      if (value.name == name && value.is_initializer) return UsageError("input '{}' is a weight of the model", name);
      if (value.name == name) return v;
      if (!value.is_initializer && names.size() < kMostNamed) names.push_back(value.name);
    }
    return UsageError("there is no input '{}'; the model has {}", name, fmt::join(names, ", "));
  }

  Status AddInput(const DimRequest::Input& input) {
    ASSIGN_OR_RETURN(const ValueId id, FindInput(input.name));
    const Value& value = model_.graph.value(id);
    if (value.dtype == DType::kUndefined) return UsageError("input '{}' is no tensor", input.name);
    if (value.shape && value.shape->size() != input.dims.size()) {
      return UsageError("input '{}' is {}, of {} dimensions; {} are given", input.name, ToString(*value.shape),
                        value.shape->size(), input.dims.size());
    }
    Shape shape = value.shape.value_or(Shape(input.dims.size()));
    for (size_t i = 0; i < shape.size(); ++i) {
      if (!input.dims[i]) continue;
      const int64_t number = *input.dims[i];
      if (number < 0) return UsageError("input '{}': a dimension can't be {}: it is 0 or more", input.name, number);
      if (shape[i].known() && shape[i].value != number) {
        return UsageError("input '{}': dimension {} is {} and can't become {}", input.name, i, shape[i].value, number);
      }
      if (shape[i].known()) continue;
      // A named one gets its number like all others of that name.
      if (IsName(shape[i].symbol)) {
        RETURN_IF_ERROR(Add(shape[i].symbol, number, fmt::format("input '{}'", input.name)));
        continue;
      }
      ++unnamed_;
      shape[i] = {number, {}};
    }
    inputs_[id] = std::move(shape);
    return OkStatus();
  }

  // A 0 that nobody asked for, for this name or for another, is a slip.
  Status CheckComputed(const std::string& name, int64_t number) const {
    const bool asked = std::any_of(bound_.begin(), bound_.end(), [](const BoundDim& d) { return d.number == 0; });
    if (number >= (asked ? 0 : 1)) return OkStatus();
    return UsageError("dimension '{}' comes out as {}: a dimension is 1 or more{}", name, number,
                      number == 0 ? fmt::format("; --dim '{}=0' allows this 0", name) : "");
  }

  // Names made of others get their numbers.
  Status Compute() {
    const auto number_of = [this](const std::string& part) {
      const auto it = index_.find(part);
      return it == index_.end() ? std::optional<int64_t>() : std::optional(bound_[it->second].number);
    };
    std::vector<BoundDim> computed;
    for (const std::string& name : order_) {
      ASSIGN_OR_RETURN(const std::optional<int64_t> number, ComputeDimName(name, number_of));
      if (!number) continue;
      RETURN_IF_ERROR(CheckComputed(name, *number));
      computed.push_back({name, *number, "its parts", 0});
    }
    for (const BoundDim& c : computed) RETURN_IF_ERROR(Add(c.name, c.number, c.from));
    return OkStatus();
  }

  const Model& model_;
  std::set<std::string> known_, parts_;
  std::vector<std::string> order_;  // of known_: those of inputs first
  std::map<std::string, size_t> index_;
  std::vector<BoundDim> bound_;
  std::map<ValueId, Shape> inputs_;
  int unnamed_ = 0;
};

void BindShape(Shape& shape, Binder& binder) {
  for (Dim& d : shape) {
    if (d.known() || d.symbol.empty()) continue;
    if (const auto number = binder.Use(d.symbol)) d = {*number, {}};
  }
}

Status BindGraph(Graph& graph, Binder& binder) {
  for (ValueId v = 0; v < graph.value_count(); ++v) {
    Value& value = graph.value(v);
    if (!value.removed && !value.constant && value.shape) BindShape(*value.shape, binder);
  }
  return BindKeptDims(graph, [&](const std::string& name) { return binder.Use(name); });
}

// Inputs that no machine can hold are a slip of the user's.
Status CheckSizes(const Graph& graph) {
  for (ValueId v : graph.main().inputs) {
    const Value& value = graph.value(v);
    const auto dims = value.shape ? StaticDims(*value.shape) : std::nullopt;
    if (!dims || value.dtype == DType::kUndefined || value.dtype == DType::kString) continue;
    if (!BytesFor(value.dtype, *dims))
      return UsageError("input '{}' would be too large: {}", value.name, ToString(*dims));
  }
  return OkStatus();
}

bool IsOwnFunction(const Model& model, const Node& node) {
  return std::any_of(model.functions.begin(), model.functions.end(),
                     [&](const Function& f) { return f.domain == node.domain && f.name == node.op_type; });
}

// Of operators that inference knows nothing about, the file's word is all there is. Whether any was taken.
bool TrustForeign(Model& model, const NodeShapes& declared) {
  bool any = false;
  for (const auto& [v, shape] : declared) {
    Value& value = model.graph.value(v);
    const Node& node = model.graph.node(value.producer);
    if (value.shape || node.domain.empty() || node.domain == "ai.onnx" || IsOwnFunction(model, node)) continue;
    value.shape = shape;
    any = true;
  }
  return any;
}

}  // namespace

StatusOr<BoundDims> BindDims(Model& model, const DimRequest& request) {
  Binder binder(model);
  RETURN_IF_ERROR(binder.Collect(request));
  Model changed = model;
  for (const auto& [id, shape] : binder.inputs()) changed.graph.value(id).shape = shape;
  RETURN_IF_ERROR(BindGraph(changed.graph, binder));
  for (Function& f : changed.functions) RETURN_IF_ERROR(BindGraph(f.body, binder));
  for (const DimRequest::Fixed& value : request.values) {
    RETURN_IF_ERROR(FixInput(changed.graph, value.name, value.number));
  }
  RETURN_IF_ERROR(CheckSizes(changed.graph));
  BoundDims out;
  out.unnamed = binder.unnamed();
  out.names = binder.Take();
  for (ValueId v : changed.graph.main().outputs) {
    const Value& value = changed.graph.value(v);
    if (value.shape && value.producer != kNoNode) out.outputs[value.name] = *value.shape;
  }
  const NodeShapes declared = ForgetShapes(changed.graph, false);
  RETURN_IF_ERROR(InferShapes(changed));
  if (TrustForeign(changed, declared)) RETURN_IF_ERROR(InferShapes(changed));
  model = std::move(changed);
  return out;
}

void KeepDeclared(Model& model, const BoundDims& bound) {
  for (ValueId v : model.graph.main().outputs) {
    Value& value = model.graph.value(v);
    const auto it = bound.outputs.find(value.name);
    if (it == bound.outputs.end()) continue;
    if (!value.shape) value.shape = Shape(it->second.size());
    if (value.shape->size() != it->second.size()) continue;
    for (size_t i = 0; i < it->second.size(); ++i) {
      const Dim& said = it->second[i];
      if (!(*value.shape)[i].known() && (said.known() || !said.symbol.empty())) (*value.shape)[i] = said;
    }
  }
}

StaticCount CountStatic(const Graph& graph) {
  StaticCount out;
  for (ValueId v = 0; v < graph.value_count(); ++v) {
    const Value& value = graph.value(v);
    if (value.removed || value.constant || (value.producer == kNoNode && !value.is_input)) continue;
    if (value.is_input && value.dtype == DType::kUndefined) continue;
    ++out.all;
    out.fixed += value.shape && StaticDims(*value.shape);
  }
  return out;
}

}  // namespace quant
