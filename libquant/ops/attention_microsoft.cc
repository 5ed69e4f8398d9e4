#include "libquant/ops/attention_microsoft.h"

#include <algorithm>
#include <cmath>

#include "libquant/base/checked.h"

namespace quant {
namespace {

// mask[b, j] for key ranges [start, end) by sample.
void MaskRanges(std::span<const int32_t> numbers, const AttentionSize& s, float hidden, float* mask) {
  const bool with_start = static_cast<int64_t>(numbers.size()) == 2 * s.batch;
  for (int64_t b = 0; b < s.batch; ++b) {
    const int64_t end = numbers[static_cast<size_t>(b)];
    const int64_t start = with_start ? numbers[static_cast<size_t>(s.batch + b)] : 0;
    for (int64_t j = 0; j < s.kv_len; ++j) mask[b * s.kv_len + j] = j < start || j >= end ? hidden : 0;
  }
}

Status WrongMask(const Tensor& mask, const AttentionSize& s) {
  return DataError("a mask of {} for {} samples, {} queries and {} keys", Describe(mask), s.batch, s.q_len, s.kv_len);
}

Status ReadMask(const Tensor& mask, float hidden, AttentionTask<float>& task, std::vector<float>& out) {
  const AttentionSize& s = task.size;
  if (mask.dtype() != DType::kInt32) return DataError("the mask is {}, not int32", NameOf(mask.dtype()));
  const auto numbers = mask.data<int32_t>();
  const Dims& dims = mask.dims();
  const auto by_sample = CheckedMul(s.batch, s.kv_len);
  if (!by_sample) return WrongMask(mask, s);
  ScoreBias<float>& bias = task.mask;
  bias.columns = s.kv_len;
  if (dims.size() == 1) {
    const int64_t count = dims[0];
    if (count != s.batch && count != 2 * s.batch && count != 3 * s.batch + 2) return WrongMask(mask, s);
    out.resize(static_cast<size_t>(*by_sample));
    MaskRanges(numbers, s, hidden, out.data());
    bias.batch = s.kv_len;
    bias.data = out.data();
    return OkStatus();
  }
  out.resize(numbers.size());
  std::transform(numbers.begin(), numbers.end(), out.begin(), [&](int32_t v) { return v > 0 ? 0 : hidden; });
  bias.data = out.data();
  if (dims == Dims{s.batch, s.kv_len}) {
    bias.batch = s.kv_len;
  } else if (dims == Dims{s.batch, s.q_len, s.kv_len}) {
    bias.batch = s.q_len * s.kv_len;
    bias.row = s.kv_len;
  } else if (dims.size() == 4 && dims[0] == s.batch && dims[1] == 1 && dims[2] == dims[3] && dims[3] >= s.kv_len &&
             task.past + s.q_len <= dims[2]) {
    bias.batch = dims[2] * dims[3];
    bias.row = dims[3];
    bias.data += task.past * dims[3];
  } else {
    return WrongMask(mask, s);
  }
  return OkStatus();
}

}  // namespace

Status ReadAttentionBias(const KernelContext& context, const Tensor& tensor, int64_t columns,
                         AttentionTask<float>& task, FloatInput<float>& out) {
  const AttentionSize& s = task.size;
  const Dims& dims = tensor.dims();
  const bool fits = dims.size() == 4 && (dims[0] == 1 || dims[0] == s.batch) && (dims[1] == 1 || dims[1] == s.heads) &&
                    dims[2] == s.q_len && dims[3] == columns;
  if (!fits) {
    return DataError("attention_bias of {} for {} samples of {} heads of {} queries and {} keys", ToString(dims),
                     s.batch, s.heads, s.q_len, columns);
  }
  ASSIGN_OR_RETURN(out, FloatInput<float>::Of(context, &tensor));
  const int64_t matrix = s.q_len * columns;
  task.bias = {out.data(), dims[0] == 1 ? 0 : dims[1] * matrix, dims[1] == 1 ? 0 : matrix, columns, columns};
  return OkStatus();
}

Status ReadMicrosoftScores(const KernelContext& context, const MicrosoftInputs& inputs, AttentionTask<float>& task,
                           MicrosoftScores& out) {
  const Attributes& attributes = context.attributes();
  const float scale = attributes.Float("scale", 0);
  task.scale = scale != 0 ? scale : 1 / std::sqrt(static_cast<float>(task.size.head_size));
  task.causal = attributes.Int("unidirectional", 0) != 0;
  // So it is in ONNX Runtime; it makes a difference where there are more keys than queries.
  task.last_sees_all = true;
  task.causal_value = std::numeric_limits<float>::lowest();
  if (const Tensor* mask = context.input(inputs.mask)) {
    RETURN_IF_ERROR(ReadMask(*mask, attributes.Float("mask_filter_value", -10000), task, out.mask));
  }
  if (const Tensor* bias = context.input(inputs.bias)) {
    RETURN_IF_ERROR(ReadAttentionBias(context, *bias, task.size.kv_len, task, out.bias));
  }
  return OkStatus();
}

StatusOr<int64_t> ReadNumHeads(const Attributes& attributes) {
  const int64_t heads = attributes.Int("num_heads", 0);
  if (heads < 1) return DataError("num_heads is {}", heads);
  return heads;
}

Dim JoinedLength(const InferContext& context, size_t past, size_t axis, const Dim& fresh) {
  if (context.inputs.size() <= past || context.inputs[past].dtype == DType::kUndefined) return fresh;
  const auto& shape = context.inputs[past].shape;
  if (!shape || shape->size() <= axis || !(*shape)[axis].known() || !fresh.known()) return {};
  const auto sum = CheckedAdd((*shape)[axis].value, fresh.value);
  return sum ? Dim{*sum, ""} : Dim{};
}

}  // namespace quant
