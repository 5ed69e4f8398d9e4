#include "libquant/ops/broadcast.h"

#include <algorithm>
#include <array>

#include "libquant/base/checked.h"

namespace quant {
namespace {

// Elements of one piece of work: fixed, so that pieces don't depend on the number of threads.
constexpr int64_t kPiece = int64_t{1} << 15;

int64_t DimFromBack(const Dims& dims, size_t i) { return i < dims.size() ? dims[dims.size() - 1 - i] : 1; }

// Strides of an operand along the result's axes, before merging.
std::vector<int64_t> StridesOf(const Dims& dims, const Dims& out) {
  std::vector<int64_t> strides(out.size(), 0);
  int64_t stride = 1;
  for (size_t i = 0; i < out.size(); ++i) {
    const int64_t dim = DimFromBack(dims, i);
    if (dim != 1) strides[out.size() - 1 - i] = stride;
    stride *= dim;
  }
  return strides;
}

}  // namespace

StatusOr<BroadcastPlan> PlanBroadcast(const std::vector<const Tensor*>& operands) {
  BroadcastPlan plan;
  size_t rank = 0;
  for (const Tensor* t : operands) rank = std::max(rank, t->dims().size());
  plan.out.assign(rank, 1);
  for (const Tensor* t : operands) {
    for (size_t i = 0; i < rank; ++i) {
      int64_t& dim = plan.out[rank - 1 - i];
      const int64_t own = DimFromBack(t->dims(), i);
      if (own == 1 || own == dim) continue;
      if (dim != 1) return DataError("shapes do not broadcast: {} against {}", ToString(t->dims()), ToString(plan.out));
      dim = own;
    }
  }
  const auto size = CheckedProduct(plan.out);
  if (!size) return DataError("the broadcast result {} is too large", ToString(plan.out));
  plan.size = *size;

  std::vector<std::vector<int64_t>> full;
  for (const Tensor* t : operands) full.push_back(StridesOf(t->dims(), plan.out));
  plan.strides.resize(operands.size());
  for (size_t axis = 0; axis < rank; ++axis) {
    if (plan.out[axis] == 1) continue;
    // Merged into the axis before when each operand steps over it as over one.
    const bool merges = !plan.dims.empty() && [&] {
      for (size_t o = 0; o < full.size(); ++o) {
        if (plan.strides[o].back() != full[o][axis] * plan.out[axis]) return false;
      }
      return true;
    }();
    if (merges) {
      plan.dims.back() *= plan.out[axis];
      for (size_t o = 0; o < full.size(); ++o) plan.strides[o].back() = full[o][axis];
    } else {
      plan.dims.push_back(plan.out[axis]);
      for (size_t o = 0; o < full.size(); ++o) plan.strides[o].push_back(full[o][axis]);
    }
  }
  if (plan.dims.empty()) {
    plan.dims.push_back(1);
    for (auto& strides : plan.strides) strides.push_back(0);
  }
  return plan;
}

void ForEachRow(const BroadcastPlan& plan,
                const std::function<void(int64_t out, std::span<const int64_t> offsets, int64_t length)>& row) {
  if (plan.size == 0) return;
  const int64_t length = plan.dims.back();
  const int64_t rows = plan.size / length;
  const int64_t cuts = CeilDiv(length, kPiece);                 // pieces of a long row
  const int64_t group = std::max<int64_t>(1, kPiece / length);  // short rows taken together
  const int64_t jobs = cuts > 1 ? rows * cuts : CeilDiv(rows, group);
  const auto one = [&](int64_t r, int64_t begin, int64_t end) {
    std::array<int64_t, 8> offsets = {};
    const size_t count = std::min(plan.strides.size(), offsets.size());
    int64_t rest = r;
    for (size_t axis = plan.dims.size() - 1; axis-- > 0;) {
      const int64_t index = rest % plan.dims[axis];
      rest /= plan.dims[axis];
      for (size_t o = 0; o < count; ++o) offsets[o] += index * plan.strides[o][axis];
    }
    for (size_t o = 0; o < count; ++o) offsets[o] += begin * plan.strides[o].back();
    row(r * length + begin, std::span(offsets).first(count), end - begin);
  };
  ParallelFor(jobs, [&](int64_t job) {
    if (cuts > 1) {
      const int64_t begin = job % cuts * kPiece;
      one(job / cuts, begin, std::min(length, begin + kPiece));
      return;
    }
    for (int64_t r = job * group; r < std::min(rows, (job + 1) * group); ++r) one(r, 0, length);
  });
}

}  // namespace quant
