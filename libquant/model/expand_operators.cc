#include "libquant/model/expand_operators.h"

#include <onnx/defs/schema.h>

#include <algorithm>
#include <exception>
#include <map>

#include "libquant/model/check.h"
#include "libquant/model/inline_functions.h"
#include "libquant/model/proto.h"
#include "libquant/model/schemas.h"
#include "libquant/ops/find_kernel.h"

namespace quant {
namespace {

// Bodies whose operators have bodies in turn; ONNX's reach 3.
constexpr int kMaxRounds = 16;

const onnx::OpSchema* SchemaOf(const std::string& domain, const std::string& op_type, int64_t version) {
  return onnx::OpSchemaRegistry::Instance()->GetSchema(op_type, static_cast<int>(version),
                                                       domain == "ai.onnx" ? "" : domain);
}

bool HasBody(const std::string& domain, const std::string& op_type, int64_t version) {
  const onnx::OpSchema* schema = SchemaOf(domain, op_type, version);
  return schema != nullptr && (schema->HasFunction() || schema->HasContextDependentFunction());
}

bool NeedsBody(const std::string& domain, const std::string& op_type, int64_t version) {
  return FindKernel(domain, op_type, version) == nullptr;
}

bool AnyNeedsBody(const Model& model, const WantsBody& wants) {
  for (NodeId n : model.graph.AllNodes()) {
    const Node& node = model.graph.node(n);
    const int64_t version = model.OpsetOf(node.domain);
    if (wants(node.domain, node.op_type, version) && HasBody(node.domain, node.op_type, version)) return true;
  }
  return false;
}

using Types = std::map<std::string, const onnx::TypeProto*>;

class Definer {
 public:
  Definer(onnx::ModelProto& proto, const WantsBody& wants) : proto_(proto), wants_(wants) {
    for (const auto& opset : proto.opset_import()) {
      versions_[opset.domain() == "ai.onnx" ? "" : opset.domain()] = opset.version();
    }
  }

  // False when no node could be given a body.
  bool Run() {
    DefineIn(proto_.mutable_graph(), {});
    return defined_ > 0;
  }

 private:
  void DefineIn(onnx::GraphProto* graph, Types types) {
    for (const auto* list : {&graph->input(), &graph->output(), &graph->value_info()}) {
      for (const onnx::ValueInfoProto& info : *list) types[info.name()] = &info.type();
    }
    std::vector<onnx::TypeProto> constants(static_cast<size_t>(graph->initializer_size()));  // not moved from here on
    for (int i = 0; i < graph->initializer_size(); ++i) {
      const onnx::TensorProto& tensor = graph->initializer(i);
      onnx::TypeProto& type = constants[static_cast<size_t>(i)];
      type.mutable_tensor_type()->set_elem_type(tensor.data_type());
      for (int64_t dim : tensor.dims()) type.mutable_tensor_type()->mutable_shape()->add_dim()->set_dim_value(dim);
      types[tensor.name()] = &type;
    }
    for (onnx::NodeProto& node : *graph->mutable_node()) {
      for (onnx::AttributeProto& attribute : *node.mutable_attribute()) {
        if (attribute.has_g()) DefineIn(attribute.mutable_g(), types);
        for (onnx::GraphProto& body : *attribute.mutable_graphs()) DefineIn(&body, types);
      }
      const auto version = versions_.find(node.domain() == "ai.onnx" ? "" : node.domain());
      if (version != versions_.end() && wants_(node.domain(), node.op_type(), version->second) &&
          HasBody(node.domain(), node.op_type(), version->second)) {
        Define(node, version->second, types);
      }
    }
  }

  // A body names attributes that the node may leave to their defaults.
  static void SpellOutDefaults(const onnx::OpSchema& schema, onnx::NodeProto& node) {
    for (const auto& [name, attribute] : schema.attributes()) {
      const auto is_it = [&given = name](const onnx::AttributeProto& a) { return a.name() == given; };
      const bool has = std::any_of(node.attribute().begin(), node.attribute().end(), is_it);
      if (!has && attribute.default_value.has_name()) *node.add_attribute() = attribute.default_value;
    }
  }

  void Define(onnx::NodeProto& node, int64_t version, const Types& types) {
    onnx::FunctionProto function;
    SpellOutDefaults(*SchemaOf(node.domain(), node.op_type(), version), node);
    try {
      if (!Build(node, static_cast<int>(version), types, function)) return;
    } catch (const std::exception&) {
      return;  // ONNX has no body for these attributes or types
    }
    node.set_overload(fmt::format("body {}", defined_++));
    // A body may be built without outputs that the node leaves out.
    while (function.output_size() > node.output_size()) function.mutable_output()->RemoveLast();
    function.set_domain(node.domain());
    function.set_name(node.op_type());
    function.set_overload(node.overload());
    bool imports = false;
    for (auto& opset : *function.mutable_opset_import()) {
      if (!opset.domain().empty() && opset.domain() != "ai.onnx") continue;
      imports = true;
      opset.set_version(versions_.contains("") ? versions_.at("") : opset.version());
    }
    if (!imports && versions_.contains("")) function.add_opset_import()->set_version(versions_.at(""));
    *proto_.add_functions() = std::move(function);
  }

  static bool Build(const onnx::NodeProto& node, int version, const Types& types, onnx::FunctionProto& out) {
    const onnx::OpSchema* schema = SchemaOf(node.domain(), node.op_type(), version);
    if (const onnx::FunctionProto* body = schema->GetFunction(version)) {
      out = *body;
      return true;
    }
    std::vector<onnx::TypeProto> inputs;
    for (const std::string& name : node.input()) {
      const auto type = types.find(name);
      if (!name.empty() && (type == types.end() || type->second->value_case() == onnx::TypeProto::VALUE_NOT_SET)) {
        return false;
      }
      inputs.push_back(name.empty() ? onnx::TypeProto() : *type->second);
    }
    const onnx::FunctionBodyBuildContextImpl context(node, inputs);
    return schema->BuildContextDependentFunction(context, out, version);
  }

  onnx::ModelProto& proto_;
  const WantsBody& wants_;
  std::map<std::string, int64_t> versions_;
  int defined_ = 0;
};

}  // namespace

Status ExpandOperators(Model& model) { return ExpandOperatorsWhere(model, NeedsBody); }

Status ExpandOperatorsWhere(Model& model, const WantsBody& wants) {
  RegisterSchemas();
  bool changed = !model.functions.empty();
  RETURN_IF_ERROR(InlineFunctions(model));
  for (int round = 0; round < kMaxRounds && AnyNeedsBody(model, wants); ++round) {
    ProtoContext context;
    ASSIGN_OR_RETURN(onnx::ModelProto proto, ToSkeleton(model, &context.payloads, {.inferred_types = true}));
    InferProto(proto).IgnoreError();  // types that are not known then are not needed by every body
    if (!Definer(proto, wants).Run()) break;
    ASSIGN_OR_RETURN(Model expanded, FromProto(std::move(proto), context));
    expanded.sources = model.sources;
    RETURN_IF_ERROR(InlineFunctions(expanded));
    model = std::move(expanded);
    changed = true;
  }
  return changed ? InferShapes(model) : OkStatus();
}

std::optional<int64_t> OpsetOfBody(const std::string& domain, const std::string& op_type, int64_t version) {
  RegisterSchemas();
  const onnx::OpSchema* schema = SchemaOf(domain, op_type, version);
  if (schema == nullptr) return std::nullopt;
  std::optional<int> least;
  const auto offer = [&least](int opset) { least = std::min(least.value_or(opset), opset); };
  for (const int opset : schema->function_opset_versions()) offer(opset);
  for (const int opset : schema->context_dependent_function_opset_versions()) offer(opset);
  if (!least) return std::nullopt;
  return static_cast<int64_t>(*least);
}

}  // namespace quant
