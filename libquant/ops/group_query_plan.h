// What a checked GroupQueryAttention node computes, in numbers.
#pragma once

#include <vector>

#include "libquant/ops/attention_core.h"

namespace quant {

namespace group_query {

enum Input {
  kQuery,
  kKey,
  kValue,
  kPastKey,
  kPastValue,
  kLengths,
  kTotal,
  kCos,
  kSin,
  kPositions,
  kBias,
  kSink,
  kKeyScale,
  kValueScale,
  kQueryNorm,
  kKeyNorm
};
enum Output { kY, kPresentKey, kPresentValue, kScores };

struct Plan {
  AttentionSize size;
  bool packed = false, first = false;       // `first`: a prompt, without past
  int64_t past_len = 0, present_len = 0;    // rows of the tensors
  int64_t total = 0;                        // total_sequence_length
  std::vector<int64_t> past_used, lengths;  // keys of each sample: past, and all
};

// DataError when inputs and attributes don't fit each other, Unsupported for what the kernel doesn't do.
StatusOr<Plan> MakePlan(const KernelContext& context);

// The error for queries, keys and values that don't fit.
Status WrongInputs(const KernelContext& context);

}  // namespace group_query
}  // namespace quant
