// com.microsoft Attention: q, k and v come from one product, then each head attends (attention_core.h):
//   [q | k | v] = x * weights + bias        weights: [input_hidden_size, q_size + k_size + v_size]
// past and present hold keys, then values, as [2, batch, heads, length, head_size].
#include <algorithm>
#include <numeric>

#include "libquant/base/checked.h"
#include "libquant/ops/attention_microsoft.h"
#include "libquant/ops/gemm.h"

namespace quant {
namespace {

enum Input { kX, kWeights, kBias, kMask, kPast, kAttentionBias, kPastLength };
enum Output { kY, kPresent };

struct Plan {
  AttentionSize size;
  int64_t input_size = 0, width = 0;  // rows and columns of the weights
  int64_t q_size = 0, v_size = 0;     // of all heads
  int64_t past = 0;
};

Status ReadWidths(const Attributes& attributes, Plan& plan) {
  const std::vector<int64_t> sizes = attributes.Ints("qkv_hidden_sizes");
  if (sizes.empty()) {
    plan.q_size = plan.v_size = plan.width / 3;
  } else {
    if (sizes.size() != 3 || sizes[0] != sizes[1]) return DataError("qkv_hidden_sizes are [{}]", ToString(sizes));
    plan.q_size = sizes[0];
    plan.v_size = sizes[2];
  }
  const auto both = CheckedMul(plan.q_size, 2);
  const auto sum = both ? CheckedAdd(*both, plan.v_size) : std::nullopt;
  if (plan.q_size < 1 || plan.v_size < 1 || sum != plan.width) {
    return DataError("weights of {} columns for Q, K and V of {}, {} and {}", plan.width, plan.q_size, plan.q_size,
                     plan.v_size);
  }
  ASSIGN_OR_RETURN(const int64_t heads, ReadNumHeads(attributes));
  if (plan.q_size % heads != 0 || plan.v_size % heads != 0) {
    return DataError("{} heads of {} and {} columns", heads, plan.q_size, plan.v_size);
  }
  plan.size.heads = plan.size.kv_heads = heads;
  plan.size.head_size = plan.q_size / heads;
  plan.size.v_head_size = plan.v_size / heads;
  return OkStatus();
}

Status CheckPast(const KernelContext& context, Plan& plan) {
  const Tensor* past = context.input(kPast);
  const AttentionSize& s = plan.size;
  if (past == nullptr && !context.wanted(kPresent)) return OkStatus();
  if (s.head_size != s.v_head_size) return DataError("past of heads of {} and {}", s.head_size, s.v_head_size);
  if (past == nullptr) return OkStatus();
  plan.past = past->rank() == 5 ? past->dims()[3] : 0;
  if (past->dims() != Dims{2, s.batch, s.heads, plan.past, s.head_size}) {
    return DataError("past of {} for {} samples of {} heads of {}", ToString(past->dims()), s.batch, s.heads,
                     s.head_size);
  }
  return OkStatus();
}

StatusOr<Plan> PlanAttention(const KernelContext& context) {
  const Attributes& attributes = context.attributes();
  if (attributes.Int("do_rotary", 0) != 0) return Unsupported("do_rotary is not supported");
  if (attributes.Int("past_present_share_buffer", 0) != 0 || context.input(kPastLength) != nullptr) {
    return Unsupported("a past buffer shared with the present is not supported");
  }
  RETURN_IF_ERROR(SameTypes(context, {kWeights, kBias, kPast, kAttentionBias}));
  const Dims &x = context.in(kX).dims(), &weights = context.in(kWeights).dims();
  if (x.size() != 3 || weights.size() != 2 || x[2] != weights[0]) {
    return DataError("input of {} and weights of {}", ToString(x), ToString(weights));
  }
  Plan plan;
  plan.input_size = weights[0];
  plan.width = weights[1];
  plan.size.batch = x[0];
  plan.size.q_len = x[1];
  RETURN_IF_ERROR(ReadWidths(attributes, plan));
  if (const Tensor* bias = context.input(kBias); bias != nullptr && bias->dims() != Dims{plan.width}) {
    return DataError("bias of {} for {} columns", ToString(bias->dims()), plan.width);
  }
  RETURN_IF_ERROR(CheckPast(context, plan));
  const auto kv_len = CheckedAdd(plan.past, x[1]);
  if (!kv_len) return DataError("past of {} keys", plan.past);
  plan.size.kv_len = *kv_len;
  return plan;
}

// x * weights + bias, [batch, q_len, width].
StatusOr<std::shared_ptr<Buffer>> Project(const KernelContext& context, const Plan& plan) {
  ASSIGN_OR_RETURN(const auto x, FloatInput<float>::Of(context, &context.in(kX)));
  ASSIGN_OR_RETURN(const auto weights, FloatInput<float>::Of(context, &context.in(kWeights)));
  ASSIGN_OR_RETURN(const auto bias, FloatInput<float>::Of(context, context.input(kBias)));
  const int64_t rows = plan.size.batch * plan.size.q_len;
  const auto bytes = BytesFor(DType::kFloat, Dims{rows, plan.width});
  if (!bytes) return DataError("{} rows of {} columns are too many", rows, plan.width);
  std::shared_ptr<Buffer> out = context.Scratch(*bytes);
  float* data = reinterpret_cast<float*>(out->data());
  const bool add = bias.data() != nullptr;
  for (int64_t i = 0; add && i < rows; ++i) std::copy_n(bias.data(), plan.width, data + i * plan.width);
  GemmBatch<float>({rows, plan.width, plan.input_size}, 1, [&](int64_t) {
    return GemmOperands<float>{{x.data(), plan.input_size}, {weights.data(), plan.width}, data, plan.width, add};
  });
  return out;
}

// Points the task's k and v to the present where there is one: keys, then values, in one tensor.
Status JoinKeysAndValues(KernelContext& context, const Plan& plan, AttentionTask<float>& task, PastCache<float>& out) {
  const AttentionSize& s = plan.size;
  if (!context.wanted(kPresent) && plan.past == 0) return OkStatus();
  const PastSlot slot = {kPast, kPresent, context.in(kX).dtype()};
  ASSIGN_OR_RETURN(float* joined, MakeRoom(context, slot, {2, s.batch, s.heads, s.kv_len, s.head_size}, out));
  const int64_t past_half = plan.past > 0 ? s.batch * s.heads * plan.past * s.head_size : 0;
  const int64_t half = s.batch * s.heads * s.kv_len * s.head_size;
  const float* past = out.past.data();
  JoinHeads<float>({s.batch, s.heads, plan.past, s.q_len, s.head_size, past, task.k}, joined);
  JoinHeads<float>({s.batch, s.heads, plan.past, s.q_len, s.head_size, past + past_half, task.v}, joined + half);
  task.k = HeadsFirst<const float>(joined, s.heads, s.kv_len, s.head_size);
  task.v = HeadsFirst<const float>(joined + half, s.heads, s.kv_len, s.head_size);
  return context.wanted(kPresent) ? out.present.Finish() : OkStatus();
}

Status EvalMicrosoftAttention(KernelContext& context) {
  ASSIGN_OR_RETURN(const Plan plan, PlanAttention(context));
  const AttentionSize& s = plan.size;
  ASSIGN_OR_RETURN(const auto projected, Project(context, plan));
  const float* qkv = reinterpret_cast<const float*>(projected->data());
  const auto view = [&](int64_t column, int64_t head_size) {
    return HeadView<const float>{qkv + column, s.q_len * plan.width, head_size, plan.width};
  };
  AttentionTask<float> task;
  task.size = s;
  task.past = plan.past;
  task.q = view(0, s.head_size);
  task.k = view(plan.q_size, s.head_size);
  task.v = view(2 * plan.q_size, s.v_head_size);
  MicrosoftScores scores;
  RETURN_IF_ERROR(ReadMicrosoftScores(context, {kMask, kAttentionBias}, task, scores));
  PastCache<float> present;
  RETURN_IF_ERROR(JoinKeysAndValues(context, plan, task, present));
  ASSIGN_OR_RETURN(auto y,
                   FloatOutput<float>::Make(context, kY, context.in(kX).dtype(), {s.batch, s.q_len, plan.v_size}));
  task.y = HeadsLast(y.data(), s.heads, s.q_len, s.v_head_size);
  Attend(context, task);
  return y.Finish();
}

void InferMicrosoftAttention(InferContext& context) {
  if (context.inputs.size() < 2 || context.outputs.empty()) return;
  const TypeShape &x = context.inputs[kX], &weights = context.inputs[kWeights];
  for (TypeShape& output : context.outputs) output.dtype = x.dtype;
  if (!x.shape || x.shape->size() != 3) return;
  const std::vector<int64_t> sizes = context.attributes.Ints("qkv_hidden_sizes");
  Dim width;
  if (sizes.size() == 3) {
    width.value = sizes[2];
  } else if (weights.shape && weights.shape->size() == 2 && (*weights.shape)[1].known()) {
    width.value = (*weights.shape)[1].value / 3;
  }
  TypeShape& y = context.outputs[kY];
  y.shape = x.shape;
  y.shape->back() = width;
  const int64_t heads = context.attributes.Int("num_heads", 0);
  if (context.outputs.size() < 2 || heads < 1 || !width.known()) return;
  const Dim length = JoinedLength(context, kPast, 3, (*x.shape)[1]);
  context.outputs[kPresent].shape = Shape{{2, ""}, (*x.shape)[0], {heads, ""}, length, {width.value / heads, ""}};
}

const SchemaRow& Schema() {
  static const SchemaRow row = {
      .since_version = 1,
      .doc = "Self-attention of several heads, with the product that makes queries, keys and values",
      .inputs = {{"input", "T"},
                 {"weights", "T"},
                 {"bias", "T", true},
                 {"mask_index", "M", true},
                 {"past", "T", true},
                 {"attention_bias", "T", true},
                 {"past_sequence_length", "M", true}},
      .outputs = {{"output", "T"}, {"present", "T", true}},
      .attributes = {{"num_heads", AttributeKind::kInt, true},
                     {"unidirectional", AttributeKind::kInt},
                     {"qkv_hidden_sizes", AttributeKind::kInts},
                     {"past_present_share_buffer", AttributeKind::kInt},
                     {"do_rotary", AttributeKind::kInt},
                     {"rotary_embedding_dim", AttributeKind::kInt},
                     {"mask_filter_value", AttributeKind::kFloat},
                     {"scale", AttributeKind::kFloat}},
      .types = {FloatTypes("T"), {"M", {"tensor(int32)"}}},
      .infer = InferMicrosoftAttention,
  };
  return row;
}

}  // namespace

const OpDef& MicrosoftAttentionOp() {
  static const OpDef def = {
      .name = "Attention",
      .domain = "com.microsoft",
      .since = {1},
      .min_inputs = 2,
      .eval = EvalMicrosoftAttention,
      .role = Weighted{.activation = kX,
                       .weight = kWeights,
                       .bias = kBias,
                       .channel_axis = [](const Attributes&, int64_t) -> int64_t { return 1; },
                       .reduction_axis = [](const Attributes&, int64_t) -> int64_t { return 0; },
                       .on_request = true},
      .exactness = Exactness::kTranscendental,
      .schema = &Schema(),
      .summary = "Self-attention with the product that makes queries, keys and values",
  };
  return def;
}

}  // namespace quant
