#include "libquant/model/check.h"

#include <onnx/checker.h>
#include <onnx/defs/schema.h>
#include <onnx/shape_inference/implementation.h>

#include <algorithm>

#include "libquant/model/dim_names.h"
#include "libquant/model/guarded_schemas.h"
#include "libquant/model/proto.h"
#include "libquant/model/schemas.h"

namespace quant {
namespace {

// A library's message on one line.
std::string OneLine(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  while (!text.empty() && text.back() == ' ') text.pop_back();
  return text;
}

}  // namespace

namespace {

Status Infer(onnx::ModelProto& proto, int strict_mode) {
  try {
    const onnx::ShapeInferenceOptions options(/*check_type=*/false, strict_mode, /*data_prop=*/true);
    onnx::shape_inference::InferShapes(proto, &GuardedSchemas(), options);
    return OkStatus();
  } catch (const std::exception& e) {
    return DataError("shape inference: {}", OneLine(e.what()));
  }
}

}  // namespace

Status InferProto(onnx::ModelProto& proto) { return Infer(proto, 0); }

namespace {

// Drops what exporters get wrong: the types of inner values, then the shapes of outputs too.
void ForgetShapes(onnx::GraphProto* graph, bool outputs) {
  graph->clear_value_info();
  if (outputs) {
    for (auto& output : *graph->mutable_output()) {
      if (output.type().has_tensor_type()) output.mutable_type()->mutable_tensor_type()->clear_shape();
    }
  }
  for (auto& node : *graph->mutable_node()) {
    for (auto& attribute : *node.mutable_attribute()) {
      if (attribute.has_g()) ForgetShapes(attribute.mutable_g(), outputs);
      for (auto& inner : *attribute.mutable_graphs()) ForgetShapes(&inner, outputs);
    }
  }
}

// The checker wants a shape on inputs and outputs, which exporters leave out of outputs they know no shape of, and
// runtimes don't miss. The proto is only looked at, so any shape will do.
void FillMissingShapes(onnx::GraphProto* graph) {
  for (auto* list : {graph->mutable_input(), graph->mutable_output(), graph->mutable_value_info()}) {
    for (onnx::ValueInfoProto& info : *list) {
      if (info.type().has_tensor_type()) info.mutable_type()->mutable_tensor_type()->mutable_shape();
    }
  }
  for (auto& node : *graph->mutable_node()) {
    for (auto& attribute : *node.mutable_attribute()) {
      if (attribute.has_g()) FillMissingShapes(attribute.mutable_g());
      for (auto& inner : *attribute.mutable_graphs()) FillMissingShapes(&inner);
    }
  }
}

// A value's type as found; what was known and is still unknown to inference stays, names of dimensions included.
void Take(const onnx::ValueInfoProto& info, Value& value) {
  DType dtype = DType::kUndefined;
  std::optional<Shape> shape;
  TypeFromProto(info.type(), &dtype, &shape);
  if (dtype != DType::kUndefined) value.dtype = dtype;
  if (!shape) return;
  for (size_t i = 0; value.shape && value.shape->size() == shape->size() && i < shape->size(); ++i) {
    const Dim& before = (*value.shape)[i];
    Dim& after = (*shape)[i];
    if (!after.known() && !HasMeaningfulName(after) && HasMeaningfulName(before)) after = before;
  }
  value.shape = std::move(shape);
}

void TakeTypes(const onnx::GraphProto& proto, Graph& graph, RegionId region) {
  std::unordered_map<std::string, ValueId> by_name;
  const auto note = [&](ValueId v) {
    if (v != kNoValue && graph.value(v).region == region) by_name[graph.value(v).name] = v;
  };
  for (ValueId v : graph.region(region).inputs) note(v);
  for (NodeId n : graph.region(region).nodes) {
    for (ValueId v : graph.node(n).outputs) note(v);
  }
  // Inputs last: of one that is an output too, what it says as an input counts.
  for (const auto* list : {&proto.value_info(), &proto.output(), &proto.input()}) {
    for (const onnx::ValueInfoProto& info : *list) {
      const auto it = by_name.find(info.name());
      if (it != by_name.end()) Take(info, graph.value(it->second));
    }
  }
  // The skeleton keeps the graph's order: nodes and their bodies are found in step.
  const std::vector<NodeId>& nodes = graph.region(region).nodes;
  for (int i = 0; i < proto.node_size() && static_cast<size_t>(i) < nodes.size(); ++i) {
    const std::vector<RegionId> bodies = BodiesOf(graph.node(nodes[static_cast<size_t>(i)]));
    size_t next = 0;
    for (const auto& attribute : proto.node(i).attribute()) {
      if (attribute.has_g() && next < bodies.size()) TakeTypes(attribute.g(), graph, bodies[next++]);
      for (const auto& inner : attribute.graphs()) {
        if (next < bodies.size()) TakeTypes(inner, graph, bodies[next++]);
      }
    }
  }
}

}  // namespace

Status CheckModel(const Model& model) {
  RegisterSchemas();
  std::vector<Tensor> payloads;
  ASSIGN_OR_RETURN(onnx::ModelProto proto, ToSkeleton(model, &payloads));
  FillMissingShapes(proto.mutable_graph());
  try {
    onnx::checker::check_model(proto);
    return OkStatus();
  } catch (const std::exception& e) {
    return DataError("the model is not sound: {}", OneLine(e.what()));
  }
}

Status InferShapes(Model& model) {
  RegisterSchemas();
  std::vector<Tensor> payloads;
  ASSIGN_OR_RETURN(const onnx::ModelProto proto, ToSkeleton(model, &payloads, {.inferred_types = true}));
  onnx::ModelProto inferred = proto;
  Status status = InferProto(inferred);
  for (const bool outputs : {false, true}) {
    if (status.ok()) break;
    inferred = proto;
    ForgetShapes(inferred.mutable_graph(), outputs);
    status = InferProto(inferred);
  }
  RETURN_IF_ERROR(status);
  TakeTypes(inferred.graph(), model.graph, kMainRegion);
  return OkStatus();
}

Status CheckShapes(const Model& model) {
  RegisterSchemas();
  std::vector<Tensor> payloads;
  ASSIGN_OR_RETURN(onnx::ModelProto proto, ToSkeleton(model, &payloads));
  return Infer(proto, /*strict_mode=*/1);
}

int64_t NewestOpset() {
  return onnx::OpSchemaRegistry::DomainToVersionRange::Instance().Map().at(onnx::ONNX_DOMAIN).second;
}

}  // namespace quant
