// Updates written over a tensor, or folded into it by `reduction`, at places that indices give; of updates for one
// place the last counts, or all are folded in order. Negative indices count from the end.
//   ScatterElements (once Scatter):  y[.., indices[p], ..] = updates[p], the index standing on `axis` of place p
//   ScatterND:                       y[indices[p, :]] = updates[p], a slice where indices are shorter than the rank
#include <algorithm>
#include <cmath>
#include <cstring>

#include "libquant/ops/axes.h"
#include "libquant/ops/dispatch.h"
#include "libquant/ops/strided_copy.h"

namespace quant {
namespace {

// Update i, `run` elements, belongs to y from element targets[i] on.
struct ScatterPlan {
  std::vector<int64_t> targets;
  int64_t run = 1;
};

template <typename T>
T Fold(const std::string& how, T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    if (std::isnan(a) || std::isnan(b)) return a + b;
    if (how == "add") return a + b;
    if (how == "mul") return a * b;
  } else {
    // As wide as it gets, so that nothing overflows but by wrapping.
    if (how == "add") return static_cast<T>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
    if (how == "mul") return static_cast<T>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
  }
  return how == "max" ? std::max(a, b) : std::min(a, b);
}

Status Scatter(KernelContext& context, const ScatterPlan& plan) {
  const Tensor &x = context.in(0), &updates = context.in(2);
  const std::string how = context.attributes().String("reduction", "none");
  if (how != "none" && how != "add" && how != "mul" && how != "max" && how != "min") {
    return DataError("reduction is {}", how);
  }
  ASSIGN_OR_RETURN(const int64_t element, ElementBytes(x));
  ASSIGN_OR_RETURN(Tensor * y, context.Allocate(0, x.dtype(), x.dims()));
  std::byte* out = y->mutable_bytes().data();
  if (x.size() > 0) std::memcpy(out, x.bytes().data(), x.bytes().size());
  if (updates.size() == 0) return OkStatus();
  if (how == "none") {
    const auto bytes = static_cast<size_t>(plan.run * element);
    const std::byte* from = updates.bytes().data();
    for (const int64_t target : plan.targets) {
      std::memcpy(out + target * element, from, bytes);
      from += bytes;
    }
    return OkStatus();
  }
  return WithNumber(x.dtype(), [&](auto zero) -> Status {
    using T = decltype(zero);
    using W = typename Wide<T>::type;
    const T* from = updates.data<T>().data();
    for (const int64_t target : plan.targets) {
      T* to = y->mutable_data<T>().data() + target;
      for (int64_t i = 0; i < plan.run; ++i) {
        to[i] = static_cast<T>(Fold(how, static_cast<W>(to[i]), static_cast<W>(from[i])));
      }
      from += plan.run;
    }
    return OkStatus();
  });
}

Status EvalScatterElements(KernelContext& context) {
  const Tensor &x = context.in(0), &indices = context.in(1), &updates = context.in(2);
  if (x.rank() == 0 || indices.rank() != x.rank() || updates.dims() != indices.dims() || updates.dtype() != x.dtype()) {
    return DataError("updates {} at {} for {}", Describe(updates), Describe(indices), Describe(x));
  }
  ASSIGN_OR_RETURN(const int64_t axis, NormalizeAxis(context.attributes().Int("axis", 0), x.rank()));
  const auto a = static_cast<size_t>(axis);
  for (size_t d = 0; d < x.dims().size(); ++d) {
    if (d != a && indices.dims()[d] > x.dims()[d])
      return DataError("{} indices for {}", Describe(indices), Describe(x));
  }
  ASSIGN_OR_RETURN(const std::vector<int64_t> picks, IndicesInto(indices, x.dims()[a]));
  const std::vector<int64_t> strides = DenseStrides(x.dims());
  ScatterPlan plan;
  plan.targets.resize(picks.size());
  for (size_t i = 0; i < picks.size(); ++i) {
    auto rest = static_cast<int64_t>(i);
    int64_t at = 0;
    for (size_t d = x.dims().size(); d-- > 0;) {
      at += (d == a ? picks[i] : rest % indices.dims()[d]) * strides[d];
      rest /= indices.dims()[d];
    }
    plan.targets[i] = at;
  }
  return Scatter(context, plan);
}

Status EvalScatterND(KernelContext& context) {
  const Tensor &x = context.in(0), &indices = context.in(1), &updates = context.in(2);
  const int64_t depth = indices.rank() == 0 ? 0 : indices.dims().back();
  if (depth < 1 || depth > x.rank()) return DataError("{} indices for {}", Describe(indices), Describe(x));
  Dims want(indices.dims().begin(), indices.dims().end() - 1);
  want.insert(want.end(), x.dims().begin() + depth, x.dims().end());
  if (updates.dims() != want || updates.dtype() != x.dtype()) {
    return DataError("updates {} at {} for {}", Describe(updates), Describe(indices), Describe(x));
  }
  ASSIGN_OR_RETURN(const std::vector<int64_t> picks, IntsOf(indices));
  const std::vector<int64_t> strides = DenseStrides(x.dims());
  ScatterPlan plan;
  plan.run = ProductOf(x.dims(), static_cast<size_t>(depth), x.dims().size());
  plan.targets.assign(picks.size() / static_cast<size_t>(depth), 0);
  for (size_t i = 0; i < picks.size(); ++i) {
    const size_t axis = i % static_cast<size_t>(depth);
    const int64_t dim = x.dims()[axis], pick = picks[i];
    if (pick < -dim || pick >= dim) return DataError("index {} is outside an axis of {}", pick, dim);
    plan.targets[i / static_cast<size_t>(depth)] += (pick < 0 ? pick + dim : pick) * strides[axis];
  }
  return Scatter(context, plan);
}

constexpr IndexInput kAlongAxis = {.indices = 1, .table = 0, .axis_attribute = "axis"};

OpDef Scatterer(std::string_view name, std::vector<int64_t> since, Status (*eval)(KernelContext&),
                std::optional<IndexInput> index_input, std::string_view summary) {
  return {.name = name,
          .since = std::move(since),
          .min_inputs = 3,
          .eval = eval,
          .role = SharedScale{},
          .exactness = Exactness::kExact,
          .index_input = index_input,
          .summary = summary};
}

}  // namespace

const OpDef& ScatterOp() {
  static const OpDef def =
      Scatterer("Scatter", {9, 11}, EvalScatterElements, kAlongAxis, "Elements written at indices along an axis");
  return def;
}
const OpDef& ScatterElementsOp() {
  static const OpDef def = Scatterer("ScatterElements", {11, 13, 16, 18}, EvalScatterElements, kAlongAxis,
                                     "Elements written or folded in at indices along an axis");
  return def;
}
const OpDef& ScatterNDOp() {
  static const OpDef def = Scatterer("ScatterND", {11, 13, 16, 18}, EvalScatterND, std::nullopt,
                                     "Slices written or folded in at index vectors");
  return def;
}

}  // namespace quant
