#include <algorithm>
#include <charconv>
#include <map>
#include <set>

#include "libquant/base/checked.h"
#include "libquant/base/hash_text.h"
#include "libquant/base/scatter_bits.h"
#include "libquant/data/array_stream.h"
#include "libquant/data/samples.h"

namespace quant {
namespace {

// Numbers by position: element i of a stream needs no other.
class Stream {
 public:
  Stream(uint64_t seed, uint64_t sample, const std::string& name) {
    key_ = ScatterBits(ScatterBits(ScatterBits(seed) ^ sample) ^ HashText(name));
  }
  uint64_t Bits(int64_t i) const { return ScatterBits(key_ + static_cast<uint64_t>(i) * 0xD1342543DE82EF95u); }
  // Uniform in [0, bound), up to a bias of bound / 2^64.
  int64_t Below(int64_t i, int64_t bound) const {
    return static_cast<int64_t>((static_cast<unsigned __int128>(Bits(i)) * static_cast<uint64_t>(bound)) >> 64);
  }
  // k / 2^(bits-1) - 1: exact in a type with that many bits of significand, so never rounded up to 1.
  float Uniform(int64_t i, int bits) const {
    const auto k = static_cast<int64_t>(Bits(i) >> (64 - bits));
    return static_cast<float>(k - (int64_t{1} << (bits - 1))) / static_cast<float>(int64_t{1} << (bits - 1));
  }

 private:
  uint64_t key_;
};

template <typename T>
void FillFloats(const Stream& stream, int bits, Tensor& out) {
  T* to = out.mutable_data<T>().data();
  for (int64_t i = 0; i < out.size(); ++i) to[i] = static_cast<T>(stream.Uniform(i, bits));
}

// Mostly ones, at least one in each row of the last axis: a mask of zeros alone has no meaning.
template <typename T>
void FillMask(const Stream& stream, Tensor& out) {
  T* to = out.mutable_data<T>().data();
  const int64_t width = out.rank() == 0 ? 1 : out.dims().back();
  for (int64_t row = 0; row < out.size(); row += width) {
    bool any = false;
    for (int64_t i = row; i < row + width; ++i) {
      to[i] = static_cast<T>((stream.Bits(i) >> 62) != 0 ? 1 : 0);
      any = any || to[i] != T(0);
    }
    if (!any) to[row] = T(1);
  }
}

template <typename T>
void FillIntegers(const Stream& stream, int64_t bound, Tensor& out) {
  if (bound <= 0) return FillMask<T>(stream, out);
  const int64_t limit = std::min<int64_t>(bound - 1, static_cast<int64_t>(std::numeric_limits<T>::max()));
  T* to = out.mutable_data<T>().data();
  for (int64_t i = 0; i < out.size(); ++i) to[i] = static_cast<T>(stream.Below(i, limit + 1));
}

Status Fill(const InputSpec& spec, const Stream& stream, Tensor& out) {
  switch (out.dtype()) {
    case DType::kFloat:
      FillFloats<float>(stream, 24, out);
      break;
    case DType::kDouble:
      FillFloats<double>(stream, 24, out);
      break;
    case DType::kFloat16:
      FillFloats<float16>(stream, 11, out);
      break;
    case DType::kBfloat16:
      FillFloats<bfloat16>(stream, 8, out);
      break;
    case DType::kInt64:
      FillIntegers<int64_t>(stream, spec.index_bound, out);
      break;
    case DType::kInt32:
      FillIntegers<int32_t>(stream, spec.index_bound, out);
      break;
    case DType::kUint64:
      FillMask<uint64_t>(stream, out);
      break;
    case DType::kUint32:
      FillMask<uint32_t>(stream, out);
      break;
    case DType::kInt16:
      FillMask<int16_t>(stream, out);
      break;
    case DType::kUint16:
      FillMask<uint16_t>(stream, out);
      break;
    case DType::kInt8:
      FillMask<int8_t>(stream, out);
      break;
    case DType::kUint8:
      FillMask<uint8_t>(stream, out);
      break;
    case DType::kBool:
      for (int64_t i = 0; i < out.size(); ++i) {
        out.mutable_bytes()[static_cast<size_t>(i)] = static_cast<std::byte>(stream.Bits(i) >> 63);
      }
      break;
    default:
      return Unsupported("input {} is {}; random samples of that are not made", spec.name, NameOf(out.dtype()));
  }
  return OkStatus();
}

// What a dynamic dim is called: its name, or the input's and its axis.
std::string KeyOf(const InputSpec& spec, size_t axis) {
  const std::string& symbol = (*spec.shape)[axis].symbol;
  return symbol.empty() ? fmt::format("{}.{}", spec.name, axis) : symbol;
}

// Sizes of the dynamic dims of a model's inputs, by name.
class DimSizes {
 public:
  DimSizes(const std::vector<InputSpec>& inputs, const RandomDims& dims) : dims_(dims) {
    for (const InputSpec& spec : inputs) {
      if (!spec.shape) continue;
      for (size_t i = 0; i < spec.shape->size(); ++i) {
        const Dim& dim = (*spec.shape)[i];
        if (dim.known() || !IsName(dim.symbol)) continue;
        sizes_.try_emplace(dim.symbol, dims_.others);
        if (i == 0) sizes_[dim.symbol] = 1;
      }
    }
    for (auto& [name, size] : sizes_) {
      if (const auto given = dims_.named.find(name); given != dims_.named.end()) size = given->second;
    }
    constexpr std::string_view kTotal = "total_";
    for (auto& [name, size] : sizes_) {
      if (name.rfind(kTotal, 0) != 0 || dims_.named.contains(name)) continue;
      const auto rest = sizes_.find(name.substr(kTotal.size()));
      const auto past = sizes_.find("past_" + name.substr(kTotal.size()));
      if (rest == sizes_.end() || past == sizes_.end()) continue;
      size = CheckedAdd(rest->second, past->second).value_or(dims_.others);
    }
  }

  int64_t Of(const InputSpec& spec, size_t axis) const {
    const Dim& dim = (*spec.shape)[axis];
    if (dim.known()) return dim.value;
    if (const auto it = dims_.named.find(KeyOf(spec, axis)); it != dims_.named.end()) return it->second;
    if (const auto it = sizes_.find(dim.symbol); it != sizes_.end()) return it->second;
    return axis == 0 ? 1 : SumOf(dim.symbol);
  }

  bool Given(const std::string& key) const { return dims_.named.contains(key); }

 private:
  static bool IsName(const std::string& symbol) { return !symbol.empty() && symbol.find('+') == std::string::npos; }

  // "a + b + 1"; a part that no input names is a dynamic dim of its own.
  int64_t SumOf(const std::string& symbol) const {
    if (symbol.find('+') == std::string::npos) return dims_.others;
    int64_t sum = 0;
    for (size_t begin = 0; begin <= symbol.size();) {
      const size_t end = std::min(symbol.find('+', begin), symbol.size());
      std::string part = symbol.substr(begin, end - begin);
      std::erase(part, ' ');
      const auto size = sizes_.find(part);
      int64_t value = size != sizes_.end() ? size->second : dims_.others;
      int64_t number = 0;
      const auto [stop, error] = std::from_chars(part.data(), part.data() + part.size(), number);
      if (error == std::errc() && stop == part.data() + part.size() && number >= 0) value = number;
      sum = CheckedAdd(sum, value).value_or(dims_.others);
      begin = end + 1;
    }
    return sum;
  }

  RandomDims dims_;
  std::map<std::string, int64_t> sizes_;
};

// Calls `visit` with each dynamic dim, once for each name.
template <typename Visit>
void VisitDynamicDims(const std::vector<InputSpec>& inputs, const Visit& visit) {
  std::set<std::string> seen;
  for (const InputSpec& spec : inputs) {
    for (size_t axis = 0; spec.shape && axis < spec.shape->size(); ++axis) {
      if ((*spec.shape)[axis].known() || !seen.insert(KeyOf(spec, axis)).second) continue;
      visit(spec, axis);
    }
  }
}

class RandomSource : public SampleSource {
 public:
  RandomSource(int64_t count, uint64_t seed, std::vector<InputSpec> inputs, const RandomDims& dims)
      : count_(count), seed_(seed), inputs_(std::move(inputs)), sizes_(inputs_, dims) {}

  int64_t count() const override { return count_; }

  StatusOr<NamedTensors> Load(int64_t i) override {
    NamedTensors out;
    for (const InputSpec& spec : inputs_) {
      if (spec.dtype == DType::kUndefined) return DataError("input {} is no tensor; give samples of it", spec.name);
      if (!spec.shape) return DataError("input {} has no known rank; give samples of it", spec.name);
      Dims dims;
      for (size_t axis = 0; axis < spec.shape->size(); ++axis) dims.push_back(sizes_.Of(spec, axis));
      if (InfoOf(spec.dtype).bits == 0) {
        return Unsupported("input {} is {}; random samples of that are not made", spec.name, NameOf(spec.dtype));
      }
      ASSIGN_OR_RETURN(Tensor tensor, TryAllocate("input " + spec.name, spec.dtype, std::move(dims)));
      RETURN_IF_ERROR(Fill(spec, Stream(seed_, static_cast<uint64_t>(i), spec.name), tensor));
      out.emplace_back(spec.name, std::move(tensor));
    }
    return out;
  }

  std::string ChosenSizes() const override {
    std::string out;
    VisitDynamicDims(inputs_, [&](const InputSpec& spec, size_t axis) {
      const std::string key = KeyOf(spec, axis);
      if (!sizes_.Given(key)) out += fmt::format("{}{}={}", out.empty() ? "" : ", ", key, sizes_.Of(spec, axis));
    });
    return out;
  }

 private:
  int64_t count_;
  uint64_t seed_;
  std::vector<InputSpec> inputs_;
  DimSizes sizes_;
};

}  // namespace

std::vector<std::string> DynamicDims(const std::vector<InputSpec>& inputs) {
  std::vector<std::string> out;
  VisitDynamicDims(inputs, [&](const InputSpec& spec, size_t axis) { out.push_back(KeyOf(spec, axis)); });
  return out;
}

std::unique_ptr<SampleSource> RandomSamples(int64_t count, uint64_t seed, std::vector<InputSpec> inputs,
                                            const RandomDims& dims) {
  return std::make_unique<RandomSource>(count, seed, std::move(inputs), dims);
}

}  // namespace quant
