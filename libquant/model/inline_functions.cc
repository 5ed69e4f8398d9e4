#include "libquant/model/inline_functions.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <unordered_map>

#include "libquant/model/opset.h"
#include "libquant/model/proto_parts.h"

namespace quant {
namespace {

using Key = std::tuple<std::string, std::string, std::string>;  // domain, name, overload

Key KeyOf(const std::string& domain, const std::string& name, const std::string& overload) {
  return {domain == "ai.onnx" ? "" : domain, name, overload};
}

// Attributes that have a value when the call leaves them out.
StatusOr<Attributes> DefaultsOf(const Function& function) {
  onnx::FunctionProto proto;
  if (!ParseMessage(function.extra, &proto))
    return BugError("what was kept of function {} does not parse", function.name);
  Attributes out;
  std::vector<onnx::GraphProto> bodies;
  for (onnx::AttributeProto& attribute : *proto.mutable_attribute_proto()) {
    ASSIGN_OR_RETURN(Attribute taken, TakeAttribute(&attribute, {}, "a default of function " + function.name, &bodies));
    out.list().push_back(std::move(taken));
  }
  if (!bodies.empty()) return Unsupported("function {} has a graph as a default attribute", function.name);
  return out;
}

// Copies one function's body to the place of one call.
class Expansion {
 public:
  Expansion(Graph& graph, NodeId call, const Function& function, const Attributes& defaults)
      : graph_(graph), call_id_(call), call_(graph.node(call)), function_(function), defaults_(defaults) {
    prefix_ = call_.name.empty() ? function.name : call_.name;
  }

  // The nodes that stand for the call, in order; the call is left without outputs.
  StatusOr<std::vector<NodeId>> Run() {
    const Region& body = function_.body.main();
    for (size_t i = 0; i < body.inputs.size(); ++i) {
      values_[body.inputs[i]] = i < call_.inputs.size() ? call_.inputs[i] : kNoValue;
    }
    RETURN_IF_ERROR(CopyNodes(kMainRegion, call_.region));
    std::vector<ValueId> results;
    for (ValueId v : body.outputs) results.push_back(Mapped(v));
    const std::vector<ValueId> outputs = std::exchange(graph_.node(call_id_).outputs, {});
    if (outputs.size() > results.size()) {
      return DataError("a call of function {} wants {} outputs of {}", function_.name, outputs.size(), results.size());
    }
    for (size_t i = 0; i < outputs.size(); ++i) {
      if (outputs[i] == kNoValue) continue;
      if (results[i] == kNoValue) return DataError("output {} of function {} is an input left out", i, function_.name);
      Node identity;
      identity.op_type = "Identity";
      identity.region = call_.region;
      identity.name = graph_.FreshName(prefix_ + "/output");
      identity.inputs = {results[i]};
      identity.outputs = {outputs[i]};
      made_.push_back(graph_.AddNode(std::move(identity)));
    }
    return std::move(made_);
  }

 private:
  ValueId Mapped(ValueId v) const { return v == kNoValue ? kNoValue : values_.at(v); }

  ValueId CopyValue(ValueId v, RegionId region) {
    Value value = function_.body.value(v);
    value.name = graph_.FreshName(prefix_ + "/" + value.name);
    value.region = region;
    value.uses.clear();
    value.producer = kNoNode;
    return values_[v] = graph_.AddValue(std::move(value));
  }

  // Nodes of one region of the body, to the end of another.
  Status CopyNodes(RegionId from, RegionId to) {
    for (NodeId n : function_.body.region(from).nodes) {
      Node node = function_.body.node(n);
      node.region = to;
      if (!node.name.empty()) node.name = graph_.FreshName(prefix_ + "/" + node.name);
      for (ValueId& v : node.inputs) v = Mapped(v);
      while (!node.inputs.empty() && node.inputs.back() == kNoValue) node.inputs.pop_back();
      for (ValueId& v : node.outputs) v = v == kNoValue ? kNoValue : CopyValue(v, to);
      RETURN_IF_ERROR(ResolveAttributes(node.attributes));
      const std::vector<RegionId> bodies = BodiesOf(node);
      const NodeId copy = graph_.AddNode(std::move(node));
      KnowConstant(graph_, copy);  // its attribute may have come with the call
      if (from == kMainRegion) made_.push_back(copy);
      RETURN_IF_ERROR(CopyBodies(copy, bodies));
    }
    return OkStatus();
  }

  Status CopyBodies(NodeId copy, const std::vector<RegionId>& bodies) {
    int depth = bodies.empty() ? 0 : 1;
    for (RegionId r = graph_.node(copy).region; r > kMainRegion && depth > 0; r = graph_.region(r).parent) ++depth;
    if (depth > kMaxBodyDepth) return Unsupported("its functions nest graphs more than {} deep", kMaxBodyDepth);
    std::map<RegionId, RegionId> regions;
    for (RegionId body : bodies) regions[body] = graph_.AddRegion(graph_.node(copy).region, copy);
    for (Attribute& a : graph_.node(copy).attributes.list()) {
      if (auto* one = std::get_if<BodyRef>(&a.value)) one->region = regions.at(one->region);
      if (auto* many = std::get_if<std::vector<BodyRef>>(&a.value)) {
        for (BodyRef& ref : *many) ref.region = regions.at(ref.region);
      }
    }
    for (const auto& [from, to] : regions) {
      const Region& source = function_.body.region(from);
      graph_.region(to).name = source.name;
      graph_.region(to).extra = source.extra;
      for (ValueId v : source.initializers) {
        const ValueId copied = CopyValue(v, to);
        graph_.region(to).initializers.push_back(copied);
      }
      for (ValueId v : source.inputs) {
        const auto known = values_.find(v);  // an initializer may be an input too
        const ValueId copied = known != values_.end() ? known->second : CopyValue(v, to);
        graph_.region(to).inputs.push_back(copied);
      }
      RETURN_IF_ERROR(CopyNodes(from, to));
      for (ValueId v : source.outputs) graph_.AddOutput(to, Mapped(v));
    }
    return OkStatus();
  }

  // What refers to the function's attributes gets the call's values, or the defaults, or goes.
  Status ResolveAttributes(Attributes& attributes) const {
    std::vector<Attribute> out;
    for (Attribute& a : attributes.list()) {
      if (a.ref_name.empty()) {
        out.push_back(std::move(a));
        continue;
      }
      const Attribute* value = call_.attributes.Find(a.ref_name);
      if (value == nullptr) value = defaults_.Find(a.ref_name);
      if (value == nullptr) continue;
      if (std::holds_alternative<BodyRef>(value->value))
        return Unsupported("function {} takes a graph", function_.name);
      Attribute resolved = *value;
      resolved.name = a.name;
      out.push_back(std::move(resolved));
    }
    attributes.list() = std::move(out);
    return OkStatus();
  }

  Graph& graph_;
  NodeId call_id_;
  const Node call_;
  const Function& function_;
  const Attributes& defaults_;
  std::string prefix_;
  std::vector<NodeId> made_;
  std::unordered_map<ValueId, ValueId> values_;  // of the body, to the graph's
};

bool IsDefault(const std::string& domain) { return domain.empty() || domain == "ai.onnx"; }

// One opset for all, and every other domain that a body needs.
Status AgreeOnOpsets(Model& model) {
  int64_t newest = model.OpsetOf("");
  bool differ = false;
  for (const Function& f : model.functions) {
    for (const auto& [domain, version] : f.opsets) {
      if (!IsDefault(domain)) {
        if (model.OpsetOf(domain) == 0) model.SetOpset(domain, version);
        continue;
      }
      differ = differ || version != model.OpsetOf("");
      newest = std::max(newest, version);
    }
  }
  if (!differ) return OkStatus();
  if (model.OpsetOf("") == 0) model.SetOpset("", newest);
  return RaiseOpset(model, newest);
}

using Callees = std::map<Key, std::pair<const Function*, Attributes>>;

// Expands the calls of one region; false when there is none.
StatusOr<bool> ExpandRegion(Graph& graph, RegionId region, const Callees& callees) {
  const auto callee = [&](NodeId n) {
    const Node& node = graph.node(n);
    return callees.find(KeyOf(node.domain, node.op_type, node.overload));
  };
  const std::vector<NodeId> order = graph.region(region).nodes;
  const bool any = std::any_of(order.begin(), order.end(), [&](NodeId n) { return callee(n) != callees.end(); });
  if (!any) return false;
  // The order is made anew in one go: moving each node to its place would be quadratic.
  std::vector<NodeId> expanded;
  for (NodeId n : order) {
    const auto found = callee(n);
    if (found == callees.end()) {
      expanded.push_back(n);
      continue;
    }
    const auto& [function, defaults] = found->second;
    ASSIGN_OR_RETURN(const std::vector<NodeId> made, Expansion(graph, n, *function, defaults).Run());
    expanded.insert(expanded.end(), made.begin(), made.end());
    graph.region(region).nodes = {n};
    graph.RemoveNode(n);
  }
  graph.region(region).nodes = std::move(expanded);
  return true;
}

}  // namespace

Status InlineFunctions(Model& model) {
  if (model.functions.empty()) return OkStatus();
  RETURN_IF_ERROR(AgreeOnOpsets(model));
  Callees callees;
  for (const Function& f : model.functions) {
    ASSIGN_OR_RETURN(Attributes defaults, DefaultsOf(f));
    callees.emplace(KeyOf(f.domain, f.name, f.overload), std::pair(&f, std::move(defaults)));
  }
  // What a pass copied may call in turn; how deep and how often is bounded (FromProto).
  for (bool expanded = true; expanded;) {
    expanded = false;
    for (RegionId r = 0; r < model.graph.region_count(); ++r) {
      ASSIGN_OR_RETURN(const bool any, ExpandRegion(model.graph, r, callees));
      expanded = expanded || any;
    }
  }
  model.functions.clear();
  return Verify(model.graph);
}

}  // namespace quant
