#include "libquant/model/properties.h"

#include "libquant/model/proto.h"

namespace quant {

StatusOr<ModelProperties> PropertiesOf(const Model& model) {
  onnx::ModelProto proto;
  if (!ParseMessage(model.extra, &proto)) return BugError("the model's remainder does not parse");
  ModelProperties out;
  out.producer_name = proto.producer_name();
  out.producer_version = proto.producer_version();
  out.domain = proto.domain();
  out.model_version = proto.model_version();
  out.doc = proto.doc_string();
  for (const auto& entry : proto.metadata_props()) out.metadata.emplace_back(entry.key(), entry.value());
  return out;
}

}  // namespace quant
