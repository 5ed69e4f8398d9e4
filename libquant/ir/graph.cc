#include "libquant/ir/graph.h"

#include <algorithm>
#include <functional>

namespace quant {

Graph::Graph() { regions_.emplace_back(); }

std::vector<RegionId> BodiesOf(const Node& node) {
  std::vector<RegionId> out;
  for (const Attribute& a : node.attributes.list()) {
    if (const auto* one = std::get_if<BodyRef>(&a.value)) out.push_back(one->region);
    if (const auto* many = std::get_if<std::vector<BodyRef>>(&a.value)) {
      for (BodyRef ref : *many) out.push_back(ref.region);
    }
  }
  return out;
}

std::vector<NodeId> Graph::AllNodes() const {
  std::vector<NodeId> out;
  const std::function<void(RegionId)> walk = [&](RegionId id) {
    for (NodeId n : region(id).nodes) {
      out.push_back(n);
      for (RegionId body : BodiesOf(node(n))) walk(body);
    }
  };
  walk(kMainRegion);
  return out;
}

std::string Graph::NodeLabel(NodeId id) const {
  const Node& n = node(id);
  if (!n.name.empty()) return n.name;
  for (ValueId v : n.outputs) {
    if (v != kNoValue) return fmt::format("{} -> {}", n.op_type, value(v).name);
  }
  return fmt::format("{}#{}", n.op_type, id);
}

RegionId Graph::AddRegion(RegionId parent, NodeId owner) {
  Region r;
  r.parent = parent;
  r.owner = owner;
  regions_.push_back(std::move(r));
  return region_count() - 1;
}

ValueId Graph::AddValue(Value value) {
  names_.insert(value.name);
  values_.push_back(std::move(value));
  unread_.push_back(value_count() - 1);
  return value_count() - 1;
}

ValueId Graph::AddConstant(std::string_view name_hint, Tensor tensor, RegionId where) {
  Value value;
  value.name = FreshName(name_hint);
  value.dtype = tensor.dtype();
  value.shape = ShapeOf(tensor.dims());
  value.region = where;
  value.constant = tensor;
  value.is_initializer = !is_function;
  const ValueId id = AddValue(std::move(value));
  if (!is_function) {
    region(where).initializers.push_back(id);
    return id;
  }
  Node maker;
  maker.op_type = "Constant";
  maker.region = where;
  maker.outputs = {id};
  maker.attributes.Set("value", std::move(tensor));
  const NodeId node = AddNode(std::move(maker));
  MoveBefore(node, region(where).nodes.front());
  return id;
}

NodeId Graph::AddNode(Node n) {
  const NodeId id = node_count();
  if (!n.name.empty()) names_.insert(n.name);
  for (size_t i = 0; i < n.inputs.size(); ++i) AddUse(n.inputs[i], {id, static_cast<int32_t>(i), n.region});
  for (size_t i = 0; i < n.outputs.size(); ++i) {
    if (n.outputs[i] == kNoValue) continue;
    value(n.outputs[i]).producer = id;
    value(n.outputs[i]).output_index = static_cast<int32_t>(i);
  }
  places_.push_back(region(n.region).nodes.size());
  region(n.region).nodes.push_back(id);
  nodes_.push_back(std::move(n));
  return id;
}

void Graph::AddOutput(RegionId r, ValueId v) {
  AddUse(v, {kNoNode, static_cast<int32_t>(region(r).outputs.size()), r});
  region(r).outputs.push_back(v);
}

void Graph::AddUse(ValueId v, Use use) {
  if (v != kNoValue) value(v).uses.push_back(use);
}

void Graph::DropUse(ValueId v, Use use) {
  if (v == kNoValue) return;
  auto& uses = value(v).uses;
  auto it = std::find(uses.begin(), uses.end(), use);
  if (it != uses.end()) uses.erase(it);
  if (uses.empty()) unread_.push_back(v);
}

void Graph::SetInput(NodeId n, int32_t index, ValueId v) {
  Node& target = node(n);
  const auto i = static_cast<size_t>(index);
  if (i >= target.inputs.size()) target.inputs.resize(i + 1, kNoValue);
  const Use use{n, index, target.region};
  DropUse(target.inputs[i], use);
  target.inputs[i] = v;
  AddUse(v, use);
}

void Graph::SetOutput(RegionId r, int32_t index, ValueId v) {
  const Use use{kNoNode, index, r};
  ValueId& slot = region(r).outputs[static_cast<size_t>(index)];
  DropUse(slot, use);
  slot = v;
  AddUse(v, use);
}

void Graph::ReplaceUses(ValueId from, ValueId to) {
  const std::vector<Use> uses = value(from).uses;
  for (const Use& use : uses) {
    if (use.node == kNoNode) {
      SetOutput(use.region, use.index, to);
    } else {
      SetInput(use.node, use.index, to);
    }
  }
}

void Graph::RemoveNode(NodeId id) {
  Node& n = node(id);
  for (RegionId body : BodiesOf(n)) {
    const std::vector<NodeId> inside = region(body).nodes;
    for (size_t i = 0; i < region(body).outputs.size(); ++i) {
      DropUse(region(body).outputs[i], {kNoNode, static_cast<int32_t>(i), body});
    }
    for (auto it = inside.rbegin(); it != inside.rend(); ++it) RemoveNode(*it);
    for (ValueId v : region(body).inputs) value(v).removed = true;
    for (ValueId v : region(body).initializers) value(v).removed = true;
    region(body).removed = true;
  }
  for (size_t i = 0; i < n.inputs.size(); ++i) DropUse(n.inputs[i], {id, static_cast<int32_t>(i), n.region});
  for (ValueId v : n.outputs) {
    if (v != kNoValue) value(v).removed = true;
  }
  n.removed = true;
  auto& order = region(n.region).nodes;
  order.erase(order.begin() + static_cast<ptrdiff_t>(PlaceOf(id)));
}

size_t Graph::PlaceOf(NodeId id) {
  const auto& order = region(node(id).region).nodes;
  const auto at = [&](ptrdiff_t i) { return i >= 0 && i < std::ssize(order) && order[static_cast<size_t>(i)] == id; };
  const auto noted = static_cast<ptrdiff_t>(places_[static_cast<size_t>(id)]);
  // Edits go through the order from front to back, so neighbours have moved by about the same.
  const ptrdiff_t guess = std::clamp<ptrdiff_t>(noted + drift_, 0, std::ssize(order) - 1);
  ptrdiff_t away = 0;
  while (!at(guess + away) && !at(guess - away) && away < std::ssize(order)) ++away;
  const ptrdiff_t found = at(guess + away) ? guess + away : guess - away;
  drift_ = found - noted;
  return static_cast<size_t>(found);
}

void Graph::NotePlaces(const Region& r) {
  for (size_t i = 0; i < r.nodes.size(); ++i) places_[static_cast<size_t>(r.nodes[i])] = i;
}

void Graph::MoveBefore(NodeId id, NodeId before) {
  auto& order = region(node(id).region).nodes;
  order.erase(order.begin() + static_cast<ptrdiff_t>(PlaceOf(id)));
  const size_t place = PlaceOf(before);
  order.insert(order.begin() + static_cast<ptrdiff_t>(place), id);
  places_[static_cast<size_t>(id)] = place;
}

std::string Graph::FreshName(std::string_view hint) {
  std::string base(hint.empty() ? "value" : hint);
  if (names_.insert(base).second) return base;
  int& number = numbers_[base];  // names below it are taken
  std::string name;
  do {
    name = fmt::format("{}_{}", base, ++number);
  } while (!names_.insert(name).second);
  return name;
}

bool Graph::IsUnused(const Node& n) const {
  return !n.outputs.empty() && std::all_of(n.outputs.begin(), n.outputs.end(),
                                           [&](ValueId v) { return v == kNoValue || value(v).uses.empty(); });
}

int Graph::RemoveOrphans() {
  int removed = 0;
  while (!unread_.empty()) {
    const Value& v = value(unread_.back());
    unread_.pop_back();
    if (v.removed || v.producer == kNoNode || !IsUnused(node(v.producer))) continue;
    RemoveNode(v.producer);
    ++removed;
  }
  return removed;
}

int Graph::RemoveUnused() {
  int removed = 0;
  bool again = true;
  while (again) {
    again = false;
    std::vector<NodeId> order = AllNodes();
    for (auto it = order.rbegin(); it != order.rend(); ++it) {
      if (node(*it).removed || !IsUnused(node(*it))) continue;
      RemoveNode(*it);
      ++removed;
      again = true;
    }
  }
  for (Region& r : regions_) {
    if (r.removed) continue;
    std::erase_if(r.initializers, [&](ValueId v) {
      Value& x = value(v);
      if (!x.uses.empty() || x.is_input || !x.constant) return false;
      x.removed = true;
      ++removed;
      return true;
    });
    NotePlaces(r);
  }
  unread_.clear();
  drift_ = 0;
  return removed;
}

Status Graph::SortTopologically() {
  // Depth-first from each node in file order, dependencies first: a sorted file comes out as it was.
  enum : char { kNew, kOpen, kDone };
  std::vector<char> state(nodes_.size(), kNew);
  // What a node needs of its own region: producers of its inputs, and of what its bodies capture.
  std::vector<std::vector<NodeId>> needs(nodes_.size());
  for (NodeId n = 0; n < node_count(); ++n) {
    if (node(n).removed) continue;
    const auto need = [&](ValueId v) {
      if (v == kNoValue || value(v).producer == kNoNode) return;
      NodeId reader = n;  // climb to the node that stands in the producer's region
      while (reader != kNoNode && node(reader).region != value(v).region) reader = region(node(reader).region).owner;
      if (reader != kNoNode) needs[static_cast<size_t>(reader)].push_back(value(v).producer);
    };
    for (ValueId v : node(n).inputs) need(v);
    for (RegionId body : BodiesOf(node(n))) {
      for (ValueId v : region(body).outputs) {
        if (v != kNoValue && value(v).region != body) need(v);
      }
    }
  }
  for (Region& r : regions_) {
    if (r.removed) continue;
    std::vector<NodeId> sorted;
    sorted.reserve(r.nodes.size());
    std::vector<std::pair<NodeId, size_t>> stack;
    for (NodeId root : r.nodes) {
      if (state[static_cast<size_t>(root)] != kNew) continue;
      stack.push_back({root, 0});
      state[static_cast<size_t>(root)] = kOpen;
      while (!stack.empty()) {
        auto& [n, next] = stack.back();
        const auto& wanted = needs[static_cast<size_t>(n)];
        if (next == wanted.size()) {
          state[static_cast<size_t>(n)] = kDone;
          sorted.push_back(n);
          stack.pop_back();
          continue;
        }
        const NodeId dependency = wanted[next++];
        char& seen = state[static_cast<size_t>(dependency)];
        if (seen == kOpen) return DataError("node {} depends on its own output (a cycle)", NodeLabel(dependency));
        if (seen == kNew) {
          seen = kOpen;
          stack.push_back({dependency, 0});
        }
      }
    }
    r.nodes = std::move(sorted);
    NotePlaces(r);
  }
  return OkStatus();
}

int64_t Model::OpsetOf(std::string_view domain) const {
  const auto canonical = [](std::string_view d) { return d == "ai.onnx" ? std::string_view("") : d; };
  for (const OpsetImport& o : opsets) {
    if (canonical(o.domain) == canonical(domain)) return o.version;
  }
  return 0;
}

void Model::SetOpset(std::string_view domain, int64_t version) {
  for (OpsetImport& o : opsets) {
    if (o.domain == domain || (domain.empty() && o.domain == "ai.onnx")) {
      o.version = version;
      return;
    }
  }
  opsets.push_back({std::string(domain), version});
}

}  // namespace quant
