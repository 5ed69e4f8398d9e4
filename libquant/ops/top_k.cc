// TopK: the k largest (or smallest) elements along an axis and where they were, best first; equals by position. NaN
// counts as larger than any number.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "libquant/base/parallel.h"
#include "libquant/ops/axes.h"
#include "libquant/ops/dispatch.h"

namespace quant {
namespace {

// An order over all values of a type.
template <typename T>
bool Below(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    if (std::isnan(b)) return !std::isnan(a);
  }
  return a < b;
}

// Places of the k best of a row, in order.
template <typename T>
void SelectRow(const std::vector<T>& row, int64_t k, bool largest, std::vector<int64_t>& places) {
  std::iota(places.begin(), places.end(), 0);
  const auto before = [&](int64_t i, int64_t j) {
    const T a = row[static_cast<size_t>(i)], b = row[static_cast<size_t>(j)];
    if (largest ? Below(b, a) : Below(a, b)) return true;
    if (largest ? Below(a, b) : Below(b, a)) return false;
    return i < j;
  };
  std::partial_sort(places.begin(), places.begin() + k, places.end(), before);
}

// K was an attribute in opset 1.
StatusOr<int64_t> ReadK(const KernelContext& context, int64_t length) {
  int64_t k = context.attributes().Int("k", 0);
  if (context.version() >= 10) {
    if (context.input(1) == nullptr || context.in(1).size() != 1) return DataError("K is no single number");
    ASSIGN_OR_RETURN(const std::vector<int64_t> values, IntsOf(context.in(1)));
    k = values[0];
  }
  if (k < 0 || k > length) return DataError("the top {} of an axis of {} are wanted", k, length);
  return k;
}

template <typename T>
void TopKRows(const Tensor& x, const AxisSplit& split, int64_t k, bool largest, T* values, int64_t* indices) {
  using W = typename Wide<T>::type;
  const T* from = x.data<T>().data();
  ParallelFor(split.outer, [&](int64_t o) {
    std::vector<W> row(static_cast<size_t>(split.length));
    std::vector<int64_t> places(row.size());
    for (int64_t i = 0; i < split.inner; ++i) {
      const T* in = from + o * split.length * split.inner + i;
      for (int64_t j = 0; j < split.length; ++j) row[static_cast<size_t>(j)] = static_cast<W>(in[j * split.inner]);
      SelectRow(row, k, largest, places);
      for (int64_t j = 0; j < k; ++j) {
        const int64_t to = (o * k + j) * split.inner + i;
        const int64_t place = places[static_cast<size_t>(j)];
        if (values != nullptr) values[to] = in[place * split.inner];
        if (indices != nullptr) indices[to] = place;
      }
    }
  });
}

Status EvalTopK(KernelContext& context) {
  const Tensor& x = context.in(0);
  ASSIGN_OR_RETURN(const int64_t axis, NormalizeAxis(context.attributes().Int("axis", -1), x.rank()));
  const AxisSplit split = SplitAt(x.dims(), axis);
  ASSIGN_OR_RETURN(const int64_t k, ReadK(context, split.length));
  const bool largest = context.attributes().Int("largest", 1) != 0;
  Dims dims = x.dims();
  dims[static_cast<size_t>(axis)] = k;
  Tensor *values = nullptr, *indices = nullptr;
  if (context.wanted(0)) {
    ASSIGN_OR_RETURN(values, context.Allocate(0, x.dtype(), dims));
  }
  if (context.wanted(1)) {
    ASSIGN_OR_RETURN(indices, context.Allocate(1, DType::kInt64, dims));
  }
  return WithNumber(x.dtype(), [&](auto zero) -> Status {
    using T = decltype(zero);
    TopKRows<T>(x, split, k, largest, values == nullptr ? nullptr : values->mutable_data<T>().data(),
                indices == nullptr ? nullptr : indices->mutable_data<int64_t>().data());
    return OkStatus();
  });
}

}  // namespace

const OpDef& TopKOp() {
  static const OpDef def = {.name = "TopK",
                            .since = {1, 10, 11, 24},
                            .eval = EvalTopK,
                            .role = OrderPreserving{},
                            .exactness = Exactness::kExact,
                            .summary = "The largest or smallest elements along an axis, and their places"};
  return def;
}

}  // namespace quant
