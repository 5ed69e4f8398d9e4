// What the attention operators of com.microsoft share: their masks, attention_bias and attributes.
#pragma once

#include <vector>

#include "libquant/ops/attention_past.h"
#include "libquant/ops/infer_shapes.h"

namespace quant {

// Inputs by number.
struct MicrosoftInputs {
  int mask = -1;
  int bias = -1;  // attention_bias
};

// Owns what the task's bias and mask point to.
struct MicrosoftScores {
  FloatInput<float> bias;
  std::vector<float> mask;
};

// Reads scale, mask_filter_value, unidirectional, mask and attention_bias into a task whose size and past are set. A
// mask is int32 and one of
//   [batch]                          keys from this number on are hidden
//   [2 * batch]                      so they are, and those below the numbers of the second half
//   [3 * batch + 2]                  as [batch], by its first numbers
//   [batch, kv_len]                  0 hides a key
//   [batch, q_len, kv_len]           for each query
//   [batch, 1, max_len, max_len]     for each query, counted from the first key of the past
// Hidden keys get mask_filter_value. attention_bias is [batch or 1, heads or 1, q_len, kv_len].
Status ReadMicrosoftScores(const KernelContext& context, const MicrosoftInputs& inputs, AttentionTask<float>& task,
                           MicrosoftScores& out);

// [batch or 1, heads or 1, q_len, columns] as what is added to the task's scores; `out` owns it.
Status ReadAttentionBias(const KernelContext& context, const Tensor& tensor, int64_t columns,
                         AttentionTask<float>& task, FloatInput<float>& out);

// num_heads, checked to be positive.
StatusOr<int64_t> ReadNumHeads(const Attributes& attributes);

// Type and shape inference: the length of the past, which is this axis of an input, and of what is new. Unknown unless
// both are known.
Dim JoinedLength(const InferContext& context, size_t past, size_t axis, const Dim& fresh);

}  // namespace quant
