// Scaled dot-product attention, the same for every operator that has it. For each sample and head:
//   scores = q * k' * scale                             q: q_len x head_size, k: kv_len x head_size
//   scores = softcap * tanh(scores / softcap)           with a softcap
//   scores = scores + biases, or hidden                 masks, causality, lengths
//   y = softmax(scores) * v                             v: kv_len x v_head_size
// A query that sees no key, all its scores being -infinity, gets 0, as in ONNX Runtime.
// Several query heads may share a key head: query head h reads key head h / (heads / kv_heads).
#pragma once

#include <array>
#include <limits>

#include "libquant/ops/op_def.h"

namespace quant {

struct AttentionSize {
  int64_t batch = 0, heads = 0, kv_heads = 0;
  int64_t q_len = 0, kv_len = 0;
  int64_t head_size = 0, v_head_size = 0;
};

// Matrices of one sample and head in an array, by strides; columns are adjacent.
template <typename T>
struct HeadView {
  T* data = nullptr;
  int64_t batch = 0, head = 0, row = 0;

  T* at(int64_t b, int64_t h) const { return data + b * batch + h * head; }
};

// [batch, heads, length, size] and [batch, length, heads, size].
template <typename T>
HeadView<T> HeadsFirst(T* data, int64_t heads, int64_t length, int64_t size) {
  return {data, heads * length * size, length * size, size};
}
template <typename T>
HeadView<T> HeadsLast(T* data, int64_t heads, int64_t length, int64_t size) {
  return {data, heads * length * size, size, heads * size};
}

// Numbers added to scores. A stride of 0 broadcasts; keys from `columns` on are hidden.
template <typename T>
struct ScoreBias {
  const T* data = nullptr;  // null: nothing is added
  int64_t batch = 0, head = 0, row = 0, columns = 0;

  const T* at(int64_t b, int64_t h, int64_t i) const { return data + b * batch + h * head + i * row; }
};

enum class ScoreStage { kScaled, kCapped, kBiased, kSoftmax };

template <typename T>
struct AttentionTask {
  AttentionSize size;
  HeadView<const T> q, k, v;
  HeadView<T> y;
  T scale = 1;
  T softcap = 0;  // 0: none
  ScoreBias<T> bias, mask;
  // With `causal`, query i sees keys up to i + past only, but for the last query where `last_sees_all`.
  // `causal_value` takes the mask's place elsewhere.
  bool causal = false, last_sees_all = false;
  int64_t past = 0;
  T causal_value = -std::numeric_limits<T>::infinity();
  const int64_t* lengths = nullptr;  // keys each sample has, or null: all
  const T* sinks = nullptr;          // of each head, or null: a score more in each softmax, for a key without value
  T* scores = nullptr;               // [batch, heads, q_len, kv_len], or null: takes the scores of `stage`
  ScoreStage stage = ScoreStage::kScaled;
};

// Instances: float, double. Sizes are positive, but for batch, q_len and kv_len; without keys y is 0.
template <typename T>
void Attend(const KernelContext& context, const AttentionTask<T>& task);

// out = past, then fresh, along the length, then zeros up to it: [batch, heads, length, size]. `past` is
// [batch, heads, past_len, size], of which sample b may use its first past_used[b] rows only.
template <typename T>
struct JoinedHeads {
  int64_t batch = 0, heads = 0, past_len = 0, fresh_len = 0, size = 0;
  const T* past = nullptr;
  HeadView<const T> fresh;
  const int64_t* past_used = nullptr;  // null: all
  int64_t length = -1;                 // -1: past_len + fresh_len

  int64_t full_length() const { return length < 0 ? past_len + fresh_len : length; }
};
template <typename T>
void JoinHeads(const JoinedHeads<T>& joined, T* out);

}  // namespace quant
