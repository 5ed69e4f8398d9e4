#include "libquant/ir/edit.h"

#include <algorithm>
#include <utility>

namespace quant {

ValueRef GraphEdit::AddConstant(std::string name_hint, Tensor tensor, RegionId region) {
  const auto index = static_cast<int32_t>(values_.size());
  NewValue value{std::move(name_hint), tensor.dtype(), ShapeOf(tensor.dims()), std::move(tensor), region};
  values_.push_back(std::move(value));
  return {kNoValue, index};
}

ValueRef GraphEdit::AddNode(NewNode node, DType dtype, std::optional<Shape> shape) {
  const auto index = static_cast<int32_t>(values_.size());
  values_.push_back({node.name_hint + "_out", dtype, std::move(shape), std::nullopt, -1});
  node.outputs = {{kNoValue, index}};
  nodes_.push_back(std::move(node));
  return {kNoValue, index};
}

std::vector<ValueRef> GraphEdit::AddNode(NewNode node,
                                         const std::vector<std::pair<DType, std::optional<Shape>>>& outputs) {
  std::vector<ValueRef> refs;
  for (const auto& [dtype, shape] : outputs) {
    refs.push_back(ValueRef::None());
    if (dtype == DType::kUndefined) continue;
    refs.back().made = static_cast<int32_t>(values_.size());
    values_.push_back({node.name_hint + "_out", dtype, shape, std::nullopt, -1});
  }
  node.outputs = refs;
  nodes_.push_back(std::move(node));
  return refs;
}

// A region's output keeps its name: an existing value must be able to take it over.
bool MayTakeOver(const Graph& graph, ValueId old, ValueRef ref) {
  const auto names_output = [&](ValueId v) {
    const auto& uses = graph.value(v).uses;
    return std::any_of(uses.begin(), uses.end(), [](const Use& u) { return u.node == kNoNode; });
  };
  if (ref.made >= 0 || !names_output(old)) return true;
  const Value& with = graph.value(ref.id);
  return with.producer != kNoNode && with.region == graph.value(old).region && !names_output(ref.id);
}

Status GraphEdit::Check(const Graph& graph) const {
  const auto valid_node = [&](NodeId n) { return n >= 0 && n < graph.node_count() && !graph.node(n).removed; };
  const auto valid = [&](ValueRef r) {
    if (r.made >= 0) return static_cast<size_t>(r.made) < values_.size();
    return r.id == kNoValue || (r.id >= 0 && r.id < graph.value_count() && !graph.value(r.id).removed);
  };
  if (!valid_node(anchor_)) return BugError("an edit is anchored at a node that is not there");
  for (const NewNode& n : nodes_) {
    if (!std::all_of(n.inputs.begin(), n.inputs.end(), valid)) return BugError("an edit's {} reads nothing", n.op_type);
  }
  for (const auto& [old, n] : taken_over_) {
    if (!valid_node(old)) return BugError("an edit replaces a node that is not there");
    if (!std::all_of(n.inputs.begin(), n.inputs.end(), valid)) return BugError("an edit's {} reads nothing", n.op_type);
    if (n.name_of != kNoNode && !valid_node(n.name_of)) return BugError("an edit names a node after none");
  }
  for (const auto& [place, ref] : inputs_) {
    if (!valid_node(place.first) || !valid(ref)) return BugError("an edit rewires an input that is not there");
  }
  for (const auto& [old, ref] : replaced_) {
    if (!valid(ValueRef::Of(old)) || old == kNoValue || !valid(ref)) return BugError("an edit replaces nothing");
    if (!MayTakeOver(graph, old, ref)) {
      return BugError("an edit gives the output {} to a value that can't take its name", graph.value(old).name);
    }
    const DType before = graph.value(old).dtype;
    const DType after = ref.made >= 0 ? values_[static_cast<size_t>(ref.made)].dtype : graph.value(ref.id).dtype;
    if (before != DType::kUndefined && after != DType::kUndefined && before != after) {
      return BugError("an edit replaces {} of {} by a value of {}", graph.value(old).name, NameOf(before),
                      NameOf(after));
    }
  }
  for (NodeId n : removed_) {
    if (!valid_node(n)) return BugError("an edit removes a node that is not there");
    for (ValueId v : graph.node(n).outputs) {
      if (v == kNoValue) continue;
      const bool replaced =
          std::any_of(replaced_.begin(), replaced_.end(), [&](const auto& r) { return r.first == v; });
      if (!replaced && !graph.value(v).uses.empty())
        return BugError("an edit removes {}, which is read", graph.value(v).name);
    }
  }
  return OkStatus();
}

Status GraphEdit::ApplyTo(Graph& graph, std::vector<ValueId>* made) const {
  RETURN_IF_ERROR(Check(graph));
  const RegionId region = graph.node(anchor_).region;
  std::vector<ValueId> ids;
  for (const NewValue& v : values_) {
    if (v.constant) {
      ids.push_back(graph.AddConstant(v.name_hint, *v.constant, v.region >= 0 ? v.region : region));
      continue;
    }
    Value value;
    value.name = graph.FreshName(v.name_hint);
    value.dtype = v.dtype;
    value.shape = v.shape;
    value.region = v.region >= 0 ? v.region : region;
    ids.push_back(graph.AddValue(std::move(value)));
  }
  const auto resolve = [&](ValueRef r) { return r.made >= 0 ? ids[static_cast<size_t>(r.made)] : r.id; };
  const auto build = [&](const NewNode& n, std::string name, RegionId where) {
    Node node;
    node.name = std::move(name);
    node.op_type = n.op_type;
    node.domain = n.domain;
    node.region = where;
    node.attributes = n.attributes;
    for (ValueRef r : n.inputs) node.inputs.push_back(resolve(r));
    return node;
  };
  for (const NewNode& n : nodes_) {
    Node node = build(n, graph.FreshName(n.name_hint), region);
    for (ValueRef r : n.outputs) node.outputs.push_back(resolve(r));
    graph.MoveBefore(graph.AddNode(std::move(node)), anchor_);
  }
  for (const auto& [old, n] : taken_over_) {
    const bool renamed = n.name_of != kNoNode && !graph.node(n.name_of).name.empty();
    Node node = build(n, graph.node(renamed ? n.name_of : old).name, graph.node(old).region);
    node.outputs = std::exchange(graph.node(old).outputs, {});
    graph.MoveBefore(graph.AddNode(std::move(node)), old);
    graph.RemoveNode(old);
  }
  for (const auto& [place, ref] : inputs_) graph.SetInput(place.first, place.second, resolve(ref));
  for (const auto& [old, ref] : replaced_) {
    const ValueId to = resolve(ref);
    const auto& uses = graph.value(old).uses;
    const bool names_output = std::any_of(uses.begin(), uses.end(), [](const Use& u) { return u.node == kNoNode; });
    graph.ReplaceUses(old, to);
    // Both stand for the same tensor; a declared shape may say more than inference finds.
    if (ref.made >= 0 && !graph.value(to).shape) graph.value(to).shape = graph.value(old).shape;
    if (names_output || ref.made >= 0) {
      // The caller knows the value by this name, and so do reports: the one that it is now takes it over.
      std::swap(graph.value(old).name, graph.value(to).name);
      std::swap(graph.value(old).info_extra, graph.value(to).info_extra);
      std::swap(graph.value(old).has_info, graph.value(to).has_info);
      // It is the same tensor, and what the model says of an output stays.
      if (graph.value(old).shape && (names_output || !graph.value(to).shape)) {
        graph.value(to).shape = graph.value(old).shape;
      }
    }
  }
  for (NodeId n : removed_) graph.RemoveNode(n);
  if (made != nullptr) *made = std::move(ids);
  return OkStatus();
}

}  // namespace quant
