// Between our graph and ONNX's protobuf types. Only files of libquant/model include this.
//
// A *skeleton* is a ModelProto without the bytes of large tensors: each of those says data_location EXTERNAL with
// the location "#<index>" into a list of payloads that travels beside the proto. ONNX's checker accepts such
// tensors when it is given no model folder, and shape inference needs none of their bytes. Both directions speak
// skeletons, so FromProto(ToSkeleton(model)) is the model again.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "libquant/base/status.h"
#include "libquant/ir/graph.h"
#include "libquant/model/onnx_version.h"

namespace quant {

// Tensors of fewer bytes than this stay inline everywhere.
inline constexpr int64_t kInlineBytes = 1024;
// Bodies nested deeper than this are refused; real files reach 4.
inline constexpr int kMaxBodyDepth = 64;

class ExternalFiles;

// What a proto's tensors may refer to. Everything may be left out: then a tensor that is not inline is a DataError.
struct ProtoContext {
  // What locations "#<index>" mean. A payload over a file may be given as plain bytes (uint8): the proto's own dtype
  // and dims are put on it after its length was checked against them.
  std::vector<Tensor> payloads;
  // Opens real external data; not owned.
  ExternalFiles* external = nullptr;
};

// The graph of a proto: names resolved, constants decoded, nodes sorted if they were not, Verify passed. Leaves
// Model::sources empty. DataError when it is no sound model, Unsupported when its opset, IR version or an element
// type is newer than the linked ONNX.
StatusOr<Model> FromProto(onnx::ModelProto&& proto, const ProtoContext& context = {});

// One tensor of a proto: its typed fields decoded, its size checked against dims. `where` (say "initializer w") names
// it in messages.
StatusOr<Tensor> TensorFromProto(onnx::TensorProto&& proto, const ProtoContext& context, const std::string& where);

struct SkeletonOptions {
  // Also list values in value_info whose type is known only by inference (Value::has_info is false). Off, a model
  // that was read and not changed gives back what the file listed.
  bool inferred_types = false;
};

// The proto of a model. Inline: owned tensors below kInlineBytes, owned integer vectors (shapes, axes) of any length,
// small ranges of files (read here). Every other tensor becomes a location "#<index>" and is appended to `payloads`.
// Nodes, bodies and functions keep the graph's order, so a walk over both finds the same things in step.
// Unsupported when the skeleton itself would pass protobuf's 2 GiB.
StatusOr<onnx::ModelProto> ToSkeleton(const Model& model, std::vector<Tensor>* payloads,
                                      const SkeletonOptions& options = {});

// dtype and shape of a tensor type. Anything else (sequence, optional, an unknown element type) leaves kUndefined.
void TypeFromProto(const onnx::TypeProto& type, DType* dtype, std::optional<Shape>* shape);
// Sets what is known; fields we don't model (denotations) stay when the rank is unchanged.
void TypeToProto(DType dtype, const std::optional<Shape>& shape, onnx::TypeProto* type);

// The index of a "#<index>" location, or nullopt for a tensor with its data inline or in a real file.
std::optional<int64_t> PayloadIndex(const onnx::TensorProto& proto);
// Makes `proto` refer to payloads[index].
void SetPayloadIndex(int64_t index, onnx::TensorProto* proto);

// ONNX's shape inference with data propagation; DataError with its message when the model contradicts itself.
// RegisterSchemas comes first.
Status InferProto(onnx::ModelProto& proto);

// protobuf's parser with a recursion limit that fits kMaxBodyDepth; false when the bytes are no such message.
bool ParseMessage(std::string_view bytes, google::protobuf::Message* message);
// The same bytes for the same message, maps included.
std::string SerializeMessage(const google::protobuf::Message& message);

}  // namespace quant
