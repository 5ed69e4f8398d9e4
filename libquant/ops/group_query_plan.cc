#include "libquant/ops/group_query_plan.h"

#include <algorithm>

#include "libquant/base/checked.h"
#include "libquant/ops/attention_microsoft.h"
#include "libquant/ops/inputs.h"

namespace quant::group_query {
namespace {

Status CheckSupported(const KernelContext& context) {
  const Attributes& attributes = context.attributes();
  for (const char* name : {"k_quant_type", "v_quant_type"}) {
    if (attributes.String(name, "NONE") != "NONE") return Unsupported("a quantized cache is not supported");
  }
  if (attributes.Int("sliding_window_cache", 0) != 0) return Unsupported("sliding_window_cache is not supported");
  if (context.input(kKeyScale) != nullptr || context.input(kValueScale) != nullptr) {
    return Unsupported("a quantized cache is not supported");
  }
  if (context.input(kQueryNorm) != nullptr || context.input(kKeyNorm) != nullptr) {
    return Unsupported("norms of queries and keys are not supported");
  }
  if (context.wanted(kScores)) return Unsupported("scores as an output are not supported");
  return OkStatus();
}

Status ReadHeads(const KernelContext& context, Plan& plan) {
  constexpr int64_t kMostHeads = int64_t{1} << 30;
  const Dims& q = context.in(kQuery).dims();
  const Tensor *key = context.input(kKey), *value = context.input(kValue);
  AttentionSize& s = plan.size;
  ASSIGN_OR_RETURN(s.heads, ReadNumHeads(context.attributes()));
  s.kv_heads = context.attributes().Int("kv_num_heads", 0);
  if (s.kv_heads < 1 || s.heads > kMostHeads || s.heads % s.kv_heads != 0 || q.size() != 3) return WrongInputs(context);
  s.batch = q[0];
  s.q_len = q[1];
  plan.packed = key == nullptr && value == nullptr;
  const int64_t heads = plan.packed ? s.heads + 2 * s.kv_heads : s.heads;
  s.head_size = s.v_head_size = q[2] / heads;
  if (s.head_size < 1 || q[2] % heads != 0) return WrongInputs(context);
  if (plan.packed) return OkStatus();
  const Dims fresh = {s.batch, s.q_len, s.kv_heads * s.head_size};
  if (key == nullptr || value == nullptr || key->dims() != fresh || value->dims() != fresh) return WrongInputs(context);
  return OkStatus();
}

Status CheckPast(const KernelContext& context, Plan& plan) {
  const Tensor *key = context.input(kPastKey), *value = context.input(kPastValue);
  if ((key == nullptr) != (value == nullptr)) return DataError("only one of past_key and past_value is there");
  if (key == nullptr) return OkStatus();
  const AttentionSize& s = plan.size;
  plan.past_len = key->rank() == 4 ? key->dims()[2] : 0;
  const Dims dims = {s.batch, s.kv_heads, plan.past_len, s.head_size};
  if (key->dims() == dims && value->dims() == dims) return OkStatus();
  return DataError("past of {} and {} for {} samples of {} heads of {}", Describe(*key), Describe(*value), s.batch,
                   s.kv_heads, s.head_size);
}

Status ReadLengths(const KernelContext& context, Plan& plan) {
  const Tensor &lengths = context.in(kLengths), &total = context.in(kTotal);
  AttentionSize& s = plan.size;
  if (lengths.dtype() != DType::kInt32 || lengths.dims() != Dims{s.batch}) {
    return DataError("seqlens_k is {} for {} samples", Describe(lengths), s.batch);
  }
  if (total.dtype() != DType::kInt32 || total.size() != 1) {
    return DataError("total_sequence_length is {}", Describe(total));
  }
  plan.total = total.data<int32_t>()[0];
  const auto most = CheckedAdd(plan.past_len, s.q_len);
  if (!most || plan.total < s.q_len || plan.total > *most) {
    return DataError("total_sequence_length is {} for {} new keys and {} of the past", plan.total, s.q_len,
                     plan.past_len);
  }
  plan.first = plan.total == s.q_len;
  plan.present_len = std::max(plan.total, plan.past_len);
  for (int32_t last : lengths.data<int32_t>()) {
    const int64_t length = int64_t{last} + 1, past = plan.first ? 0 : length - s.q_len;
    if (length < 1 || length > plan.present_len || past < 0 || past > plan.past_len) {
      return DataError("seqlens_k holds {} for {} new keys and {} of the past", last, s.q_len, plan.past_len);
    }
    plan.lengths.push_back(length);
    plan.past_used.push_back(past);
    s.kv_len = std::max(s.kv_len, length);
  }
  return OkStatus();
}

}  // namespace

Status WrongInputs(const KernelContext& context) {
  const auto name = [&](int i) {
    return context.input(i) == nullptr ? std::string("none") : Describe(*context.input(i));
  };
  return DataError("query, key and value of {}, {} and {} don't fit {} and {} heads", name(kQuery), name(kKey),
                   name(kValue), context.attributes().Int("num_heads", 0), context.attributes().Int("kv_num_heads", 0));
}

StatusOr<Plan> MakePlan(const KernelContext& context) {
  RETURN_IF_ERROR(CheckSupported(context));
  RETURN_IF_ERROR(RequireInputs(context, {kLengths, kTotal}));
  RETURN_IF_ERROR(SameTypes(context, {kKey, kValue, kPastKey, kPastValue, kCos, kSin, kBias, kSink}));
  if (context.in(kQuery).dtype() == DType::kDouble)
    return Unsupported("elements of type double are not supported here");
  Plan plan;
  RETURN_IF_ERROR(ReadHeads(context, plan));
  RETURN_IF_ERROR(CheckPast(context, plan));
  RETURN_IF_ERROR(ReadLengths(context, plan));
  return plan;
}

}  // namespace quant::group_query
