#include "libquant/model/text.h"

#include <onnx/defs/parser.h>
#include <onnx/defs/printer.h>

#include "libquant/model/proto.h"

namespace quant {
namespace {

// ONNX's printer leaves the raw data of these types out.
bool IsCode(const onnx::TensorProto& tensor) {
  const DTypeInfo& info = InfoOf(DTypeFromNumber(tensor.data_type()));
  return tensor.has_raw_data() && info.bits > 0 && info.bits <= 8 && !info.is_float && info.dtype != DType::kBool;
}

std::string CodesOf(const onnx::TensorProto& tensor) {
  const DTypeInfo& info = InfoOf(DTypeFromNumber(tensor.data_type()));
  int64_t count = 1;
  for (int64_t d : tensor.dims()) count *= d;
  std::string out;
  const int per_byte = 8 / info.bits;
  for (int64_t i = 0; i < count; ++i) {
    const int byte = static_cast<uint8_t>(tensor.raw_data()[static_cast<size_t>(i / per_byte)]);
    int code = byte >> (i % per_byte * info.bits) & ((1 << info.bits) - 1);
    if (info.is_signed && code >= 1 << (info.bits - 1)) code -= 1 << info.bits;
    out += (i ? ", " : "") + std::to_string(code);
  }
  return out;
}

// Puts the codes in where the printer wrote "...".
std::string WithCodes(std::string text, const onnx::GraphProto& graph) {
  for (const onnx::TensorProto& tensor : graph.initializer()) {
    if (!IsCode(tensor)) continue;
    for (const std::string& start : {" " + tensor.name() + " = ...", " \"" + tensor.name() + "\" = ..."}) {
      const size_t at = text.find(start);
      if (at != std::string::npos) text.replace(at + start.size() - 3, 3, " {" + CodesOf(tensor) + "}");
    }
  }
  return text;
}

}  // namespace

StatusOr<Model> ParseModelText(std::string_view text) {
  onnx::ModelProto proto;
  try {
    const std::string owned(text);
    onnx::OnnxParser parser(owned.c_str());
    const auto status = parser.Parse(proto);
    if (!status.IsOK()) return DataError("{}", status.ErrorMessage());
    if (!parser.EndOfInput()) return DataError("there is text after the model");
  } catch (const std::exception& e) {
    return DataError("{}", e.what());
  }
  return FromProto(std::move(proto));
}

StatusOr<std::string> PrintModelText(const Model& model) {
  std::vector<Tensor> payloads;
  ASSIGN_OR_RETURN(onnx::ModelProto proto, ToSkeleton(model, &payloads));
  for (onnx::TensorProto& tensor : *proto.mutable_graph()->mutable_initializer()) {
    const auto index = PayloadIndex(tensor);
    if (!index) continue;
    ASSIGN_OR_RETURN(const Tensor bytes, payloads[static_cast<size_t>(*index)].Materialize());
    tensor.clear_external_data();
    tensor.clear_data_location();
    tensor.set_raw_data(bytes.bytes().data(), bytes.bytes().size());
  }
  return WithCodes(onnx::ProtoToString(proto), proto.graph());
}

}  // namespace quant
