#include "libquant/ops/attention_core.h"

#include <algorithm>
#include <cmath>

#include "libquant/base/checked.h"
#include "libquant/base/parallel.h"
#include "libquant/ops/gemm.h"
#include "libquant/ops/scratch.h"
#include "libquant/ops/softmax_row.h"

namespace quant {
namespace {

constexpr int64_t kTileScores = 128 * 1024;
constexpr int64_t kTileRows = 64;

// Rows [begin, begin + rows) of one sample's one head; `scores` holds rows x kv_len.
template <typename T>
struct Tile {
  int64_t sample, head, begin, rows;
  T* scores;
};

template <typename T>
void CopyScores(const AttentionTask<T>& task, const Tile<T>& tile, ScoreStage stage) {
  if (task.scores == nullptr || task.stage != stage) return;
  const AttentionSize& s = task.size;
  const int64_t row = (tile.sample * s.heads + tile.head) * s.q_len + tile.begin;
  std::copy_n(tile.scores, tile.rows * s.kv_len, task.scores + row * s.kv_len);
}

// row[j] += values[j], and -infinity where there are no values.
template <typename T>
void AddBias(const ScoreBias<T>& bias, const T* values, int64_t begin, int64_t end, T* row) {
  const int64_t stop = std::clamp(bias.columns, begin, end);
  for (int64_t j = begin; j < stop; ++j) row[j] += values[j];
  std::fill(row + stop, row + end, -std::numeric_limits<T>::infinity());
}

// What keys a query sees, and how much.
template <typename T>
void BiasRow(const AttentionTask<T>& task, const Tile<T>& tile, int64_t i, T* row) {
  const int64_t kv_len = task.size.kv_len, query = tile.begin + i;
  const bool all = !task.causal || (task.last_sees_all && query + 1 == task.size.q_len);
  const int64_t seen = all ? kv_len : std::min(kv_len, query + task.past + 1);
  const auto values = [&](const ScoreBias<T>& b) { return b.at(tile.sample, tile.head, query); };
  if (task.bias.data != nullptr) AddBias(task.bias, values(task.bias), 0, kv_len, row);
  if (task.mask.data != nullptr) AddBias(task.mask, values(task.mask), 0, seen, row);
  for (int64_t j = seen; j < kv_len; ++j) row[j] += task.causal_value;
  if (task.lengths == nullptr) return;
  std::fill(row + std::clamp<int64_t>(task.lengths[tile.sample], 0, kv_len), row + kv_len,
            -std::numeric_limits<T>::infinity());
}

// In place; `sink` may be null.
template <typename T>
void SoftmaxWithSink(T* row, int64_t count, const T* sink) {
  if (sink == nullptr) return SoftmaxRow<T, false>(row, count, row);
  const T largest = std::max(LargestOf(row, count), *sink);
  ExpRow(row, largest, count, row);
  const T factor = static_cast<T>(1 / (Sum(row, count) + static_cast<double>(std::exp(*sink - largest))));
  for (int64_t j = 0; j < count; ++j) row[j] *= factor;
}

template <typename T>
void AttendTile(const AttentionTask<T>& task, const Tile<T>& tile) {
  const AttentionSize& s = task.size;
  const int64_t kv_head = tile.head / (s.heads / s.kv_heads), count = tile.rows * s.kv_len;
  const T* q = task.q.at(tile.sample, tile.head) + tile.begin * task.q.row;
  T* scores = tile.scores;
  GemmTile<T>({tile.rows, s.kv_len, s.head_size},
              {{q, task.q.row}, {task.k.at(tile.sample, kv_head), task.k.row, true}, scores, s.kv_len});
  for (int64_t i = 0; i < count; ++i) scores[i] *= task.scale;
  CopyScores(task, tile, ScoreStage::kScaled);
  if (task.softcap != 0) {
    for (int64_t i = 0; i < count; ++i) scores[i] = std::tanh(scores[i] / task.softcap) * task.softcap;
  }
  CopyScores(task, tile, ScoreStage::kCapped);
  for (int64_t i = 0; i < tile.rows; ++i) BiasRow(task, tile, i, scores + i * s.kv_len);
  CopyScores(task, tile, ScoreStage::kBiased);
  for (int64_t i = 0; i < tile.rows; ++i) {
    T* row = scores + i * s.kv_len;
    if (std::all_of(row, row + s.kv_len, [](T v) { return v == -std::numeric_limits<T>::infinity(); })) {
      std::fill_n(row, s.kv_len, T{0});
    } else {
      SoftmaxWithSink(row, s.kv_len, task.sinks == nullptr ? nullptr : task.sinks + tile.head);
    }
  }
  CopyScores(task, tile, ScoreStage::kSoftmax);
  T* y = task.y.at(tile.sample, tile.head) + tile.begin * task.y.row;
  GemmTile<T>({tile.rows, s.v_head_size, s.kv_len},
              {{scores, s.kv_len}, {task.v.at(tile.sample, kv_head), task.v.row}, y, task.y.row});
}

// The answer where there is no key.
template <typename T>
void FillZeros(const AttentionTask<T>& task) {
  const AttentionSize& s = task.size;
  for (int64_t i = 0; i < s.batch * s.heads * s.q_len; ++i) {
    const int64_t matrix = i / s.q_len;
    std::fill_n(task.y.at(matrix / s.heads, matrix % s.heads) + i % s.q_len * task.y.row, s.v_head_size, T{0});
  }
}

}  // namespace

template <typename T>
void Attend(const KernelContext& context, const AttentionTask<T>& task) {
  const AttentionSize& s = task.size;
  if (s.batch == 0 || s.q_len == 0) return;
  if (s.kv_len == 0) return FillZeros(task);
  const int64_t rows = std::clamp<int64_t>(kTileScores / s.kv_len, 1, std::min(kTileRows, s.q_len));
  const int64_t tiles = CeilDiv(s.q_len, rows);
  ScratchPool scratch(context, rows * s.kv_len * static_cast<int64_t>(sizeof(T)));
  ParallelFor(s.batch * s.heads * tiles, [&](int64_t item) {
    const int64_t matrix = item / tiles, begin = item % tiles * rows;
    auto lease = scratch.Borrow();
    AttendTile<T>(task,
                  {matrix / s.heads, matrix % s.heads, begin, std::min(rows, s.q_len - begin), lease.template as<T>()});
  });
}

template <typename T>
void JoinHeads(const JoinedHeads<T>& joined, T* out) {
  const int64_t length = joined.full_length(), size = joined.size;
  if (length == 0) return;
  ParallelFor(joined.batch * joined.heads, [&](int64_t i) {
    const int64_t sample = i / joined.heads;
    const int64_t past = joined.past_used == nullptr ? joined.past_len : joined.past_used[sample];
    T* to = out + i * length * size;
    if (past > 0) std::copy_n(joined.past + i * joined.past_len * size, past * size, to);
    const T* from = joined.fresh.at(sample, i % joined.heads);
    for (int64_t r = 0; r < joined.fresh_len; ++r) {
      std::copy_n(from + r * joined.fresh.row, size, to + (past + r) * size);
    }
    std::fill(to + (past + joined.fresh_len) * size, to + length * size, T{0});
  });
}

template void Attend<float>(const KernelContext&, const AttentionTask<float>&);
template void Attend<double>(const KernelContext&, const AttentionTask<double>&);
template void JoinHeads<float>(const JoinedHeads<float>&, float*);
template void JoinHeads<double>(const JoinedHeads<double>&, double*);

}  // namespace quant
