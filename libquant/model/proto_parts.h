// The pieces that FromProto and ToSkeleton are made of. Every Take... function moves what the IR models out of a proto
// and leaves the rest in it: what is left, serialized, is an `extra` of the IR, and the writer puts the modelled
// fields back into it.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "libquant/model/proto.h"

namespace quant {

// The serialized rest of a message, empty when nothing is left.
std::string Leftovers(const google::protobuf::Message& message);

// Data and type of a tensor, typed fields decoded to raw_data's form.
StatusOr<Tensor> TakeTensor(onnx::TensorProto* proto, const ProtoContext& context, const std::string& where);
// Reads the external data of every tensor anywhere inside a message that stays opaque, so that it can be written
// to another folder.
Status InlineExternalTensors(google::protobuf::Message* message, const ProtoContext& context, const std::string& where);

// A type's dtype and dims; what a Dim can't say (denotations, negative numbers) stays.
void TakeType(onnx::TypeProto* type, DType* dtype, std::optional<Shape>* shape);

// Bodies are moved to `bodies` in order; their BodyRefs hold -1 until the caller has made the regions.
StatusOr<Attribute> TakeAttribute(onnx::AttributeProto* proto, const ProtoContext& context, const std::string& where,
                                  std::vector<onnx::GraphProto>* bodies);

// Fills an empty graph and its bodies from a GraphProto or a FunctionProto; the caller sorts and verifies.
Status TakeGraph(onnx::GraphProto* proto, const ProtoContext& context, Graph* graph);
Status TakeFunctionBody(onnx::FunctionProto* proto, const ProtoContext& context, Graph* graph);

// The tensor that a Constant node's attribute stands for; nullopt for forms that are no dense tensor.
std::optional<Tensor> ConstantOf(const Attribute& attribute);
// Gives the value that a Constant node makes its tensor; does nothing for other nodes, and for one whose attribute
// stands for a call's.
void KnowConstant(Graph& graph, NodeId id);

// The writing side. `proto` holds the parsed leftovers already.
Status PutTensor(const Tensor& tensor, std::vector<Tensor>* payloads, onnx::TensorProto* proto);
using PutBody = std::function<Status(RegionId, onnx::GraphProto*)>;
Status PutAttribute(const Attribute& attribute, std::vector<Tensor>* payloads, const PutBody& put_body,
                    onnx::AttributeProto* proto);
Status PutGraph(const Graph& graph, const SkeletonOptions& options, std::vector<Tensor>* payloads,
                onnx::GraphProto* proto);
Status PutFunction(const Function& function, const SkeletonOptions& options, std::vector<Tensor>* payloads,
                   onnx::FunctionProto* proto);

}  // namespace quant
