// Unique: the different elements of a tensor or, with `axis`, its different slices; sorted, or in order of appearance.
// Further outputs: where each appears first, which of them each element is, and how often each appears. All NaNs are
// the same and come last.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include "libquant/ops/axes.h"
#include "libquant/ops/dispatch.h"

namespace quant {
namespace {

template <typename T>
int Compare(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    if (std::isnan(a) || std::isnan(b)) return static_cast<int>(std::isnan(a)) - static_cast<int>(std::isnan(b));
  }
  return a < b ? -1 : b < a ? 1 : 0;
}

// Slices of a tensor along the middle axis of a split, in lexical order.
template <typename T>
class Slices {
 public:
  Slices(const T* data, const AxisSplit& split) : data_(data), split_(split) {}
  int Order(int64_t a, int64_t b) const {
    using W = typename Wide<T>::type;
    for (int64_t o = 0; o < split_.outer; ++o) {
      const T* base = data_ + o * split_.length * split_.inner;
      for (int64_t i = 0; i < split_.inner; ++i) {
        const int order =
            Compare(static_cast<W>(base[a * split_.inner + i]), static_cast<W>(base[b * split_.inner + i]));
        if (order != 0) return order;
      }
    }
    return 0;
  }

 private:
  const T* data_;
  AxisSplit split_;
};

struct Groups {
  std::vector<int64_t> first;    // of each group, the first slice
  std::vector<int64_t> inverse;  // of each slice, its group
  std::vector<int64_t> counts;
};

template <typename T>
Groups GroupSlices(const Slices<T>& slices, int64_t length, bool sorted) {
  std::vector<int64_t> order(static_cast<size_t>(length));
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
    const int c = slices.Order(a, b);
    return c != 0 ? c < 0 : a < b;
  });
  Groups out;
  out.inverse.resize(order.size());
  for (size_t i = 0; i < order.size(); ++i) {
    if (i == 0 || slices.Order(order[i - 1], order[i]) != 0) {
      out.first.push_back(order[i]);
      out.counts.push_back(0);
    }
    ++out.counts.back();
    out.inverse[static_cast<size_t>(order[i])] = static_cast<int64_t>(out.first.size()) - 1;
  }
  if (sorted) return out;
  std::vector<int64_t> by_first(out.first.size());
  std::iota(by_first.begin(), by_first.end(), 0);
  std::sort(by_first.begin(), by_first.end(), [&](int64_t a, int64_t b) {
    return out.first[static_cast<size_t>(a)] < out.first[static_cast<size_t>(b)];
  });
  Groups moved = out;
  std::vector<int64_t> new_place(by_first.size());
  for (size_t i = 0; i < by_first.size(); ++i) {
    const auto old = static_cast<size_t>(by_first[i]);
    moved.first[i] = out.first[old];
    moved.counts[i] = out.counts[old];
    new_place[old] = static_cast<int64_t>(i);
  }
  for (int64_t& group : moved.inverse) group = new_place[static_cast<size_t>(group)];
  return moved;
}

template <typename T>
Status EmitSlices(KernelContext& context, const Tensor& x, int64_t axis, const std::vector<int64_t>& picks) {
  Dims dims = x.dims();
  dims[static_cast<size_t>(axis)] = static_cast<int64_t>(picks.size());
  ASSIGN_OR_RETURN(Tensor * out, context.Allocate(0, x.dtype(), dims));
  const AxisSplit split = SplitAt(x.dims(), axis);
  if (out->size() == 0) return OkStatus();
  T* to = out->mutable_data<T>().data();
  for (int64_t o = 0; o < split.outer; ++o) {
    const T* from = x.data<T>().data() + o * split.length * split.inner;
    for (const int64_t pick : picks) to = std::copy_n(from + pick * split.inner, split.inner, to);
  }
  return OkStatus();
}

Status EvalUnique(KernelContext& context) {
  const Tensor& input = context.in(0);
  const bool flat = !context.attributes().Has("axis");
  const Tensor x = flat ? input.Reshaped({input.size()}) : input;
  ASSIGN_OR_RETURN(const int64_t axis, NormalizeAxis(context.attributes().Int("axis", 0), x.rank()));
  const bool sorted = context.attributes().Int("sorted", 1) != 0;
  const AxisSplit split = SplitAt(x.dims(), axis);
  Groups groups;
  const auto evaluate = [&](auto zero) -> Status {
    using T = decltype(zero);
    groups = GroupSlices(Slices<T>(x.data<T>().data(), split), split.length, sorted);
    return context.wanted(0) ? EmitSlices<T>(context, x, axis, groups.first) : OkStatus();
  };
  RETURN_IF_ERROR(x.dtype() == DType::kBool ? evaluate(false) : WithNumber(x.dtype(), evaluate));
  int i = 0;
  for (const std::vector<int64_t>* list : {&groups.first, &groups.inverse, &groups.counts}) {
    ++i;
    if (context.wanted(i)) context.Set(i, Tensor::Of<int64_t>({static_cast<int64_t>(list->size())}, std::span(*list)));
  }
  return OkStatus();
}

}  // namespace

const OpDef& UniqueOp() {
  static const OpDef def = {.name = "Unique",
                            .since = {11},
                            .eval = EvalUnique,
                            .role = Control{},
                            .exactness = Exactness::kExact,
                            .summary = "The different elements or slices"};
  return def;
}

}  // namespace quant
