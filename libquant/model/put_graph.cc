#include <limits>
#include <unordered_map>
#include <unordered_set>

#include "libquant/model/proto_parts.h"

namespace quant {
namespace {

// Whether a type that was kept whole says nothing false about a value. It may say less.
bool Agrees(const onnx::TypeProto& type, const Value& value) {
  DType dtype = DType::kUndefined;
  std::optional<Shape> shape;
  TypeFromProto(type, &dtype, &shape);
  if (dtype != DType::kUndefined && dtype != value.dtype) return false;
  if (!shape || !value.shape) return true;
  if (shape->size() != value.shape->size()) return false;
  for (size_t i = 0; i < shape->size(); ++i) {
    const Dim &said = (*shape)[i], &is = (*value.shape)[i];
    if (said.known() && is.known() && said.value != is.value) return false;
  }
  return true;
}

StatusOr<onnx::ValueInfoProto> InfoOf(const Value& value) {
  onnx::ValueInfoProto out;
  if (!value.info_extra.empty() && !ParseMessage(value.info_extra, &out)) {
    return BugError("what was kept of {}'s type does not parse", value.name);
  }
  out.set_name(value.name);
  const bool kept_whole = value.constant && !value.info_extra.empty();  // see SetInfo
  if (kept_whole && Agrees(out.type(), value)) return out;
  if (value.dtype != DType::kUndefined || value.shape) TypeToProto(value.dtype, value.shape, out.mutable_type());
  return out;
}

class GraphPutter {
 public:
  GraphPutter(const Graph& graph, const SkeletonOptions& options, std::vector<Tensor>* payloads)
      : graph_(graph), options_(options), payloads_(payloads) {
    for (ValueId v = 0; v < graph.value_count(); ++v) {
      if (!graph.value(v).removed) by_region_[graph.value(v).region].push_back(v);
    }
  }

  Status PutRegion(RegionId id, onnx::GraphProto* proto) {
    const Region& region = graph_.region(id);
    if (!region.extra.empty() && !ParseMessage(region.extra, proto)) {
      return BugError("what was kept of graph '{}' does not parse", region.name);
    }
    if (!region.name.empty()) proto->set_name(region.name);
    for (ValueId v : region.inputs) {
      ASSIGN_OR_RETURN(*proto->add_input(), InfoOf(graph_.value(v)));
    }
    for (ValueId v : region.initializers) RETURN_IF_ERROR(PutInitializer(graph_.value(v), proto));
    RETURN_IF_ERROR(PutNodes(region, proto->mutable_node()));
    std::unordered_set<ValueId> typed_by_output;
    RETURN_IF_ERROR(PutOutputs(id, proto, &typed_by_output));
    return PutInfos(id, typed_by_output, proto->mutable_value_info());
  }

  Status PutFunction(onnx::FunctionProto* proto) {
    const Region& region = graph_.main();
    for (ValueId v : region.inputs) proto->add_input(graph_.value(v).name);
    for (ValueId v : region.outputs) proto->add_output(graph_.value(v).name);
    if (!region.initializers.empty()) return BugError("a function can't hold initializers");
    RETURN_IF_ERROR(PutNodes(region, proto->mutable_node()));
    return PutInfos(kMainRegion, {}, proto->mutable_value_info());
  }

 private:
  Status PutInitializer(const Value& value, onnx::GraphProto* proto) {
    if (!value.constant) return OkStatus();  // sparse: it is in the region's extra
    auto* tensor = proto->add_initializer();
    if (!value.tensor_extra.empty() && !ParseMessage(value.tensor_extra, tensor)) {
      return BugError("what was kept of initializer {} does not parse", value.name);
    }
    tensor->set_name(value.name);
    return PutTensor(*value.constant, payloads_, tensor);
  }

  Status PutNodes(const Region& region, google::protobuf::RepeatedPtrField<onnx::NodeProto>* nodes) {
    const PutBody put_body = [this](RegionId body, onnx::GraphProto* g) { return PutRegion(body, g); };
    for (NodeId n : region.nodes) {
      const Node& node = graph_.node(n);
      auto* proto = nodes->Add();
      if (!node.extra.empty() && !ParseMessage(node.extra, proto)) {
        return BugError("what was kept of node {} does not parse", graph_.NodeLabel(n));
      }
      for (ValueId v : node.inputs) proto->add_input(v == kNoValue ? "" : graph_.value(v).name);
      for (ValueId v : node.outputs) proto->add_output(v == kNoValue ? "" : graph_.value(v).name);
      if (!node.name.empty()) proto->set_name(node.name);
      proto->set_op_type(node.op_type);
      if (!node.domain.empty()) proto->set_domain(node.domain);
      if (!node.overload.empty()) proto->set_overload(node.overload);
      for (const Attribute& a : node.attributes.list()) {
        RETURN_IF_ERROR(PutAttribute(a, payloads_, put_body, proto->add_attribute()));
      }
    }
    return OkStatus();
  }

  // The extra holds infos of outputs whose type their value does not carry: see GraphTaker::TakeOutputs.
  Status PutOutputs(RegionId id, onnx::GraphProto* proto, std::unordered_set<ValueId>* typed_by_output) {
    google::protobuf::RepeatedPtrField<onnx::ValueInfoProto> kept;
    kept.Swap(proto->mutable_output());
    std::unordered_map<std::string, std::vector<const onnx::ValueInfoProto*>> kept_by_name;
    for (auto it = kept.rbegin(); it != kept.rend(); ++it) kept_by_name[it->name()].push_back(&*it);
    for (ValueId v : graph_.region(id).outputs) {
      const Value& value = graph_.value(v);
      const bool carries = value.region == id && !value.is_input && typed_by_output->insert(v).second;
      auto& infos = kept_by_name[value.name];
      if (!carries && !infos.empty()) {
        *proto->add_output() = *infos.back();
        infos.pop_back();
        continue;
      }
      ASSIGN_OR_RETURN(*proto->add_output(), InfoOf(value));
    }
    return OkStatus();
  }

  // Infos that values carry, then those kept in the extra as far as they still contradict nothing.
  Status PutInfos(RegionId id, const std::unordered_set<ValueId>& typed_by_output,
                  google::protobuf::RepeatedPtrField<onnx::ValueInfoProto>* infos) {
    google::protobuf::RepeatedPtrField<onnx::ValueInfoProto> kept;
    kept.Swap(infos);
    for (ValueId v : by_region_[id]) {
      const Value& value = graph_.value(v);
      const bool has_type = value.dtype != DType::kUndefined || value.shape;
      const bool inferred = options_.inferred_types && has_type && !value.is_initializer;
      if (value.is_input || typed_by_output.count(v) > 0 || !(value.has_info || inferred)) continue;
      ASSIGN_OR_RETURN(*infos->Add(), InfoOf(value));
    }
    std::unordered_map<std::string, ValueId> here;
    for (ValueId v : by_region_[id]) here.emplace(graph_.value(v).name, v);
    for (auto& info : kept) {
      const auto it = here.find(info.name());
      const bool keep = it == here.end() || Agrees(info.type(), graph_.value(it->second));
      if (keep) *infos->Add() = std::move(info);
    }
    return OkStatus();
  }

  const Graph& graph_;
  const SkeletonOptions& options_;
  std::vector<Tensor>* payloads_;
  std::unordered_map<RegionId, std::vector<ValueId>> by_region_;
};

}  // namespace

Status PutGraph(const Graph& graph, const SkeletonOptions& options, std::vector<Tensor>* payloads,
                onnx::GraphProto* proto) {
  return GraphPutter(graph, options, payloads).PutRegion(kMainRegion, proto);
}

Status PutFunction(const Function& function, const SkeletonOptions& options, std::vector<Tensor>* payloads,
                   onnx::FunctionProto* proto) {
  if (!function.extra.empty() && !ParseMessage(function.extra, proto)) {
    return BugError("what was kept of function {} does not parse", function.name);
  }
  if (!function.domain.empty()) proto->set_domain(function.domain);
  proto->set_name(function.name);
  if (!function.overload.empty()) proto->set_overload(function.overload);
  for (const std::string& attribute : function.attributes) proto->add_attribute(attribute);
  for (const auto& [domain, version] : function.opsets) {
    auto* opset = proto->add_opset_import();
    if (!domain.empty()) opset->set_domain(domain);
    opset->set_version(version);
  }
  return GraphPutter(function.body, options, payloads).PutFunction(proto);
}

}  // namespace quant
