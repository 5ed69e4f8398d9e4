#include <limits>

#include "libquant/model/proto_parts.h"

namespace quant {

StatusOr<onnx::ModelProto> ToSkeleton(const Model& model, std::vector<Tensor>* payloads,
                                      const SkeletonOptions& options) {
  onnx::ModelProto proto;
  if (!model.extra.empty() && !ParseMessage(model.extra, &proto)) {
    return BugError("what was kept of the model does not parse");
  }
  proto.set_ir_version(model.ir_version);
  for (const OpsetImport& opset : model.opsets) {
    auto* out = proto.add_opset_import();
    if (!opset.domain.empty()) out->set_domain(opset.domain);
    out->set_version(opset.version);
  }
  RETURN_IF_ERROR(PutGraph(model.graph, options, payloads, proto.mutable_graph()));
  for (const Function& f : model.functions) RETURN_IF_ERROR(PutFunction(f, options, payloads, proto.add_functions()));
  if (proto.ByteSizeLong() > static_cast<size_t>(std::numeric_limits<int32_t>::max())) {
    return Unsupported("without its weights the model is still larger than the 2 GiB that protobuf can hold");
  }
  return proto;
}

}  // namespace quant
