// com.microsoft GroupQueryAttention: causal attention (attention_core.h) whose query heads share key heads. Queries,
// keys and values are [batch, length, heads * size] each, or all in query, [batch, length, (heads + 2 * kv_heads) *
// size].
//   sample b has seqlens_k[b] + 1 keys, of which the last `length` are new and the others are its past's first ones
//   present = past, then new, [batch, kv_heads, max(total_sequence_length, past length), size], zeros behind
// When total_sequence_length is `length`, there is no past, whatever the input holds. With do_rotary new queries and
// keys are turned (rotary.h) by the angles of their positions; those of a sample follow its past unless position_ids
// says so.
#include <algorithm>
#include <cmath>

#include "libquant/base/checked.h"
#include "libquant/base/parallel.h"
#include "libquant/ops/attention_microsoft.h"
#include "libquant/ops/group_query_plan.h"
#include "libquant/ops/inputs.h"
#include "libquant/ops/rotary.h"

namespace quant {
namespace {

using namespace group_query;

constexpr float kHidden = -std::numeric_limits<float>::infinity();

// New queries, keys and values as they lie in their inputs.
struct Fresh {
  FloatInput<float> query, key, value;
  HeadView<const float> q, k, v;
  std::shared_ptr<Buffer> turned_q, turned_k;
};

Status ReadFresh(const KernelContext& context, const Plan& plan, Fresh& out) {
  const AttentionSize& s = plan.size;
  ASSIGN_OR_RETURN(out.query, FloatInput<float>::Of(context, &context.in(kQuery)));
  ASSIGN_OR_RETURN(out.key, FloatInput<float>::Of(context, context.input(kKey)));
  ASSIGN_OR_RETURN(out.value, FloatInput<float>::Of(context, context.input(kValue)));
  if (!plan.packed) {
    out.q = HeadsLast(out.query.data(), s.heads, s.q_len, s.head_size);
    out.k = HeadsLast(out.key.data(), s.kv_heads, s.q_len, s.head_size);
    out.v = HeadsLast(out.value.data(), s.kv_heads, s.q_len, s.head_size);
    return OkStatus();
  }
  out.q = HeadsLast(out.query.data(), s.heads + 2 * s.kv_heads, s.q_len, s.head_size);
  out.k = out.v = out.q;
  out.k.data += s.heads * s.head_size;
  out.v.data += (s.heads + s.kv_heads) * s.head_size;
  return OkStatus();
}

// The row of the angles for each new step. In a prompt ONNX Runtime looks at the first of position_ids alone.
StatusOr<std::vector<int64_t>> ReadPositions(const KernelContext& context, const Plan& plan, int64_t rows) {
  const AttentionSize& s = plan.size;
  const Tensor* ids = context.input(kPositions);
  if (ids != nullptr && (ids->dtype() != DType::kInt64 || ids->dims() != Dims{s.batch, s.q_len})) {
    return DataError("position_ids is {} for {} samples of {}", Describe(*ids), s.batch, s.q_len);
  }
  std::vector<int64_t> out;
  for (int64_t b = 0; b < s.batch; ++b) {
    for (int64_t i = 0; i < s.q_len; ++i) {
      const int64_t first = ids == nullptr ? plan.past_used[static_cast<size_t>(b)]
                            : plan.first   ? ids->data<int64_t>()[0]
                                           : ids->data<int64_t>()[static_cast<size_t>(b * s.q_len + i)];
      const int64_t step = ids == nullptr || plan.first ? i : 0;
      if (first < 0 || first >= rows - step) return DataError("position {} where there are {}", first, rows);
      out.push_back(first + step);
    }
  }
  return out;
}

// Turns the heads of `view` into a copy, to which it then points.
Status TurnHeads(const KernelContext& context, const Plan& plan, int64_t heads, const RotaryHead& rotary,
                 const std::vector<int64_t>& positions, const float* cos, const float* sin, HeadView<const float>& view,
                 std::shared_ptr<Buffer>& out) {
  const AttentionSize& s = plan.size;
  const auto bytes = BytesFor(DType::kFloat, Dims{s.batch, heads, s.q_len, s.head_size});
  if (!bytes) return WrongInputs(context);
  out = context.Scratch(*bytes);
  const auto to = HeadsFirst(reinterpret_cast<float*>(out->data()), heads, s.q_len, s.head_size);
  ParallelFor(s.batch * heads, [&](int64_t item) {
    const int64_t b = item / heads, h = item % heads;
    for (int64_t i = 0; i < s.q_len; ++i) {
      const int64_t angle = positions[static_cast<size_t>(b * s.q_len + i)] * (rotary.dim / 2);
      TurnHead(rotary, view.at(b, h) + i * view.row, cos + angle, sin + angle, to.at(b, h) + i * to.row);
    }
  });
  view = HeadsFirst<const float>(to.data, heads, s.q_len, s.head_size);
  return OkStatus();
}

Status Turn(const KernelContext& context, const Plan& plan, Fresh& fresh) {
  if (context.attributes().Int("do_rotary", 0) == 0) return OkStatus();
  RETURN_IF_ERROR(RequireInputs(context, {kCos, kSin}));
  const Dims &cos_dims = context.in(kCos).dims(), &sin_dims = context.in(kSin).dims();
  const AttentionSize& s = plan.size;
  if (cos_dims.size() != 2 || cos_dims != sin_dims || cos_dims[1] > s.head_size / 2) {
    return DataError("angles of {} and {} for heads of {}", ToString(cos_dims), ToString(sin_dims), s.head_size);
  }
  ASSIGN_OR_RETURN(const auto cos, FloatInput<float>::Of(context, &context.in(kCos)));
  ASSIGN_OR_RETURN(const auto sin, FloatInput<float>::Of(context, &context.in(kSin)));
  ASSIGN_OR_RETURN(const auto positions, ReadPositions(context, plan, cos_dims[0]));
  const RotaryHead rotary = {s.head_size, 2 * cos_dims[1], context.attributes().Int("rotary_interleaved", 0) != 0};
  RETURN_IF_ERROR(
      TurnHeads(context, plan, s.heads, rotary, positions, cos.data(), sin.data(), fresh.q, fresh.turned_q));
  return TurnHeads(context, plan, s.kv_heads, rotary, positions, cos.data(), sin.data(), fresh.k, fresh.turned_k);
}

// What each query sees: 0, or -infinity for keys that come later, lie outside of the window or aren't the sample's.
Status MakeMask(const KernelContext& context, const Plan& plan, AttentionTask<float>& task, std::vector<float>& out) {
  const AttentionSize& s = plan.size;
  const bool causal = context.attributes().Int("causal", 1) != 0;
  const int64_t window = context.attributes().Int("local_window_size", -1);
  if (!causal && window > 0) return DataError("a local window without causal attention");
  const auto count = CheckedProduct(Dims{s.batch, s.q_len, s.kv_len});
  if (!count) return WrongInputs(context);
  out.assign(static_cast<size_t>(*count), kHidden);
  for (int64_t b = 0; b < s.batch; ++b) {
    const int64_t past = plan.past_used[static_cast<size_t>(b)], length = plan.lengths[static_cast<size_t>(b)];
    for (int64_t i = 0; i < s.q_len; ++i) {
      const int64_t own = past + i + 1, end = causal ? std::min(length, own) : length;
      const int64_t begin = window > 0 ? std::min(own - std::min(window, own), end) : 0;
      float* row = out.data() + (b * s.q_len + i) * s.kv_len;
      std::fill(row + begin, row + end, 0.0F);
    }
  }
  task.mask = {out.data(), s.q_len * s.kv_len, 0, s.kv_len, s.kv_len};
  return OkStatus();
}

// The scores without a value: head_sink, or with smooth_softmax 0.
Status ReadSinks(const KernelContext& context, const Plan& plan, AttentionTask<float>& task, std::vector<float>& out) {
  const Tensor* sink = context.input(kSink);
  if (sink == nullptr && context.attributes().Int("smooth_softmax", -1) != 1) return OkStatus();
  if (sink != nullptr && sink->dims() != Dims{plan.size.heads}) {
    return DataError("head_sink of {} for {} heads", ToString(sink->dims()), plan.size.heads);
  }
  out.assign(static_cast<size_t>(plan.size.heads), 0);
  if (sink != nullptr) RETURN_IF_ERROR(ConvertFloats(*sink, out.data()));
  task.sinks = out.data();
  return OkStatus();
}

Status EvalGroupQueryAttention(KernelContext& context) {
  ASSIGN_OR_RETURN(const Plan plan, MakePlan(context));
  const AttentionSize& s = plan.size;
  const Attributes& attributes = context.attributes();
  const DType dtype = context.in(kQuery).dtype();
  Fresh fresh;
  RETURN_IF_ERROR(ReadFresh(context, plan, fresh));
  RETURN_IF_ERROR(Turn(context, plan, fresh));
  AttentionTask<float> task;
  task.size = s;
  task.q = fresh.q;
  PastCache<float> keys, values;
  const auto joined = [&](const HeadView<const float>& view) {
    return JoinedHeads<float>{s.batch, s.kv_heads, plan.past_len,         s.q_len,         s.head_size,
                              nullptr, view,       plan.past_used.data(), plan.present_len};
  };
  RETURN_IF_ERROR(JoinPast(context, {kPastKey, kPresentKey, dtype}, joined(fresh.k), task.k, keys));
  RETURN_IF_ERROR(JoinPast(context, {kPastValue, kPresentValue, dtype}, joined(fresh.v), task.v, values));
  const float scale = attributes.Float("scale", 0);
  task.scale = scale != 0 ? scale : 1 / std::sqrt(static_cast<float>(s.head_size));
  task.softcap = std::max(attributes.Float("softcap", 0), 0.0F);
  std::vector<float> mask, sinks;
  FloatInput<float> bias;
  RETURN_IF_ERROR(MakeMask(context, plan, task, mask));
  RETURN_IF_ERROR(ReadSinks(context, plan, task, sinks));
  if (const Tensor* tensor = context.input(kBias)) {
    RETURN_IF_ERROR(ReadAttentionBias(context, *tensor, plan.total, task, bias));
  }
  ASSIGN_OR_RETURN(auto y, FloatOutput<float>::Make(context, kY, dtype, {s.batch, s.q_len, s.heads * s.head_size}));
  task.y = HeadsLast(y.data(), s.heads, s.q_len, s.head_size);
  Attend(context, task);
  return y.Finish();
}

void InferGroupQueryAttention(InferContext& context) {
  if (context.inputs.empty() || context.outputs.empty()) return;
  for (TypeShape& output : context.outputs) output.dtype = context.inputs[kQuery].dtype;
  const auto& q = context.inputs[kQuery].shape;
  const int64_t heads = context.attributes.Int("num_heads", 0), kv_heads = context.attributes.Int("kv_num_heads", 0);
  if (!q || q->size() != 3 || heads < 1 || kv_heads < 1 || kv_heads > heads || heads > (int64_t{1} << 30)) return;
  const bool packed = context.inputs.size() <= kKey || context.inputs[kKey].dtype == DType::kUndefined;
  Shape y = *q;
  Dim size;
  if ((*q)[2].known()) {
    size.value = (*q)[2].value / (packed ? heads + 2 * kv_heads : heads);
    y[2] = {size.value * heads, ""};
  } else if (packed) {
    y[2] = {};
  }
  context.outputs[kY].shape = std::move(y);
  // The present's length is known only once it runs.
  for (size_t i = kPresentKey; i < std::min<size_t>(context.outputs.size(), kScores); ++i) {
    context.outputs[i].shape = Shape{(*q)[0], {kv_heads, ""}, {}, size};
  }
}

const SchemaRow& Schema() {
  static const SchemaRow row = {
      .doc = "Causal attention of several heads that share keys and values, with a cache of the past",
      .inputs = {{"query", "T"},
                 {"key", "T", true},
                 {"value", "T", true},
                 {"past_key", "T_CACHE", true},
                 {"past_value", "T_CACHE", true},
                 {"seqlens_k", "M"},
                 {"total_sequence_length", "M"},
                 {"cos_cache", "T", true},
                 {"sin_cache", "T", true},
                 {"position_ids", "tensor(int64)", true},
                 {"attention_bias", "T", true},
                 {"head_sink", "T", true},
                 {"k_scale", "tensor(float)", true},
                 {"v_scale", "tensor(float)", true},
                 {"q_norm_weight", "T", true},
                 {"k_norm_weight", "T", true}},
      .outputs = {{"output", "T"},
                  {"present_key", "T_CACHE", true},
                  {"present_value", "T_CACHE", true},
                  {"output_qk", "T", true}},
      .attributes = {{"num_heads", AttributeKind::kInt, true},
                     {"kv_num_heads", AttributeKind::kInt, true},
                     {"scale", AttributeKind::kFloat},
                     {"softcap", AttributeKind::kFloat},
                     {"causal", AttributeKind::kInt},
                     {"local_window_size", AttributeKind::kInt},
                     {"do_rotary", AttributeKind::kInt},
                     {"rotary_interleaved", AttributeKind::kInt},
                     {"smooth_softmax", AttributeKind::kInt},
                     {"qk_output", AttributeKind::kInt},
                     {"qk_norm_epsilon", AttributeKind::kFloat},
                     {"kv_cache_bit_width", AttributeKind::kInt},
                     {"sliding_window_cache", AttributeKind::kInt},
                     {"k_quant_type", AttributeKind::kString},
                     {"v_quant_type", AttributeKind::kString}},
      .types = {FloatTypes("T"),
                {"T_CACHE",
                 {"tensor(float)", "tensor(float16)", "tensor(bfloat16)", "tensor(uint8)", "tensor(int8)",
                  "tensor(float8e4m3fn)"}},
                {"M", {"tensor(int32)"}}},
      .infer = InferGroupQueryAttention,
  };
  return row;
}

}  // namespace

const OpDef& GroupQueryAttentionOp() {
  static const OpDef def = {
      .name = "GroupQueryAttention",
      .domain = "com.microsoft",
      .since = {1},
      .min_inputs = 1,
      .eval = EvalGroupQueryAttention,
      .role = FloatOnly{},
      .exactness = Exactness::kTranscendental,
      .schema = &Schema(),
      .summary = "Causal attention whose heads share keys, with rotary embedding, windows and a cache",
  };
  return def;
}

}  // namespace quant
