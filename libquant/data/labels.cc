#include <charconv>
#include <limits>

#include "libquant/base/file.h"
#include "libquant/data/npy.h"
#include "libquant/data/samples.h"

namespace quant {
namespace {

constexpr int64_t kMaxText = int64_t{1} << 28;

template <typename T>
std::vector<int64_t> Widened(const Tensor& tensor) {
  return {tensor.data<T>().begin(), tensor.data<T>().end()};
}

StatusOr<std::vector<int64_t>> FromArray(const std::string& path, const Tensor& tensor) {
  if (tensor.rank() != 1) return DataError("{} is {}; labels are one row of integers", path, Describe(tensor));
  switch (tensor.dtype()) {
    case DType::kInt64:
      return Widened<int64_t>(tensor);
    case DType::kInt32:
      return Widened<int32_t>(tensor);
    case DType::kInt16:
      return Widened<int16_t>(tensor);
    case DType::kInt8:
      return Widened<int8_t>(tensor);
    case DType::kUint32:
      return Widened<uint32_t>(tensor);
    case DType::kUint16:
      return Widened<uint16_t>(tensor);
    case DType::kUint8:
      return Widened<uint8_t>(tensor);
    case DType::kUint64:
      for (uint64_t v : tensor.data<uint64_t>()) {
        if (v > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
          return DataError("{} holds {}, which is no label", path, v);
        }
      }
      return Widened<uint64_t>(tensor);
    default:
      return DataError("{} is {}; labels are integers", path, Describe(tensor));
  }
}

StatusOr<std::vector<int64_t>> FromText(const std::string& path, std::string_view text) {
  std::vector<int64_t> out;
  for (int64_t line = 1; !text.empty(); ++line) {
    const size_t end = std::min(text.find('\n'), text.size());
    std::string_view number = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    while (!number.empty() && (number.back() == '\r' || number.back() == ' ')) number.remove_suffix(1);
    // Nothing after the last number, but a gap between numbers would shift all labels that follow.
    if (number.empty() && text.find_first_not_of(" \r\n") == std::string_view::npos) break;
    int64_t value = 0;
    const auto [stop, error] = std::from_chars(number.data(), number.data() + number.size(), value);
    if (error != std::errc() || stop != number.data() + number.size()) {
      return DataError("{}, line {}: '{}' is no integer", path, line, number.substr(0, 40));
    }
    out.push_back(value);
  }
  return out;
}

}  // namespace

StatusOr<Labels> ReadLabels(const std::string& path) {
  ASSIGN_OR_RETURN(const std::shared_ptr<const File> file, File::Open(path));
  std::byte first{};
  if (file->size() == 0) return DataError("{} is empty (0 bytes)", path);
  RETURN_IF_ERROR(file->Read(0, std::span(&first, 1)));
  Labels out;
  if (first == std::byte{0x93}) {
    ASSIGN_OR_RETURN(Tensor tensor, ReadNpy(path));
    if (tensor.dtype() == DType::kFloat || tensor.dtype() == DType::kDouble) {
      out.numbers = std::move(tensor);
      return out;
    }
    ASSIGN_OR_RETURN(out.classes, FromArray(path, tensor));
    return out;
  }
  ASSIGN_OR_RETURN(const std::string text, ReadTextFile(path, kMaxText));
  ASSIGN_OR_RETURN(out.classes, FromText(path, text));
  return out;
}

}  // namespace quant
