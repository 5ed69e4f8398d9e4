// Attention: softmax(q * k' * scale + mask) * v per head, by attention_core.h, on inputs [batch, heads, length, size]
// or [batch, length, heads * size]. Keys and values of the past go before the new ones; a mask shorter than the keys
// hides the rest, and so does nonpad_kv_seqlen; with is_causal query i sees keys up to i + past.
#include <cmath>

#include "libquant/base/checked.h"
#include "libquant/ops/attention_past.h"

namespace quant {
namespace {

enum Input { kQ, kK, kV, kMask, kPastKey, kPastValue, kLengths };
enum Output { kY, kPresentKey, kPresentValue, kScores };

struct AttentionPlan {
  AttentionSize size;
  int64_t past = 0, fresh = 0;  // keys; size.kv_len is both
  bool heads_last = false;
};

// Heads, length and size of a head of one of the inputs.
struct HeadDims {
  int64_t heads = 0, length = 0, size = 0;
};

StatusOr<HeadDims> ReadHeads(const KernelContext& context, int input, const char* heads_attribute) {
  const Dims& dims = context.in(input).dims();
  if (dims.size() == 4) return HeadDims{dims[1], dims[2], dims[3]};
  if (dims.size() != 3) return DataError("input {} of {} has neither 3 nor 4 axes", input, ToString(dims));
  const int64_t heads = context.attributes().Int(heads_attribute, 0);
  if (heads < 1 || dims[2] % heads != 0) {
    return DataError("{} {} for input {} of {}", heads_attribute, heads, input, ToString(dims));
  }
  return HeadDims{heads, dims[1], dims[2] / heads};
}

Status CheckPast(const KernelContext& context, AttentionPlan& plan) {
  const Tensor *key = context.input(kPastKey), *value = context.input(kPastValue);
  if ((key == nullptr) != (value == nullptr)) return DataError("only one of past_key and past_value is there");
  if (key == nullptr) return OkStatus();
  const AttentionSize& s = plan.size;
  plan.past = key->rank() == 4 ? key->dims()[2] : 0;
  if (key->dims() != Dims{s.batch, s.kv_heads, plan.past, s.head_size} ||
      value->dims() != Dims{s.batch, s.kv_heads, plan.past, s.v_head_size}) {
    return DataError("past of {} and {} for {} samples of {} heads of {} and {}", Describe(*key), Describe(*value),
                     s.batch, s.kv_heads, s.head_size, s.v_head_size);
  }
  return OkStatus();
}

Status CheckLengths(const KernelContext& context, const AttentionPlan& plan) {
  const Tensor* lengths = context.input(kLengths);
  if (lengths == nullptr) return OkStatus();
  if (plan.past > 0) return DataError("nonpad_kv_seqlen together with past keys");
  if (lengths->dtype() != DType::kInt64 || lengths->dims() != Dims{plan.size.batch}) {
    return DataError("nonpad_kv_seqlen is {} for {} samples", Describe(*lengths), plan.size.batch);
  }
  for (int64_t length : lengths->data<int64_t>()) {
    if (length < 0 || length > plan.size.kv_len) {
      return DataError("nonpad_kv_seqlen holds {} where there are {} keys", length, plan.size.kv_len);
    }
  }
  return OkStatus();
}

StatusOr<AttentionPlan> PlanAttention(const KernelContext& context) {
  const Dims &q = context.in(kQ).dims(), &k = context.in(kK).dims(), &v = context.in(kV).dims();
  RETURN_IF_ERROR(SameTypes(context, {kK, kV, kPastKey, kPastValue}));
  ASSIGN_OR_RETURN(const HeadDims query, ReadHeads(context, kQ, "q_num_heads"));
  ASSIGN_OR_RETURN(const HeadDims key, ReadHeads(context, kK, "kv_num_heads"));
  ASSIGN_OR_RETURN(const HeadDims value, ReadHeads(context, kV, "kv_num_heads"));
  const bool alike = q.size() == k.size() && q.size() == v.size() && q[0] == k[0] && q[0] == v[0] &&
                     key.heads == value.heads && key.length == value.length && query.size == key.size;
  const bool full = key.heads > 0 && query.heads > 0 && query.size > 0 && value.size > 0;
  if (!alike || !full || query.heads % key.heads != 0) {
    return DataError("Q of {}, K of {} and V of {} don't fit each other", ToString(q), ToString(k), ToString(v));
  }
  AttentionPlan plan;
  plan.heads_last = q.size() == 3;
  plan.fresh = key.length;
  plan.size = {q[0], query.heads, key.heads, query.length, key.length, query.size, value.size};
  RETURN_IF_ERROR(CheckPast(context, plan));
  const auto kv_len = CheckedAdd(plan.past, plan.fresh);
  if (!kv_len) return DataError("past of {} keys", plan.past);
  plan.size.kv_len = *kv_len;
  RETURN_IF_ERROR(CheckLengths(context, plan));
  return plan;
}

template <typename T>
HeadView<const T> View(const AttentionPlan& plan, const T* data, const HeadDims& dims) {
  return plan.heads_last ? HeadsLast(data, dims.heads, dims.length, dims.size)
                         : HeadsFirst(data, dims.heads, dims.length, dims.size);
}

// The mask as numbers to add: its own, or 0 and -infinity for true and false.
template <typename T>
struct Mask {
  FloatInput<T> floats;
  std::shared_ptr<Buffer> booleans;
  ScoreBias<T> bias;
};

// Strides over [batch, heads, q_len, keys] for a mask of up to four axes; 0 where it is broadcast.
template <typename T>
Status ReadMaskDims(const Dims& dims, const AttentionSize& s, ScoreBias<T>& bias) {
  const Dims full = {s.batch, s.heads, s.q_len, s.kv_len};
  bool fits = !dims.empty() && dims.size() <= 4 && dims.back() <= s.kv_len;
  int64_t* const strides[] = {&bias.batch, &bias.head, &bias.row};
  int64_t stride = fits ? dims.back() : 0;
  for (size_t back = 2; fits && back <= dims.size(); ++back) {
    const int64_t dim = dims[dims.size() - back], want = full[4 - back];
    fits = dim == want || dim == 1;
    *strides[4 - back] = dim == 1 ? 0 : stride;
    stride *= dim;
  }
  if (!fits) return DataError("a mask of {} can't be broadcast to {}", ToString(dims), ToString(full));
  bias.columns = dims.back();
  return OkStatus();
}

template <typename T>
Status ReadMask(const KernelContext& context, const AttentionSize& size, Mask<T>& out) {
  const Tensor* mask = context.input(kMask);
  if (mask == nullptr) return OkStatus();
  RETURN_IF_ERROR(ReadMaskDims(mask->dims(), size, out.bias));
  if (mask->dtype() == DType::kBool) {
    out.booleans = context.Scratch(mask->size() * static_cast<int64_t>(sizeof(T)));
    T* numbers = reinterpret_cast<T*>(out.booleans->data());
    for (bool seen : mask->data<bool>()) *numbers++ = seen ? T{0} : -std::numeric_limits<T>::infinity();
    out.bias.data = reinterpret_cast<const T*>(out.booleans->data());
    return OkStatus();
  }
  if (!InfoOf(mask->dtype()).is_float) return Unsupported("a mask of type {} is not supported", NameOf(mask->dtype()));
  ASSIGN_OR_RETURN(out.floats, FloatInput<T>::Of(context, mask));
  out.bias.data = out.floats.data();
  return OkStatus();
}

// Past and new keys (or values) as one.
template <typename T>
struct Cache {
  FloatInput<T> fresh;
  PastCache<T> past;
  HeadView<const T> view;
};

template <typename T>
Status ReadCache(KernelContext& context, const AttentionPlan& plan, int input, const PastSlot& slot, int64_t size,
                 Cache<T>& out) {
  const AttentionSize& s = plan.size;
  ASSIGN_OR_RETURN(out.fresh, FloatInput<T>::Of(context, &context.in(input)));
  const HeadView<const T> fresh = View(plan, out.fresh.data(), {s.kv_heads, plan.fresh, size});
  return JoinPast<T>(context, slot, {s.batch, s.kv_heads, plan.past, plan.fresh, size, nullptr, fresh}, out.view,
                     out.past);
}

template <typename T>
Status ReadScale(const KernelContext& context, const AttentionSize& size, AttentionTask<T>& task) {
  const Attributes& attributes = context.attributes();
  task.scale = static_cast<T>(1 / std::sqrt(static_cast<double>(size.head_size)));
  if (attributes.Has("scale")) task.scale = static_cast<T>(attributes.Float("scale", 1));
  const float softcap = attributes.Float("softcap", 0);
  if (!(softcap >= 0)) return DataError("softcap is {}", softcap);
  task.softcap = static_cast<T>(softcap);
  const int64_t stage = attributes.Int("qk_matmul_output_mode", 0);
  if (stage < 0 || stage > 3) return DataError("qk_matmul_output_mode is {}", stage);
  constexpr ScoreStage kStages[] = {ScoreStage::kScaled, ScoreStage::kCapped, ScoreStage::kBiased,
                                    ScoreStage::kSoftmax};
  task.stage = kStages[stage];
  return OkStatus();
}

template <typename T>
Status RunAttention(KernelContext& context, const AttentionPlan& plan) {
  const AttentionSize& s = plan.size;
  const DType dtype = context.in(kQ).dtype();
  AttentionTask<T> task;
  task.size = s;
  RETURN_IF_ERROR(ReadScale(context, s, task));
  ASSIGN_OR_RETURN(const auto q, FloatInput<T>::Of(context, &context.in(kQ)));
  task.q = View(plan, q.data(), {s.heads, s.q_len, s.head_size});
  Cache<T> keys, values;
  RETURN_IF_ERROR(ReadCache(context, plan, kK, {kPastKey, kPresentKey, dtype}, s.head_size, keys));
  RETURN_IF_ERROR(ReadCache(context, plan, kV, {kPastValue, kPresentValue, dtype}, s.v_head_size, values));
  task.k = keys.view;
  task.v = values.view;
  Mask<T> mask;
  RETURN_IF_ERROR(ReadMask(context, s, mask));
  task.mask = mask.bias;
  task.causal = context.attributes().Int("is_causal", 0) != 0;
  task.past = plan.past;
  if (const Tensor* lengths = context.input(kLengths)) task.lengths = lengths->data<int64_t>().data();
  FloatOutput<T> scores;
  if (context.wanted(kScores)) {
    ASSIGN_OR_RETURN(scores, FloatOutput<T>::Make(context, kScores, dtype, {s.batch, s.heads, s.q_len, s.kv_len}));
    task.scores = scores.data();
  }
  Dims dims = {s.batch, s.heads, s.q_len, s.v_head_size};
  if (plan.heads_last) {
    const auto width = CheckedMul(s.heads, s.v_head_size);
    if (!width) return DataError("{} heads of {} are too many", s.heads, s.v_head_size);
    dims = {s.batch, s.q_len, *width};
  }
  ASSIGN_OR_RETURN(auto y, FloatOutput<T>::Make(context, kY, dtype, dims));
  task.y = plan.heads_last ? HeadsLast(y.data(), s.heads, s.q_len, s.v_head_size)
                           : HeadsFirst(y.data(), s.heads, s.q_len, s.v_head_size);
  Attend(context, task);
  if (task.scores != nullptr) RETURN_IF_ERROR(scores.Finish());
  return y.Finish();
}

Status EvalAttention(KernelContext& context) {
  ASSIGN_OR_RETURN(const AttentionPlan plan, PlanAttention(context));
  return WithComputeType(context.in(kQ).dtype(),
                         [&](auto zero) { return RunAttention<decltype(zero)>(context, plan); });
}

}  // namespace

const OpDef& AttentionOp() {
  static const OpDef def = {
      .name = "Attention",
      .since = {23, 24},
      .min_inputs = 3,
      .eval = EvalAttention,
      .role = FloatOnly{},
      .exactness = Exactness::kTranscendental,
      .summary = "Scaled dot-product attention, with masks, past keys and shared key heads",
  };
  return def;
}

}  // namespace quant
