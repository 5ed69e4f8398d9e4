#include <unordered_map>
#include <unordered_set>

#include "libquant/model/proto_parts.h"

namespace quant {
namespace {

// The names one graph defines; a body sees its own and those of every graph around it.
struct Scope {
  const Scope* parent = nullptr;
  std::unordered_map<std::string, ValueId> names;

  ValueId FindHere(const std::string& name) const {
    const auto it = names.find(name);
    return it == names.end() ? kNoValue : it->second;
  }
  ValueId Find(const std::string& name) const {
    for (const Scope* s = this; s != nullptr; s = s->parent) {
      if (const ValueId v = s->FindHere(name); v != kNoValue) return v;
    }
    return kNoValue;
  }
};

// Moves dtype and shape out of an info's type. A constant's type is its tensor's, so what its info says (a named dim,
// no shape, no type at all) is kept whole beside it.
void SetInfo(onnx::ValueInfoProto* info, Value* value) {
  info->clear_name();
  if (info->has_type() && !value->constant) {
    TakeType(info->mutable_type(), &value->dtype, &value->shape);
    if (info->type().ByteSizeLong() == 0) info->clear_type();
  }
  value->info_extra = Leftovers(*info);
}

void SetConstant(Tensor tensor, Value* value) {
  value->dtype = tensor.dtype();
  value->shape = ShapeOf(tensor.dims());
  value->constant = std::move(tensor);
}

// The order of work: every name of a graph is defined before any is looked up, since nodes may come unsorted; infos
// come last, when it is known which values are constants.
class GraphTaker {
 public:
  GraphTaker(const ProtoContext& context, Graph* graph) : context_(context), graph_(*graph) {}

  Status TakeRegion(onnx::GraphProto* proto, RegionId region, const Scope* parent, int depth) {
    if (depth > kMaxBodyDepth) {
      return DataError("graphs are nested more than {} deep, which no real model is", kMaxBodyDepth);
    }
    Scope scope;
    scope.parent = parent;
    graph_.region(region).name = std::move(*proto->mutable_name());
    proto->clear_name();
    for (const auto& input : proto->input()) RETURN_IF_ERROR(AddInput(input.name(), region, &scope));
    for (auto& tensor : *proto->mutable_initializer()) RETURN_IF_ERROR(AddInitializer(&tensor, region, &scope));
    proto->clear_initializer();
    for (auto& sparse : *proto->mutable_sparse_initializer()) RETURN_IF_ERROR(AddSparse(&sparse, region, &scope));
    RETURN_IF_ERROR(TakeNodes(proto->mutable_node(), region, &scope, depth));
    proto->clear_node();
    RETURN_IF_ERROR(TakeOutputs(proto, region, scope));
    for (auto& input : *proto->mutable_input()) {
      Value& value = graph_.value(scope.FindHere(input.name()));
      SetInfo(&input, &value);
    }
    proto->clear_input();
    TakeInfos(proto->mutable_value_info(), scope);
    graph_.region(region).extra = Leftovers(*proto);
    return OkStatus();
  }

  Status TakeFunction(onnx::FunctionProto* proto) {
    Scope scope;
    for (const std::string& input : proto->input()) RETURN_IF_ERROR(AddInput(input, kMainRegion, &scope));
    proto->clear_input();
    RETURN_IF_ERROR(TakeNodes(proto->mutable_node(), kMainRegion, &scope, 0));
    proto->clear_node();
    for (const std::string& output : proto->output()) {
      const ValueId v = scope.Find(output);
      if (v == kNoValue) return DataError("its output '{}' is made by no node", output);
      graph_.AddOutput(kMainRegion, v);
    }
    proto->clear_output();
    TakeInfos(proto->mutable_value_info(), scope);
    return OkStatus();
  }

  // Names that only value_info mentions must not be given to new values: their types would clash.
  void ReserveNames() {
    for (const std::string& name : stray_names_) graph_.FreshName(name);
  }

 private:
  StatusOr<ValueId> Define(Value value, Scope* scope, const char* what) {
    if (value.name.empty()) return DataError("{} has no name", what);
    if (scope->FindHere(value.name) != kNoValue) {
      return DataError("'{}' is defined twice in one graph (again as {})", value.name, what);
    }
    std::string name = value.name;
    const ValueId id = graph_.AddValue(std::move(value));
    scope->names.emplace(std::move(name), id);
    return id;
  }

  Status AddInput(const std::string& name, RegionId region, Scope* scope) {
    Value value;
    value.name = name;
    value.region = region;
    value.is_input = true;
    ASSIGN_OR_RETURN(const ValueId id, Define(std::move(value), scope, "a graph input"));
    graph_.region(region).inputs.push_back(id);
    return OkStatus();
  }

  // The input of that name when there is one and no other initializer has claimed it, else a new value.
  StatusOr<ValueId> DefineInitializer(const std::string& name, RegionId region, Scope* scope) {
    const ValueId known = scope->FindHere(name);
    if (known != kNoValue && graph_.value(known).is_input && !graph_.value(known).is_initializer) {
      graph_.value(known).is_initializer = true;
      graph_.region(region).initializers.push_back(known);
      return known;
    }
    Value value;
    value.name = name;
    value.region = region;
    value.is_initializer = true;
    ASSIGN_OR_RETURN(const ValueId id, Define(std::move(value), scope, "an initializer"));
    graph_.region(region).initializers.push_back(id);
    return id;
  }

  Status AddInitializer(onnx::TensorProto* proto, RegionId region, Scope* scope) {
    ASSIGN_OR_RETURN(const ValueId id, DefineInitializer(proto->name(), region, scope));
    ASSIGN_OR_RETURN(Tensor tensor, TakeTensor(proto, context_, fmt::format("initializer '{}'", proto->name())));
    proto->clear_name();
    graph_.value(id).tensor_extra = Leftovers(*proto);
    SetConstant(std::move(tensor), &graph_.value(id));
    return OkStatus();
  }

  // Stays in the region's extra; only its name and type are known here.
  Status AddSparse(onnx::SparseTensorProto* proto, RegionId region, Scope* scope) {
    const std::string& name = proto->values().name();
    ASSIGN_OR_RETURN(const ValueId id, DefineInitializer(name, region, scope));
    RETURN_IF_ERROR(InlineExternalTensors(proto, context_, fmt::format("sparse initializer '{}'", name)));
    Value& value = graph_.value(id);
    value.dtype = DTypeFromNumber(proto->values().data_type());
    value.shape = ShapeOf(Dims(proto->dims().begin(), proto->dims().end()));
    return OkStatus();
  }

  Status TakeNodes(google::protobuf::RepeatedPtrField<onnx::NodeProto>* nodes, RegionId region, Scope* scope,
                   int depth) {
    for (const onnx::NodeProto& node : *nodes) {
      for (const std::string& output : node.output()) {
        if (output.empty()) continue;
        Value value;
        value.name = output;
        value.region = region;
        auto id = Define(std::move(value), scope, "a node's output");
        if (!id.ok()) return WithContext(id.status(), LabelOf(node));
      }
    }
    for (onnx::NodeProto& node : *nodes) RETURN_IF_ERROR(TakeNode(&node, region, *scope, depth));
    return OkStatus();
  }

  static std::string LabelOf(const onnx::NodeProto& node) {
    if (!node.name().empty()) return fmt::format("{} node '{}'", node.op_type(), node.name());
    return fmt::format("{} node -> '{}'", node.op_type(), node.output_size() > 0 ? node.output(0) : "");
  }

  Status TakeNode(onnx::NodeProto* proto, RegionId region, const Scope& scope, int depth) {
    const std::string label = LabelOf(*proto);
    Node node;
    node.region = region;
    for (const std::string& input : proto->input()) {
      const ValueId v = input.empty() ? kNoValue : scope.Find(input);
      if (v == kNoValue && !input.empty()) {
        return DataError("{} reads '{}', which no input, initializer or node of the graph defines", label, input);
      }
      node.inputs.push_back(v);
    }
    for (const std::string& output : proto->output()) node.outputs.push_back(scope.FindHere(output));
    node.name = std::move(*proto->mutable_name());
    node.op_type = std::move(*proto->mutable_op_type());
    node.domain = std::move(*proto->mutable_domain());
    node.overload = std::move(*proto->mutable_overload());
    if (node.op_type.empty()) return DataError("{} has no operator type", label);
    std::vector<onnx::GraphProto> bodies;
    for (auto& attribute : *proto->mutable_attribute()) {
      ASSIGN_OR_RETURN(Attribute taken, TakeAttribute(&attribute, context_, label, &bodies));
      if (node.attributes.Has(taken.name)) return DataError("{} has two attributes '{}'", label, taken.name);
      node.attributes.list().push_back(std::move(taken));
    }
    for (auto clear : {&onnx::NodeProto::clear_input, &onnx::NodeProto::clear_output, &onnx::NodeProto::clear_name,
                       &onnx::NodeProto::clear_op_type, &onnx::NodeProto::clear_domain,
                       &onnx::NodeProto::clear_overload, &onnx::NodeProto::clear_attribute}) {
      (proto->*clear)();
    }
    node.extra = Leftovers(*proto);
    const NodeId id = graph_.AddNode(std::move(node));
    RETURN_IF_ERROR(TakeBodies(id, &bodies, scope, depth));
    KnowConstant(graph_, id);
    return OkStatus();
  }

  Status TakeBodies(NodeId id, std::vector<onnx::GraphProto>* bodies, const Scope& scope, int depth) {
    if (bodies->empty()) return OkStatus();
    const RegionId parent = graph_.node(id).region;
    std::vector<RegionId> regions;
    for (size_t i = 0; i < bodies->size(); ++i) regions.push_back(graph_.AddRegion(parent, id));
    size_t next = 0;
    for (Attribute& a : graph_.node(id).attributes.list()) {
      if (auto* one = std::get_if<BodyRef>(&a.value)) one->region = regions[next++];
      if (auto* many = std::get_if<std::vector<BodyRef>>(&a.value)) {
        for (BodyRef& ref : *many) ref.region = regions[next++];
      }
    }
    for (size_t i = 0; i < bodies->size(); ++i) {
      RETURN_IF_ERROR(TakeRegion(&(*bodies)[i], regions[i], &scope, depth + 1));
    }
    return OkStatus();
  }

  // An output's info belongs to the value when it is the graph's own and no input; otherwise (captured, passed
  // through, listed twice) it stays in the region's extra under its name.
  Status TakeOutputs(onnx::GraphProto* proto, RegionId region, const Scope& scope) {
    google::protobuf::RepeatedPtrField<onnx::ValueInfoProto> kept;
    std::unordered_set<ValueId> seen;
    for (auto& output : *proto->mutable_output()) {
      const ValueId v = output.name().empty() ? kNoValue : scope.Find(output.name());
      if (v == kNoValue) return DataError("graph output '{}' is made by no node", output.name());
      graph_.AddOutput(region, v);
      if (graph_.value(v).region == region && !graph_.value(v).is_input && seen.insert(v).second) {
        SetInfo(&output, &graph_.value(v));
        outputs_.insert(v);
      } else {
        *kept.Add() = std::move(output);
      }
    }
    proto->mutable_output()->Swap(&kept);
    return OkStatus();
  }

  void TakeInfos(google::protobuf::RepeatedPtrField<onnx::ValueInfoProto>* infos, const Scope& scope) {
    google::protobuf::RepeatedPtrField<onnx::ValueInfoProto> kept;
    for (auto& info : *infos) {
      const ValueId v = scope.FindHere(info.name());
      if (v == kNoValue && !info.name().empty()) stray_names_.push_back(info.name());
      if (v == kNoValue || graph_.value(v).is_input || outputs_.count(v) > 0 || graph_.value(v).has_info) {
        *kept.Add() = std::move(info);
        continue;
      }
      graph_.value(v).has_info = true;
      SetInfo(&info, &graph_.value(v));
    }
    infos->Swap(&kept);
  }

  const ProtoContext& context_;
  Graph& graph_;
  std::unordered_set<ValueId> outputs_;  // whose info came from their graph's outputs
  std::vector<std::string> stray_names_;
};

}  // namespace

void KnowConstant(Graph& graph, NodeId id) {
  const Node& node = graph.node(id);
  if (node.op_type != "Constant" || !(node.domain.empty() || node.domain == "ai.onnx")) return;
  if (node.outputs.size() != 1 || node.outputs[0] == kNoValue) return;
  for (const Attribute& a : node.attributes.list()) {
    if (auto tensor = ConstantOf(a)) return SetConstant(*std::move(tensor), &graph.value(node.outputs[0]));
  }
}

std::string Leftovers(const google::protobuf::Message& message) {
  return message.ByteSizeLong() == 0 ? std::string() : SerializeMessage(message);
}

void TakeType(onnx::TypeProto* type, DType* dtype, std::optional<Shape>* shape) {
  TypeFromProto(*type, dtype, shape);
  if (!type->has_tensor_type()) return;
  auto* tensor = type->mutable_tensor_type();
  if (*dtype != DType::kUndefined) tensor->clear_elem_type();
  if (tensor->has_shape()) {
    bool left = false;
    for (auto& dim : *tensor->mutable_shape()->mutable_dim()) {
      if (dim.dim_value() >= 0 && dim.has_dim_value()) dim.clear_dim_value();
      if (!dim.dim_param().empty()) dim.clear_dim_param();
      left = left || dim.ByteSizeLong() > 0;
    }
    if (!left) tensor->mutable_shape()->clear_dim();
    if (tensor->shape().ByteSizeLong() == 0) tensor->clear_shape();
  }
  // The dtype alone says that it was a tensor.
  if (*dtype != DType::kUndefined && tensor->ByteSizeLong() == 0) type->clear_tensor_type();
}

Status TakeGraph(onnx::GraphProto* proto, const ProtoContext& context, Graph* graph) {
  GraphTaker taker(context, graph);
  RETURN_IF_ERROR(taker.TakeRegion(proto, kMainRegion, nullptr, 0));
  taker.ReserveNames();
  return OkStatus();
}

Status TakeFunctionBody(onnx::FunctionProto* proto, const ProtoContext& context, Graph* graph) {
  graph->is_function = true;
  GraphTaker taker(context, graph);
  RETURN_IF_ERROR(taker.TakeFunction(proto));
  taker.ReserveNames();
  return OkStatus();
}

}  // namespace quant
