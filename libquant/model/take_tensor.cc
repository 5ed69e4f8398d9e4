#include <algorithm>
#include <limits>

#include "libquant/base/checked.h"
#include "libquant/model/external_files.h"
#include "libquant/model/proto_parts.h"

namespace quant {
namespace {

// How many entries of its typed field a tensor takes, and how each becomes bytes.
enum class TypedField { kFloat, kInt32, kInt64, kDouble, kUint64, kString, kNone };

TypedField FieldOf(DType dtype) {
  switch (dtype) {
    case DType::kFloat:
    case DType::kComplex64:
      return TypedField::kFloat;
    case DType::kDouble:
    case DType::kComplex128:
      return TypedField::kDouble;
    case DType::kInt64:
      return TypedField::kInt64;
    case DType::kUint32:
    case DType::kUint64:
      return TypedField::kUint64;
    case DType::kString:
      return TypedField::kString;
    case DType::kUndefined:
      return TypedField::kNone;
    default:
      return TypedField::kInt32;
  }
}

// Copies the low `Bytes` bytes of each entry, which is what every narrow type of int32_data and uint64_data means.
template <typename Field>
void Narrow(const Field& field, int64_t bytes_each, std::byte* out) {
  for (const auto entry : field) {
    std::memcpy(out, &entry, static_cast<size_t>(bytes_each));  // little-endian
    out += bytes_each;
  }
}

class TensorTaker {
 public:
  TensorTaker(onnx::TensorProto* proto, const ProtoContext& context, const std::string& where)
      : proto_(*proto), context_(context), where_(where) {}

  StatusOr<Tensor> Take() {
    dtype_ = DTypeFromNumber(proto_.data_type());
    if (dtype_ == DType::kUndefined) {
      if (proto_.data_type() == 0) return Error("it has no element type");
      return Unsupported("{} has element type {}, which is newer than Nibble knows; export with an older opset", where_,
                         proto_.data_type());
    }
    dims_.assign(proto_.dims().begin(), proto_.dims().end());
    const auto count = CheckedProduct(dims_);
    if (!count) {
      return Error(fmt::format("its dims {} are negative or too large to be a size", ToString(dims_)));
    }
    count_ = *count;
    StatusOr<Tensor> tensor = Data();
    proto_.clear_dims();
    proto_.clear_data_type();
    return tensor;
  }

 private:
  Status Error(std::string_view what) const { return DataError("{}: {}", where_, what); }

  StatusOr<Tensor> Data() {
    const int typed = (proto_.float_data_size() > 0) + (proto_.int32_data_size() > 0) + (proto_.int64_data_size() > 0) +
                      (proto_.double_data_size() > 0) + (proto_.uint64_data_size() > 0) +
                      (proto_.string_data_size() > 0);
    const bool external = proto_.data_location() == onnx::TensorProto::EXTERNAL;
    const bool raw = !proto_.raw_data().empty();
    if (typed + external + raw > 1) return Error("it holds its data in more than one form");
    if (dtype_ == DType::kString) return Strings(external || raw);
    const auto bytes = BytesFor(dtype_, dims_);
    if (!bytes) return Error(fmt::format("its dims {} are too large to be a size", ToString(dims_)));
    bytes_ = *bytes;
    StatusOr<Tensor> tensor = external ? External() : raw ? Raw() : Typed();
    proto_.clear_data_location();
    proto_.clear_external_data();
    return tensor;
  }

  Status CheckLength(int64_t length, const char* what) const {
    if (length == bytes_) return OkStatus();
    return Error(fmt::format("its {} has {} bytes where {}[{}] takes {}", what, length, NameOf(dtype_), ToString(dims_),
                             bytes_));
  }

  StatusOr<Tensor> External() {
    if (const auto index = PayloadIndex(proto_)) {
      if (*index < 0 || *index >= static_cast<int64_t>(context_.payloads.size())) {
        return Error("it refers to data that is not there");
      }
      const Tensor& payload = context_.payloads[static_cast<size_t>(*index)];
      if (payload.dtype() == dtype_ && payload.dims() == dims_) return payload;
      RETURN_IF_ERROR(CheckLength(payload.byte_size(), "raw data"));
      if (payload.file_range() == nullptr) return Error("its data is of another type than it says");
      return Tensor::FromFile(dtype_, dims_, *payload.file_range());
    }
    if (context_.external == nullptr) return Error("its data is in another file, which can't be looked for here");
    auto range = context_.external->Resolve(proto_);
    if (!range.ok()) return Error(Message(range.status()));
    RETURN_IF_ERROR(CheckLength(range->length, "external data"));
    return Tensor::FromFile(dtype_, dims_, *std::move(range));
  }

  StatusOr<Tensor> Raw() {
    RETURN_IF_ERROR(CheckLength(static_cast<int64_t>(proto_.raw_data().size()), "raw data"));
    Tensor out = Tensor::Allocate(dtype_, dims_);
    std::memcpy(out.mutable_bytes().data(), proto_.raw_data().data(), proto_.raw_data().size());
    proto_.clear_raw_data();
    return out;
  }

  StatusOr<Tensor> Strings(bool elsewhere) {
    if (elsewhere) return Error("strings can't be kept as raw or external data");
    if (proto_.string_data_size() != count_) {
      return Error(fmt::format("it holds {} strings where its dims {} take {}", proto_.string_data_size(),
                               ToString(dims_), count_));
    }
    std::vector<std::string> strings;
    strings.reserve(static_cast<size_t>(proto_.string_data_size()));
    for (std::string& s : *proto_.mutable_string_data()) strings.push_back(std::move(s));
    proto_.clear_string_data();
    return Tensor::OfStrings(dims_, std::make_shared<const std::vector<std::string>>(std::move(strings)));
  }

  // Entries the typed field must have: one an element, except complex pairs and types packed into bytes.
  int64_t EntriesWanted() const {
    const int bits = InfoOf(dtype_).bits;
    if (dtype_ == DType::kComplex64 || dtype_ == DType::kComplex128) return count_ * 2;
    return bits < 8 ? bytes_ : count_;
  }

  int64_t EntriesHeld(TypedField field) const {
    switch (field) {
      case TypedField::kFloat:
        return proto_.float_data_size();
      case TypedField::kInt32:
        return proto_.int32_data_size();
      case TypedField::kInt64:
        return proto_.int64_data_size();
      case TypedField::kDouble:
        return proto_.double_data_size();
      default:
        return proto_.uint64_data_size();
    }
  }

  StatusOr<Tensor> Typed() {
    const TypedField field = FieldOf(dtype_);
    const int64_t held = EntriesHeld(field);
    if (held != EntriesWanted()) {
      return Error(held == 0 ? fmt::format("it has no data for {}[{}]", NameOf(dtype_), ToString(dims_))
                             : fmt::format("it holds {} entries where {}[{}] takes {}", held, NameOf(dtype_),
                                           ToString(dims_), EntriesWanted()));
    }
    Tensor out = Tensor::Allocate(dtype_, dims_);
    std::byte* to = out.mutable_bytes().data();
    const int64_t each = std::max<int64_t>(1, held == 0 ? 1 : bytes_ / held);
    switch (field) {
      case TypedField::kFloat:
        Narrow(proto_.float_data(), each, to);
        break;
      case TypedField::kInt32:
        Narrow(proto_.int32_data(), each, to);
        break;
      case TypedField::kInt64:
        Narrow(proto_.int64_data(), each, to);
        break;
      case TypedField::kDouble:
        Narrow(proto_.double_data(), each, to);
        break;
      default:
        Narrow(proto_.uint64_data(), each, to);
        break;
    }
    proto_.clear_float_data();
    proto_.clear_int32_data();
    proto_.clear_int64_data();
    proto_.clear_double_data();
    proto_.clear_uint64_data();
    return out;
  }

  onnx::TensorProto& proto_;
  const ProtoContext& context_;
  const std::string& where_;
  DType dtype_ = DType::kUndefined;
  Dims dims_;
  int64_t count_ = 0;
  int64_t bytes_ = 0;
};

}  // namespace

StatusOr<Tensor> TakeTensor(onnx::TensorProto* proto, const ProtoContext& context, const std::string& where) {
  return TensorTaker(proto, context, where).Take();
}

StatusOr<Tensor> TensorFromProto(onnx::TensorProto&& proto, const ProtoContext& context, const std::string& where) {
  return TakeTensor(&proto, context, where);
}

Status InlineExternalTensors(google::protobuf::Message* message, const ProtoContext& context,
                             const std::string& where) {
  if (message->GetDescriptor() == onnx::TensorProto::descriptor()) {
    auto* tensor = static_cast<onnx::TensorProto*>(message);
    if (tensor->data_location() != onnx::TensorProto::EXTERNAL) return OkStatus();
    onnx::TensorProto copy = *tensor;
    ASSIGN_OR_RETURN(Tensor data, TakeTensor(&copy, context, where));
    if (data.byte_size() > std::numeric_limits<int32_t>::max()) {
      return Unsupported("{} holds more than 2 GiB", where);
    }
    ASSIGN_OR_RETURN(data, data.Materialize());
    tensor->clear_data_location();
    tensor->clear_external_data();
    tensor->set_raw_data(data.bytes().data(), data.bytes().size());
    return OkStatus();
  }
  std::vector<const google::protobuf::FieldDescriptor*> fields;
  const auto* reflection = message->GetReflection();
  reflection->ListFields(*message, &fields);
  for (const auto* field : fields) {
    if (field->cpp_type() != google::protobuf::FieldDescriptor::CPPTYPE_MESSAGE) continue;
    if (!field->is_repeated()) {
      RETURN_IF_ERROR(InlineExternalTensors(reflection->MutableMessage(message, field), context, where));
      continue;
    }
    for (int i = 0; i < reflection->FieldSize(*message, field); ++i) {
      RETURN_IF_ERROR(InlineExternalTensors(reflection->MutableRepeatedMessage(message, field, i), context, where));
    }
  }
  return OkStatus();
}

}  // namespace quant
