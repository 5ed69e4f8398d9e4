// ReverseSequence: of each sample the first sequence_lens[b] steps in reverse order, the rest as they are. Time and
// batch are the first two axes, either way round.
#include <cstring>

#include "libquant/ops/axes.h"
#include "libquant/ops/exact_op.h"
#include "libquant/ops/strided_copy.h"

namespace quant {
namespace {

Status EvalReverseSequence(KernelContext& context) {
  const Tensor& x = context.in(0);
  if (x.rank() < 2) return DataError("{} has no axes of time and samples", Describe(x));
  ASSIGN_OR_RETURN(const int64_t time_axis, NormalizeAxis(context.attributes().Int("time_axis", 0), x.rank()));
  ASSIGN_OR_RETURN(const int64_t batch_axis, NormalizeAxis(context.attributes().Int("batch_axis", 1), x.rank()));
  if (time_axis + batch_axis != 1) return DataError("time is axis {}, samples are axis {}", time_axis, batch_axis);
  const int64_t steps = x.dims()[static_cast<size_t>(time_axis)], batch = x.dims()[static_cast<size_t>(batch_axis)];
  ASSIGN_OR_RETURN(const std::vector<int64_t> lengths, IntsOf(context.in(1)));
  if (context.in(1).dims() != Dims{batch}) return DataError("{} lengths for {} samples", lengths.size(), batch);
  for (const int64_t length : lengths) {
    if (length < 0 || length > steps) return DataError("a sequence of {} in {} steps", length, steps);
  }
  ASSIGN_OR_RETURN(const int64_t element, ElementBytes(x));
  ASSIGN_OR_RETURN(Tensor * out, context.Allocate(0, x.dtype(), x.dims()));
  if (x.size() == 0) return OkStatus();
  const int64_t run = ProductOf(x.dims(), 2, x.dims().size()) * element;
  const int64_t time_stride = time_axis == 0 ? batch * run : run, batch_stride = time_axis == 0 ? run : steps * run;
  for (int64_t b = 0; b < batch; ++b) {
    const int64_t length = lengths[static_cast<size_t>(b)];
    const std::byte* from = x.bytes().data() + b * batch_stride;
    std::byte* to = out->mutable_bytes().data() + b * batch_stride;
    for (int64_t t = 0; t < steps; ++t) {
      const int64_t source = t < length ? length - 1 - t : t;
      std::memcpy(to + t * time_stride, from + source * time_stride, static_cast<size_t>(run));
    }
  }
  return OkStatus();
}

}  // namespace

const OpDef& ReverseSequenceOp() {
  static const OpDef def =
      Mover("ReverseSequence", {10}, 2, EvalReverseSequence, "The first steps of each sample in reverse order");
  return def;
}

}  // namespace quant
