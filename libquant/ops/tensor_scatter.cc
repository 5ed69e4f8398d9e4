// TensorScatter: a cache with an update written over it along `axis`, from an index per sample on:
//   y[b, ..., (write_indices[b] + i) mod length, ...] = update[b, ..., i, ...]       mod in mode "circular" only
#include <cstring>

#include "libquant/base/checked.h"
#include "libquant/ops/axes.h"
#include "libquant/ops/strided_copy.h"

namespace quant {
namespace {

// Where each sample's update begins, checked against the cache.
StatusOr<std::vector<int64_t>> ReadStarts(const KernelContext& context, int64_t batch, int64_t length, int64_t fresh) {
  const std::string mode = context.attributes().String("mode", "linear");
  if (mode != "linear" && mode != "circular") return DataError("mode is {}", mode);
  std::vector<int64_t> starts(static_cast<size_t>(batch), 0);
  if (const Tensor* indices = context.input(2)) {
    if (indices->dims() != Dims{batch})
      return DataError("write_indices of {} for {} samples", Describe(*indices), batch);
    ASSIGN_OR_RETURN(starts, IntsOf(*indices));
  }
  for (int64_t& start : starts) {
    const bool fits = start >= 0 && (mode == "circular" || start <= length - fresh);
    if (!fits) return DataError("{} steps from {} on are outside a cache of {}", fresh, start, length);
    if (length > 0) start %= length;
  }
  return starts;
}

Status EvalTensorScatter(KernelContext& context) {
  const Tensor &cache = context.in(0), &update = context.in(1);
  ASSIGN_OR_RETURN(const int64_t axis, NormalizeAxis(context.attributes().Int("axis", -2), cache.rank()));
  if (axis == 0) return DataError("axis 0 is the samples'");
  const auto a = static_cast<size_t>(axis);
  const int64_t length = cache.dims()[a];
  Dims want = cache.dims();
  if (update.rank() == cache.rank()) want[a] = update.dims()[a];
  if (update.dtype() != cache.dtype() || update.dims() != want || want[a] > length) {
    return DataError("an update of {} for a cache of {} along axis {}", Describe(update), Describe(cache), axis);
  }
  ASSIGN_OR_RETURN(const std::vector<int64_t> starts, ReadStarts(context, want[0], length, want[a]));
  ASSIGN_OR_RETURN(const int64_t element, ElementBytes(cache));
  ASSIGN_OR_RETURN(Tensor * y, context.Allocate(0, cache.dtype(), cache.dims()));
  if (y->size() == 0) return OkStatus();
  std::memcpy(y->mutable_bytes().data(), cache.bytes().data(), cache.bytes().size());
  const int64_t per_sample = ProductOf(want, 1, a);
  const auto row = static_cast<size_t>(ProductOf(want, a + 1, want.size()) * element);
  const std::byte* from = update.bytes().data();
  for (int64_t outer = 0; outer < want[0] * per_sample; ++outer) {
    const int64_t start = starts[static_cast<size_t>(outer / per_sample)];
    std::byte* to = y->mutable_bytes().data() + static_cast<size_t>(outer * length) * row;
    for (int64_t i = 0; i < want[a]; ++i, from += row) {
      std::memcpy(to + static_cast<size_t>((start + i) % length) * row, from, row);
    }
  }
  return OkStatus();
}

}  // namespace

const OpDef& TensorScatterOp() {
  static const OpDef def = {.name = "TensorScatter",
                            .since = {24},
                            .min_inputs = 2,
                            .eval = EvalTensorScatter,
                            .role = SharedScale{},
                            .exactness = Exactness::kExact,
                            .summary = "A cache with an update written over it"};
  return def;
}

}  // namespace quant
