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

// Makes a skeleton's tensors whole for the printer, in bodies and functions too. Codes, which it would leave out,
// become marks that it prints as it prints external data.
class TensorFiller {
 public:
  explicit TensorFiller(const std::vector<Tensor>& payloads) : payloads_(payloads) {}

  Status Fill(onnx::ModelProto& model) {
    RETURN_IF_ERROR(Fill(*model.mutable_graph()));
    for (auto& function : *model.mutable_functions()) {
      for (auto& node : *function.mutable_node()) RETURN_IF_ERROR(Fill(node));
    }
    return OkStatus();
  }
  // Puts the codes in where their marks were printed.
  std::string WithCodes(std::string text) const {
    for (size_t i = 0; i < codes_.size(); ++i) {
      const std::string mark = fmt::format("[\"codes\": \"{}\"]", i);
      const size_t at = text.find(mark);
      if (at != std::string::npos) text.replace(at, mark.size(), " {" + codes_[i] + "}");
    }
    return text;
  }

 private:
  Status Fill(onnx::GraphProto& graph) {
    for (auto& tensor : *graph.mutable_initializer()) RETURN_IF_ERROR(Fill(tensor));
    for (auto& node : *graph.mutable_node()) RETURN_IF_ERROR(Fill(node));
    return OkStatus();
  }
  Status Fill(onnx::NodeProto& node) {
    for (auto& attribute : *node.mutable_attribute()) {
      if (attribute.has_t()) RETURN_IF_ERROR(Fill(*attribute.mutable_t()));
      if (attribute.has_g()) RETURN_IF_ERROR(Fill(*attribute.mutable_g()));
    }
    return OkStatus();
  }
  Status Fill(onnx::TensorProto& tensor) {
    if (const auto index = PayloadIndex(tensor)) {
      ASSIGN_OR_RETURN(const Tensor bytes, payloads_[static_cast<size_t>(*index)].Materialize());
      tensor.clear_external_data();
      tensor.clear_data_location();
      tensor.set_raw_data(bytes.bytes().data(), bytes.bytes().size());
    }
    if (!IsCode(tensor)) return OkStatus();
    auto* entry = tensor.add_external_data();
    entry->set_key("codes");
    entry->set_value(std::to_string(codes_.size()));
    codes_.push_back(CodesOf(tensor));
    tensor.clear_raw_data();
    tensor.set_data_location(onnx::TensorProto::EXTERNAL);
    return OkStatus();
  }

  const std::vector<Tensor>& payloads_;
  std::vector<std::string> codes_;
};

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
  TensorFiller filler(payloads);
  RETURN_IF_ERROR(filler.Fill(proto));
  return filler.WithCodes(onnx::ProtoToString(proto));
}

}  // namespace quant
