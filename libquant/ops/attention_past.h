// Keys and values of the past before new ones, as the attention operators have them: in the present output where it is
// wanted, else in scratch memory.
#pragma once

#include <memory>

#include "libquant/ops/attention_core.h"
#include "libquant/ops/float_view.h"

namespace quant {

struct PastSlot {
  int past = -1;     // the input
  int present = -1;  // the output
  DType dtype = DType::kFloat;
};

// Owns what joined keys or values lie in.
template <typename T>
struct PastCache {
  FloatInput<T> past;
  FloatOutput<T> present;
  std::shared_ptr<Buffer> scratch;
};

// Reads the past and makes room for dims of the present.
template <typename T>
StatusOr<T*> MakeRoom(KernelContext& context, const PastSlot& slot, const Dims& dims, PastCache<T>& out) {
  ASSIGN_OR_RETURN(out.past, FloatInput<T>::Of(context, context.input(slot.past)));
  if (context.wanted(slot.present)) {
    ASSIGN_OR_RETURN(out.present, FloatOutput<T>::Make(context, slot.present, slot.dtype, dims));
    return out.present.data();
  }
  const auto bytes = BytesFor(DTypeOf<T>(), dims);
  if (!bytes) return DataError("a present of {} is too large", ToString(dims));
  out.scratch = context.Scratch(*bytes);
  return reinterpret_cast<T*>(out.scratch->data());
}

// Joins an input [batch, heads, past_len, size], given in all but its elements, with the new rows of heads.fresh.
// `view` is what to attend to: the new rows themselves where there is neither past nor present.
template <typename T>
Status JoinPast(KernelContext& context, const PastSlot& slot, JoinedHeads<T> heads, HeadView<const T>& view,
                PastCache<T>& out) {
  view = heads.fresh;
  const int64_t length = heads.full_length();
  const bool wanted = context.wanted(slot.present);
  if (!wanted && heads.past_len == 0 && length == heads.fresh_len) return OkStatus();
  ASSIGN_OR_RETURN(T * joined, MakeRoom(context, slot, {heads.batch, heads.heads, length, heads.size}, out));
  heads.past = out.past.data();
  JoinHeads(heads, joined);
  view = HeadsFirst<const T>(joined, heads.heads, length, heads.size);
  return wanted ? out.present.Finish() : OkStatus();
}

}  // namespace quant
