#include "libquant/model/kept_dims.h"

#include "libquant/model/proto.h"

namespace quant {
namespace {

using NumberOf = std::function<std::optional<int64_t>(const std::string& name)>;

// Each returns whether it changed something.
bool BindShape(onnx::TensorShapeProto* shape, const NumberOf& number_of) {
  bool changed = false;
  for (auto& dim : *shape->mutable_dim()) {
    if (!dim.has_dim_param() || dim.dim_param().empty()) continue;
    const std::optional<int64_t> number = number_of(dim.dim_param());
    if (number) dim.set_dim_value(*number);
    changed = changed || number;
  }
  return changed;
}

bool BindType(onnx::TypeProto* type, const NumberOf& number_of) {
  if (type->has_tensor_type() && type->tensor_type().has_shape()) {
    return BindShape(type->mutable_tensor_type()->mutable_shape(), number_of);
  }
  if (type->has_sparse_tensor_type() && type->sparse_tensor_type().has_shape()) {
    return BindShape(type->mutable_sparse_tensor_type()->mutable_shape(), number_of);
  }
  if (type->has_sequence_type()) return BindType(type->mutable_sequence_type()->mutable_elem_type(), number_of);
  if (type->has_optional_type()) return BindType(type->mutable_optional_type()->mutable_elem_type(), number_of);
  if (type->has_map_type()) return BindType(type->mutable_map_type()->mutable_value_type(), number_of);
  return false;
}

bool Bind(onnx::ValueInfoProto* info, const NumberOf& number_of) {
  return info->has_type() && BindType(info->mutable_type(), number_of);
}

bool Bind(onnx::GraphProto* graph, const NumberOf& number_of) {
  bool changed = false;
  for (auto* list : {graph->mutable_input(), graph->mutable_output(), graph->mutable_value_info()}) {
    for (onnx::ValueInfoProto& info : *list) changed = Bind(&info, number_of) || changed;
  }
  return changed;
}

bool Bind(onnx::AttributeProto* attribute, const NumberOf& number_of) {
  bool changed = attribute->has_tp() && BindType(attribute->mutable_tp(), number_of);
  for (onnx::TypeProto& type : *attribute->mutable_type_protos()) changed = BindType(&type, number_of) || changed;
  return changed;
}

template <typename Proto>
Status BindIn(std::string* extra, const NumberOf& number_of) {
  if (extra->empty()) return OkStatus();
  Proto proto;
  if (!ParseMessage(*extra, &proto)) return BugError("what was kept of the file does not parse");
  if (Bind(&proto, number_of)) *extra = SerializeMessage(proto);
  return OkStatus();
}

}  // namespace

Status BindKeptDims(Graph& graph, const NumberOf& number_of) {
  for (RegionId r = 0; r < graph.region_count(); ++r) {
    if (!graph.region(r).removed) RETURN_IF_ERROR(BindIn<onnx::GraphProto>(&graph.region(r).extra, number_of));
  }
  for (ValueId v = 0; v < graph.value_count(); ++v) {
    if (!graph.value(v).removed) RETURN_IF_ERROR(BindIn<onnx::ValueInfoProto>(&graph.value(v).info_extra, number_of));
  }
  for (NodeId n = 0; n < graph.node_count(); ++n) {
    if (graph.node(n).removed) continue;
    for (Attribute& a : graph.node(n).attributes.list()) {
      RETURN_IF_ERROR(BindIn<onnx::AttributeProto>(&a.extra, number_of));
    }
  }
  return OkStatus();
}

}  // namespace quant
