// com.microsoft MultiHeadAttention: each head attends (attention_core.h) with queries, keys and values that come as
//   query [batch, q_len, size], key [batch, kv_len, size], value [batch, kv_len, v_size], or
//   query as above, key and value [batch, heads, kv_len, head_size], or
//   query as above and both in key, [batch, kv_len, heads, 2, head_size], or
//   all in query, [batch, q_len, heads, 3, head_size].
// bias [size + size + v_size] is added to queries, keys and values; past keys and values go before the new ones.
#include <algorithm>

#include "libquant/base/checked.h"
#include "libquant/base/parallel.h"
#include "libquant/ops/attention_microsoft.h"

namespace quant {
namespace {

enum Input { kQuery, kKey, kValue, kBias, kMask, kAttentionBias, kPastKey, kPastValue, kPastLength, kCacheIndirection };
enum Output { kY, kPresentKey, kPresentValue, kScores };

// One of query, key and value, as it lies in its input: elements from one sample, head and row to the next.
struct Layout {
  int input = 0;
  int64_t length = 0, size = 0;  // rows; elements of a head
  int64_t offset = 0, batch = 0, head = 0, row = 0;
};

struct Plan {
  AttentionSize size;
  Layout q, k, v;
  int64_t past = 0;
};

Layout RowsOfHeads(int input, const Dims& dims, int64_t heads) {
  const int64_t size = dims[2] / heads;
  return {input, dims[1], size, 0, dims[1] * dims[2], size, dims[2]};
}

Layout HeadsOfRows(int input, const Dims& dims) {
  return {input, dims[2], dims[3], 0, dims[1] * dims[2] * dims[3], dims[2] * dims[3], dims[3]};
}

// Part `part` of [batch, length, heads, parts, size].
Layout PackedHeads(int input, const Dims& dims, int64_t part) {
  const int64_t head = dims[3] * dims[4];
  return {input, dims[1], dims[4], part * dims[4], dims[1] * dims[2] * head, head, dims[2] * head};
}

Status WrongInputs(const KernelContext& context) {
  const auto name = [&](int i) {
    return context.input(i) == nullptr ? std::string("none") : Describe(*context.input(i));
  };
  return DataError("query, key and value of {}, {} and {} don't fit {} heads", name(kQuery), name(kKey), name(kValue),
                   context.attributes().Int("num_heads", 0));
}

Status ReadLayouts(const KernelContext& context, int64_t heads, Plan& plan) {
  const Tensor *key = context.input(kKey), *value = context.input(kValue);
  const Dims& q = context.in(kQuery).dims();
  const auto packed = [&](const Dims& dims, int64_t parts) {
    return dims.size() == 5 && dims[2] == heads && dims[3] == parts;
  };
  if (key == nullptr && value == nullptr && packed(q, 3)) {
    plan.q = PackedHeads(kQuery, q, 0);
    plan.k = PackedHeads(kQuery, q, 1);
    plan.v = PackedHeads(kQuery, q, 2);
    return OkStatus();
  }
  if (q.size() != 3 || q[2] % heads != 0 || key == nullptr || key->rank() < 1 || key->dims()[0] != q[0]) {
    return WrongInputs(context);
  }
  const Dims& k = key->dims();
  plan.q = RowsOfHeads(kQuery, q, heads);
  if (value == nullptr && packed(k, 2)) {
    plan.k = PackedHeads(kKey, k, 0);
    plan.v = PackedHeads(kKey, k, 1);
    return OkStatus();
  }
  if (value == nullptr || value->rank() < 1 || value->dims()[0] != q[0]) return WrongInputs(context);
  const Dims& v = value->dims();
  if (k.size() == 3 && v.size() == 3 && k[2] % heads == 0 && v[2] % heads == 0) {
    plan.k = RowsOfHeads(kKey, k, heads);
    plan.v = RowsOfHeads(kValue, v, heads);
  } else if (k.size() == 4 && v.size() == 4 && k[1] == heads && v[1] == heads) {
    plan.k = HeadsOfRows(kKey, k);
    plan.v = HeadsOfRows(kValue, v);
  } else {
    return WrongInputs(context);
  }
  return OkStatus();
}

Status CheckPast(const KernelContext& context, Plan& plan) {
  const Tensor *key = context.input(kPastKey), *value = context.input(kPastValue);
  if ((key == nullptr) != (value == nullptr)) return DataError("only one of past_key and past_value is there");
  if (key == nullptr) return OkStatus();
  const AttentionSize& s = plan.size;
  plan.past = key->rank() == 4 ? key->dims()[2] : 0;
  if (key->dims() != Dims{s.batch, s.heads, plan.past, s.head_size} ||
      value->dims() != Dims{s.batch, s.heads, plan.past, s.v_head_size}) {
    return DataError("past of {} and {} for {} samples of {} heads of {} and {}", Describe(*key), Describe(*value),
                     s.batch, s.heads, s.head_size, s.v_head_size);
  }
  return OkStatus();
}

StatusOr<Plan> PlanAttention(const KernelContext& context) {
  if (context.input(kPastLength) != nullptr || context.input(kCacheIndirection) != nullptr) {
    return Unsupported("a past buffer shared with the present is not supported");
  }
  RETURN_IF_ERROR(SameTypes(context, {kKey, kValue, kBias, kAttentionBias, kPastKey, kPastValue}));
  ASSIGN_OR_RETURN(const int64_t heads, ReadNumHeads(context.attributes()));
  Plan plan;
  RETURN_IF_ERROR(ReadLayouts(context, heads, plan));
  if (plan.q.size != plan.k.size || plan.k.length != plan.v.length || plan.q.size < 1 || plan.v.size < 1) {
    return WrongInputs(context);
  }
  const int64_t batch = context.in(kQuery).dims()[0];
  plan.size = {batch, heads, heads, plan.q.length, plan.k.length, plan.q.size, plan.v.size};
  const auto width = CheckedProduct(Dims{heads, plan.q.size, 2});
  const auto v_width = CheckedMul(heads, plan.v.size);
  const auto bias_size = width && v_width ? CheckedAdd(*width, *v_width) : std::nullopt;
  if (!bias_size) return WrongInputs(context);
  if (const Tensor* bias = context.input(kBias); bias != nullptr && bias->dims() != Dims{*bias_size}) {
    return DataError("bias of {} for {} columns", ToString(bias->dims()), *bias_size);
  }
  RETURN_IF_ERROR(CheckPast(context, plan));
  const auto kv_len = CheckedAdd(plan.past, plan.k.length);
  if (!kv_len) return DataError("past of {} keys", plan.past);
  plan.size.kv_len = *kv_len;
  return plan;
}

// Queries, keys or values as float32, with their bias: a view of the input where there is none.
struct Heads {
  FloatInput<float> input;
  std::shared_ptr<Buffer> biased;
  HeadView<const float> view;
};

Status ReadHeads(const KernelContext& context, const Plan& plan, const Layout& layout, const float* bias, Heads& out) {
  ASSIGN_OR_RETURN(out.input, FloatInput<float>::Of(context, context.input(layout.input)));
  out.view = {out.input.data() + layout.offset, layout.batch, layout.head, layout.row};
  if (bias == nullptr || layout.length == 0) return OkStatus();
  const AttentionSize& s = plan.size;
  const auto bytes = BytesFor(DType::kFloat, Dims{s.batch, s.heads, layout.length, layout.size});
  if (!bytes) return WrongInputs(context);
  out.biased = context.Scratch(*bytes);
  float* data = reinterpret_cast<float*>(out.biased->data());
  const auto to = HeadsFirst(data, s.heads, layout.length, layout.size);
  ParallelFor(s.batch * s.heads, [&](int64_t i) {
    const float* numbers = bias + i % s.heads * layout.size;
    for (int64_t r = 0; r < layout.length; ++r) {
      const float* from = out.view.at(i / s.heads, i % s.heads) + r * layout.row;
      float* row = to.at(i / s.heads, i % s.heads) + r * layout.size;
      for (int64_t j = 0; j < layout.size; ++j) row[j] = from[j] + numbers[j];
    }
  });
  out.view = HeadsFirst<const float>(data, s.heads, layout.length, layout.size);
  return OkStatus();
}

Status EvalMultiHeadAttention(KernelContext& context) {
  ASSIGN_OR_RETURN(const Plan plan, PlanAttention(context));
  const AttentionSize& s = plan.size;
  const DType dtype = context.in(kQuery).dtype();
  if (dtype == DType::kDouble) return Unsupported("elements of type double are not supported here");
  ASSIGN_OR_RETURN(const auto bias, FloatInput<float>::Of(context, context.input(kBias)));
  const auto part = [&](int64_t i) {
    return bias.data() == nullptr ? nullptr : bias.data() + i * s.heads * s.head_size;
  };
  Heads q, k, v;
  RETURN_IF_ERROR(ReadHeads(context, plan, plan.q, part(0), q));
  RETURN_IF_ERROR(ReadHeads(context, plan, plan.k, part(1), k));
  RETURN_IF_ERROR(ReadHeads(context, plan, plan.v, part(2), v));
  AttentionTask<float> task;
  PastCache<float> keys, values;
  const auto joined = [&](const Layout& layout, const Heads& heads) {
    return JoinedHeads<float>{s.batch, s.heads, plan.past, layout.length, layout.size, nullptr, heads.view};
  };
  RETURN_IF_ERROR(JoinPast(context, {kPastKey, kPresentKey, dtype}, joined(plan.k, k), task.k, keys));
  RETURN_IF_ERROR(JoinPast(context, {kPastValue, kPresentValue, dtype}, joined(plan.v, v), task.v, values));
  task.size = s;
  task.past = plan.past;
  task.q = q.view;
  MicrosoftScores mask;
  RETURN_IF_ERROR(ReadMicrosoftScores(context, {kMask, kAttentionBias}, task, mask));
  FloatOutput<float> scores;
  if (context.wanted(kScores)) {
    ASSIGN_OR_RETURN(scores, FloatOutput<float>::Make(context, kScores, dtype, {s.batch, s.heads, s.q_len, s.kv_len}));
    task.scores = scores.data();
    task.stage = ScoreStage::kBiased;
  }
  ASSIGN_OR_RETURN(auto y, FloatOutput<float>::Make(context, kY, dtype, {s.batch, s.q_len, s.heads * s.v_head_size}));
  task.y = HeadsLast(y.data(), s.heads, s.q_len, s.v_head_size);
  Attend(context, task);
  if (task.scores != nullptr) RETURN_IF_ERROR(scores.Finish());
  return y.Finish();
}

// [batch, heads, past + length, size].
Shape PresentShape(const InferContext& context, size_t past, const Dim& batch, const Dim& length, const Dim& size) {
  return {batch, {context.attributes.Int("num_heads", 0), ""}, JoinedLength(context, past, 2, length), size};
}

void InferMultiHeadAttention(InferContext& context) {
  if (context.inputs.empty() || context.outputs.empty()) return;
  for (TypeShape& output : context.outputs) output.dtype = context.inputs[kQuery].dtype;
  const int64_t heads = context.attributes.Int("num_heads", 0);
  const auto rank_of = [&](size_t i) {
    return i < context.inputs.size() && context.inputs[i].shape ? context.inputs[i].shape->size() : 0;
  };
  // Only the common form, all of rank 3 or keys and values of rank 4; others get a type alone.
  if (heads < 1 || rank_of(kQuery) != 3 || rank_of(kKey) != rank_of(kValue)) return;
  if (rank_of(kKey) != 3 && rank_of(kKey) != 4) return;
  const Shape &q = *context.inputs[kQuery].shape, &k = *context.inputs[kKey].shape, &v = *context.inputs[kValue].shape;
  const bool rows_first = k.size() == 3;
  const auto divided = [&](const Dim& d) { return Dim{d.known() ? d.value / heads : -1, ""}; };
  const Dim v_size = rows_first ? divided(v[2]) : v[3];
  const auto width = CheckedMul(v_size.value, heads);
  if (rows_first) {
    context.outputs[kY].shape = Shape{q[0], q[1], v[2]};
  } else {
    context.outputs[kY].shape = Shape{q[0], q[1], {v_size.known() && width ? *width : -1, ""}};
  }
  const Dim length = rows_first ? k[1] : k[2];
  if (context.outputs.size() > kPresentKey) {
    context.outputs[kPresentKey].shape = PresentShape(context, kPastKey, q[0], length, divided(q[2]));
  }
  if (context.outputs.size() > kPresentValue) {
    context.outputs[kPresentValue].shape = PresentShape(context, kPastValue, q[0], length, v_size);
  }
}

const SchemaRow& Schema() {
  static const SchemaRow row = {
      .since_version = 1,
      .doc = "Attention of several heads over queries, keys and values that are projected already",
      .inputs = {{"query", "T"},
                 {"key", "T", true},
                 {"value", "T", true},
                 {"bias", "T", true},
                 {"key_padding_mask", "M", true},
                 {"attention_bias", "T", true},
                 {"past_key", "T", true},
                 {"past_value", "T", true},
                 {"past_sequence_length", "M", true},
                 {"cache_indirection", "M", true}},
      .outputs = {{"output", "T"}, {"present_key", "T", true}, {"present_value", "T", true}, {"qk", "QK", true}},
      .attributes = {{"num_heads", AttributeKind::kInt, true},
                     {"mask_filter_value", AttributeKind::kFloat},
                     {"scale", AttributeKind::kFloat},
                     {"unidirectional", AttributeKind::kInt}},
      .types = {FloatTypes("T"), FloatTypes("QK"), {"M", {"tensor(int32)"}}},
      .infer = InferMultiHeadAttention,
  };
  return row;
}

}  // namespace

const OpDef& MultiHeadAttentionOp() {
  static const OpDef def = {
      .name = "MultiHeadAttention",
      .domain = "com.microsoft",
      .since = {1},
      .min_inputs = 1,
      .eval = EvalMultiHeadAttention,
      .role = FloatOnly{},
      .exactness = Exactness::kTranscendental,
      .schema = &Schema(),
      .summary = "Attention of several heads, with bias, masks and past keys",
  };
  return def;
}

}  // namespace quant
