#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/wire_format_lite.h>

#include "libquant/base/checked.h"
#include "libquant/model/proto.h"
#include "libquant/model/wire.h"
#include "libquant/model/wire_fields.h"

namespace quant {
namespace {

using google::protobuf::internal::WireFormatLite;
using google::protobuf::io::CodedInputStream;

void AppendBytes(std::string_view bytes, FileLayout* out) {
  if (bytes.empty()) return;
  if (out->pieces.empty() || out->pieces.back().payload >= 0) out->pieces.emplace_back();
  out->pieces.back().bytes.append(bytes);
  out->pieces.back().size += static_cast<int64_t>(bytes.size());
  out->size += static_cast<int64_t>(bytes.size());
}

void AppendHole(int64_t payload, int64_t size, FileLayout* out) {
  LayoutPiece hole;
  hole.payload = payload;
  hole.size = size;
  out->pieces.push_back(std::move(hole));
  out->size += size;
}

void AppendLayout(FileLayout inner, FileLayout* out) {
  for (LayoutPiece& piece : inner.pieces) {
    if (piece.payload < 0) {
      AppendBytes(piece.bytes, out);
    } else {
      AppendHole(piece.payload, piece.size, out);
    }
  }
}

class LayoutWriter {
 public:
  LayoutWriter(const std::vector<PayloadPlace>& places, const std::string& location)
      : places_(places), location_(location) {}

  // The bytes come from our own serializer, so damage is a bug.
  StatusOr<FileLayout> Walk(WireMessage message, std::string_view bytes) const {
    if (message == WireMessage::kTensor) return LayOutTensor(bytes);
    FileLayout out;
    CodedInputStream in(reinterpret_cast<const uint8_t*>(bytes.data()), static_cast<int>(bytes.size()));
    while (true) {
      const int start = in.CurrentPosition();
      const uint32_t tag = in.ReadTag();
      if (tag == 0) break;
      const auto child = (tag & 7) == kLengthPrefixed ? ChildMessage(message, tag >> 3) : std::nullopt;
      uint32_t length = 0;
      if (!child) {
        if (!WireFormatLite::SkipField(&in, tag)) return Broken();
        AppendBytes(bytes.substr(static_cast<size_t>(start), static_cast<size_t>(in.CurrentPosition() - start)), &out);
        continue;
      }
      if (!in.ReadVarint32(&length)) return Broken();
      const auto inside = static_cast<size_t>(in.CurrentPosition());
      if (length > bytes.size() - inside || !in.Skip(static_cast<int>(length))) return Broken();
      ASSIGN_OR_RETURN(FileLayout inner, Walk(*child, bytes.substr(inside, length)));
      std::string head;
      AppendTag(tag >> 3, kLengthPrefixed, &head);
      AppendVarint(static_cast<uint64_t>(inner.size), &head);
      AppendBytes(head, &out);
      AppendLayout(std::move(inner), &out);
    }
    if (static_cast<size_t>(in.CurrentPosition()) != bytes.size()) return Broken();
    return out;
  }

 private:
  static Status Broken() { return BugError("a skeleton of ours does not parse"); }

  StatusOr<FileLayout> LayOutTensor(std::string_view bytes) const {
    FileLayout out;
    onnx::TensorProto tensor;
    if (!ParseMessage(bytes, &tensor)) return Broken();
    const auto index = PayloadIndex(tensor);
    if (!index) {
      AppendBytes(bytes, &out);
      return out;
    }
    if (*index < 0 || *index >= static_cast<int64_t>(places_.size())) return Broken();
    const PayloadPlace& place = places_[static_cast<size_t>(*index)];
    tensor.clear_external_data();
    tensor.clear_data_location();
    if (place.external) {
      SetExternal(place, &tensor);
      AppendBytes(SerializeMessage(tensor), &out);
      return out;
    }
    std::string head = SerializeMessage(tensor);
    AppendTag(kTensorRawData, kLengthPrefixed, &head);
    AppendVarint(static_cast<uint64_t>(place.size), &head);
    AppendBytes(head, &out);
    AppendHole(*index, place.size, &out);
    return out;
  }

  void SetExternal(const PayloadPlace& place, onnx::TensorProto* tensor) const {
    const auto add = [&](const char* key, std::string value) {
      auto* entry = tensor->add_external_data();
      entry->set_key(key);
      entry->set_value(std::move(value));
    };
    add("location", location_);
    add("offset", std::to_string(place.offset));
    add("length", std::to_string(place.size));
    tensor->set_data_location(onnx::TensorProto::EXTERNAL);
  }

  const std::vector<PayloadPlace>& places_;
  const std::string& location_;
};

}  // namespace

StatusOr<FileLayout> LayOutModel(std::string_view skeleton, const std::vector<PayloadPlace>& places,
                                 const std::string& external_location) {
  return LayoutWriter(places, external_location).Walk(WireMessage::kModel, skeleton);
}

}  // namespace quant
