#include "libquant/data/npy_header.h"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <optional>
#include <vector>

#include "libquant/ir/tensor.h"

namespace quant {
namespace {

static_assert(std::endian::native == std::endian::little);

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr int64_t kMaxHeader = 1 << 16;
constexpr size_t kMaxRank = 64;

struct TypeRow {
  DType dtype;
  std::string_view name;
};
constexpr std::array kTypes = {
    TypeRow{DType::kFloat, "<f4"},     TypeRow{DType::kDouble, "<f8"},      TypeRow{DType::kFloat16, "<f2"},
    TypeRow{DType::kInt8, "|i1"},      TypeRow{DType::kUint8, "|u1"},       TypeRow{DType::kInt16, "<i2"},
    TypeRow{DType::kUint16, "<u2"},    TypeRow{DType::kInt32, "<i4"},       TypeRow{DType::kUint32, "<u4"},
    TypeRow{DType::kInt64, "<i8"},     TypeRow{DType::kUint64, "<u8"},      TypeRow{DType::kBool, "|b1"},
    TypeRow{DType::kComplex64, "<c8"}, TypeRow{DType::kComplex128, "<c16"},
};

// Reads the dictionary's text; every method leaves the position alone when it does not find what it wants.
class Scanner {
 public:
  explicit Scanner(std::string_view text) : text_(text) {}

  bool Eat(char c) {
    SkipSpace();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  bool EatWord(std::string_view word) {
    SkipSpace();
    if (text_.substr(at_, word.size()) != word) return false;
    at_ += word.size();
    return true;
  }
  std::optional<std::string_view> String() {
    SkipSpace();
    if (at_ >= text_.size() || (text_[at_] != '\'' && text_[at_] != '"')) return std::nullopt;
    const size_t end = text_.find(text_[at_], at_ + 1);
    if (end == std::string_view::npos) return std::nullopt;
    const std::string_view out = text_.substr(at_ + 1, end - at_ - 1);
    at_ = end + 1;
    return out;
  }
  std::optional<int64_t> Number() {
    SkipSpace();
    int64_t out = 0;
    const char* begin = text_.data() + at_;
    const auto [end, error] = std::from_chars(begin, text_.data() + text_.size(), out);
    if (error != std::errc()) return std::nullopt;
    at_ += static_cast<size_t>(end - begin);
    EatWord("L");  // Python 2 wrote long integers so
    return out;
  }
  bool AtEnd() {
    SkipSpace();
    return at_ == text_.size();
  }

 private:
  void SkipSpace() { at_ = std::min(text_.find_first_not_of(" \t\n\r", at_), text_.size()); }
  std::string_view text_;
  size_t at_ = 0;
};

std::optional<Dims> ReadShape(Scanner& scanner) {
  Dims dims;
  if (!scanner.Eat('(')) return std::nullopt;
  while (!scanner.Eat(')')) {
    const auto dim = scanner.Number();
    if (!dim || *dim < 0 || dims.size() == kMaxRank) return std::nullopt;
    dims.push_back(*dim);
    if (!scanner.Eat(',')) {
      // Without the comma, (3) is a number in Python and no shape.
      if (dims.size() < 2 || !scanner.Eat(')')) return std::nullopt;
      break;
    }
  }
  return dims;
}

StatusOr<DType> TypeFromNumpy(const std::string& what, std::string_view name) {
  for (const TypeRow& row : kTypes) {
    const bool one_byte = row.name[0] == '|';
    if (name.substr(1) == row.name.substr(1) && (name[0] == row.name[0] || (one_byte && name[0] == '<'))) {
      return row.dtype;
    }
  }
  if (!name.empty() && name[0] == '>') {
    return DataError("{} holds big-endian numbers ('{}'); save it as little-endian, with .astype('<{}')", what, name,
                     name.substr(1));
  }
  return DataError("{} holds elements of type '{}'; arrays of plain numbers are read", what, name);
}

Status BadHeader(const std::string& what) { return DataError("{} has no sound .npy header", what); }

StatusOr<NpyHeader> ParseDictionary(const std::string& what, std::string_view text) {
  Scanner scanner(text);
  std::optional<DType> dtype;
  std::optional<bool> fortran;
  std::optional<Dims> dims;
  if (!scanner.Eat('{')) return BadHeader(what);
  while (!scanner.Eat('}')) {
    const auto key = scanner.String();
    if (!key || !scanner.Eat(':')) return BadHeader(what);
    if (*key == "descr" && !dtype) {
      if (scanner.Eat('[')) return DataError("{} holds records; arrays of plain numbers are read", what);
      const auto name = scanner.String();
      if (!name || name->empty()) return BadHeader(what);
      ASSIGN_OR_RETURN(dtype, TypeFromNumpy(what, *name));
    } else if (*key == "fortran_order" && !fortran) {
      if (scanner.EatWord("True")) {
        fortran = true;
      } else if (scanner.EatWord("False")) {
        fortran = false;
      } else {
        return BadHeader(what);
      }
    } else if (*key == "shape" && !dims) {
      dims = ReadShape(scanner);
      if (!dims) return BadHeader(what);
    } else {
      return BadHeader(what);
    }
    if (!scanner.Eat(',')) {
      if (!scanner.Eat('}')) return BadHeader(what);
      break;
    }
  }
  if (!scanner.AtEnd() || !dtype || !fortran || !dims) return BadHeader(what);
  return NpyHeader{*dtype, *fortran, std::move(*dims), 0, 0};
}

}  // namespace

StatusOr<NpyHeader> ReadNpyHeader(const std::string& what, ByteStream& stream) {
  std::array<std::byte, 12> start{};
  const auto length = static_cast<size_t>(std::min<int64_t>(stream.size(), static_cast<int64_t>(start.size())));
  RETURN_IF_ERROR(stream.Read(0, std::span(start).first(length)));
  const std::string_view text(reinterpret_cast<const char*>(start.data()), length);
  if (text.substr(0, kMagic.size()) != kMagic) {
    return DataError("{} is no .npy file: it does not start as one", what);
  }
  if (length < start.size()) return DataError("{} is cut off: {} bytes", what, stream.size());
  const int version = static_cast<int>(start[6]);
  if (version < 1 || version > 3) return DataError("{} is a .npy file of version {}; 1 to 3 are read", what, version);
  const auto at = [&](size_t i) { return static_cast<int64_t>(start[i]); };
  const int64_t offset = version == 1 ? 10 : 12;
  const int64_t size = version == 1 ? at(8) + (at(9) << 8) : at(8) + (at(9) << 8) + (at(10) << 16) + (at(11) << 24);
  if (size > kMaxHeader)
    return DataError("{} has a .npy header of {} bytes; at most {} are read", what, size, kMaxHeader);
  if (size > stream.size() - offset) return DataError("{} is cut off: {} bytes", what, stream.size());
  std::string dictionary(static_cast<size_t>(size), '\0');
  RETURN_IF_ERROR(stream.Read(offset, std::as_writable_bytes(std::span(dictionary))));
  ASSIGN_OR_RETURN(NpyHeader header, ParseDictionary(what, dictionary));
  header.data_offset = offset + size;
  const auto bytes = BytesFor(header.dtype, header.dims);
  const int64_t found = stream.size() - header.data_offset;
  if (!bytes)
    return DataError("{} claims to be {}[{}], more than there can be", what, NameOf(header.dtype),
                     ToString(header.dims));
  if (*bytes != found) {
    return DataError("{} is {}[{}], which takes {} bytes; it holds {}", what, NameOf(header.dtype),
                     ToString(header.dims), *bytes, found);
  }
  header.data_bytes = *bytes;
  return header;
}

std::string_view NumpyName(DType dtype) {
  const auto row = std::find_if(kTypes.begin(), kTypes.end(), [&](const TypeRow& r) { return r.dtype == dtype; });
  return row == kTypes.end() ? std::string_view() : row->name;
}

std::string NpyHeaderFor(DType dtype, const Dims& dims) {
  std::string shape;
  for (int64_t d : dims) shape += fmt::format("{}{}", shape.empty() ? "" : ", ", d);
  if (dims.size() == 1) shape += ',';  // Python's tuple of one
  std::string text = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}), }}", NumpyName(dtype), shape);
  constexpr size_t kPrefix = 10;
  text.append(63 - (kPrefix + text.size()) % 64, ' ');
  text += '\n';
  std::string out(kMagic);
  out += {'\x01', '\x00', static_cast<char>(text.size() & 0xFF), static_cast<char>(text.size() >> 8)};
  return out + text;
}

}  // namespace quant
