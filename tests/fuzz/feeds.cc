#include "tests/fuzz/feeds.h"

#include <cstring>
#include <map>

#include "tests/fuzz/odd_values.h"

namespace quant {
namespace {

constexpr int64_t kMostBytes = int64_t{1} << 20;

template <typename T>
void FillIntegers(Random& random, const InputSpec& spec, bool all_sound, Tensor& out) {
  // Most inputs of indices and sizes make sense, as otherwise nothing behind the check of them would run.
  const bool sound = all_sound || !OneIn(random, 3);
  const auto bound = static_cast<size_t>(spec.index_bound > 0 && spec.index_bound < 100 ? spec.index_bound : 4);
  for (T& v : out.mutable_data<T>()) v = static_cast<T>(sound ? Below(random, bound) : OddInteger(random));
}

template <typename T>
void FillReals(Random& random, bool all_sound, Tensor& out) {
  const bool sound = all_sound || !OneIn(random, 3);
  for (T& v : out.mutable_data<T>()) {
    v = static_cast<T>(
        static_cast<float>(sound ? static_cast<double>(Below(random, 2001)) / 500.0 - 2 : OddReal(random)));
  }
}

void FillBytes(Random& random, Tensor& out) {
  for (std::byte& b : out.mutable_bytes()) b = static_cast<std::byte>(random() & 0xff);
}

void Fill(Random& random, const InputSpec& spec, bool sound, Tensor& out) {
  switch (out.dtype()) {
    case DType::kFloat:
      return FillReals<float>(random, sound, out);
    case DType::kDouble:
      return FillReals<double>(random, sound, out);
    case DType::kFloat16:
      return FillReals<float16>(random, sound, out);
    case DType::kBfloat16:
      return FillReals<bfloat16>(random, sound, out);
    case DType::kInt64:
      return FillIntegers<int64_t>(random, spec, sound, out);
    case DType::kInt32:
      return FillIntegers<int32_t>(random, spec, sound, out);
    case DType::kUint64:
      return FillIntegers<uint64_t>(random, spec, sound, out);
    case DType::kUint32:
      return FillIntegers<uint32_t>(random, spec, sound, out);
    case DType::kBool:
      for (std::byte& b : out.mutable_bytes()) b = static_cast<std::byte>(random() & 1);
      return;
    default:
      return FillBytes(random, out);
  }
}

class FeedMaker {
 public:
  FeedMaker(uint64_t seed, bool sound) : random_(seed), sound_(sound) {}

  StatusOr<Tensor> Make(const InputSpec& spec) {
    if (spec.dtype == DType::kUndefined) return MakeList(spec);
    ASSIGN_OR_RETURN(Dims dims, DimsFor(spec));
    if (spec.dtype == DType::kString) {
      const auto count = static_cast<size_t>(*BytesFor(DType::kUint8, dims));
      return Tensor::OfStrings(std::move(dims), std::make_shared<std::vector<std::string>>(count, "ab"));
    }
    if (!BytesFor(spec.dtype, dims)) return Unsupported("input {} is {}", spec.name, NameOf(spec.dtype));
    Tensor out = Tensor::Allocate(spec.dtype, std::move(dims));
    Fill(random_, spec, sound_, out);
    return out;
  }

 private:
  StatusOr<Tensor> MakeList(const InputSpec& spec) {
    if (OneIn(random_, 6)) return Tensor::Nothing();
    std::vector<Tensor> items;
    for (size_t i = Below(random_, 4); i > 0; --i) {
      ASSIGN_OR_RETURN(Tensor item, Make({spec.name, DType::kFloat, std::nullopt, 0}));
      items.push_back(std::move(item));
    }
    return Tensor::OfList(std::move(items));
  }

  int64_t SmallDim() { return OneIn(random_, 12) ? 0 : 1 + static_cast<int64_t>(Below(random_, 5)); }

  StatusOr<Dims> DimsFor(const InputSpec& spec) {
    Dims dims;
    if (!spec.shape) dims.resize(Below(random_, 5), -1);
    for (const Dim& dim : spec.shape.value_or(Shape())) {
      if (!dim.known() && !dim.symbol.empty()) {
        dims.push_back(sizes_.try_emplace(dim.symbol, SmallDim()).first->second);
      } else {
        dims.push_back(dim.value);
      }
    }
    for (int64_t& dim : dims) dim = dim < 0 ? SmallDim() : dim;
    const auto bytes = BytesFor(DType::kDouble, dims);
    if (!bytes || *bytes > kMostBytes) return DataError("input {} is large: {}", spec.name, ToString(dims));
    return dims;
  }

  Random random_;
  bool sound_;
  std::map<std::string, int64_t> sizes_;
};

}  // namespace

StatusOr<NamedTensors> SeededFeeds(const std::vector<InputSpec>& inputs, uint64_t seed, bool sound) {
  FeedMaker maker(seed, sound);
  NamedTensors out;
  for (const InputSpec& spec : inputs) {
    ASSIGN_OR_RETURN(Tensor tensor, maker.Make(spec));
    out.emplace_back(spec.name, std::move(tensor));
  }
  return out;
}

}  // namespace quant
