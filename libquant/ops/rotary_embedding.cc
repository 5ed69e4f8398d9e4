// RotaryEmbedding, and com.microsoft's, which has its inputs in another order: pairs of elements of each head turned by
// an angle of their position,
//   y1 = cos x1 - sin x2        y2 = sin x1 + cos x2
// where a pair is elements i and i + dim / 2 or, interleaved, 2 i and 2 i + 1 of the head's first dim elements; others
// stay as they are.
#include <algorithm>

#include "libquant/base/checked.h"
#include "libquant/base/parallel.h"
#include "libquant/ops/attention_core.h"
#include "libquant/ops/float_view.h"
#include "libquant/ops/infer_shapes.h"
#include "libquant/ops/rotary.h"

namespace quant {
namespace {

struct Plan : RotaryHead {
  int64_t batch = 0, heads = 0, length = 0;
  bool heads_last = false;
  std::vector<int64_t> positions;  // the row of the angles for each sample and step
};

Status TooSmall(const Tensor& x, int64_t heads) { return DataError("input of {} for {} heads", Describe(x), heads); }

// `heads` counts for inputs of three axes only.
Status ReadDims(const Tensor& x, int64_t heads, Plan& plan) {
  const Dims& dims = x.dims();
  plan.heads_last = dims.size() == 3;
  if (dims.size() == 4) {
    plan.batch = dims[0];
    plan.heads = dims[1];
    plan.length = dims[2];
    plan.head_size = dims[3];
    return OkStatus();
  }
  if (dims.size() != 3 || heads < 1 || dims[2] % heads != 0) return TooSmall(x, heads);
  plan.batch = dims[0];
  plan.heads = heads;
  plan.length = dims[1];
  plan.head_size = dims[2] / heads;
  return OkStatus();
}

Status CheckAngles(const KernelContext& context, const Tensor& cos, const Tensor& sin, Plan& plan) {
  plan.dim = context.attributes().Int("rotary_embedding_dim", 0);
  if (plan.dim == 0) plan.dim = plan.head_size;
  plan.interleaved = context.attributes().Int("interleaved", 0) != 0;
  if (plan.dim < 0 || plan.dim > plan.head_size || plan.dim % 2 != 0) {
    return DataError("{} elements to turn of heads of {}", plan.dim, plan.head_size);
  }
  if (cos.rank() < 1 || cos.dims() != sin.dims() || cos.dims().back() != plan.dim / 2) {
    return DataError("angles of {} and {} for {} pairs", ToString(cos.dims()), ToString(sin.dims()), plan.dim / 2);
  }
  return OkStatus();
}

// Positions [batch, length], or one, which the first step has.
Status ReadPositions(const Tensor& tensor, const Tensor& cos, bool one_is_first, Plan& plan) {
  if (tensor.dtype() != DType::kInt64) return DataError("position_ids is {}, not int64", NameOf(tensor.dtype()));
  if (cos.rank() != 2) return DataError("angles of {} for positions", ToString(cos.dims()));
  const int64_t count = plan.batch * plan.length;
  const auto numbers = tensor.data<int64_t>();
  const bool first = one_is_first && tensor.dims() == Dims{1};
  if (!first && tensor.dims() != Dims{plan.batch, plan.length}) {
    return DataError("position_ids of {} for {} samples of {}", ToString(tensor.dims()), plan.batch, plan.length);
  }
  const int64_t rows = cos.dims()[0];
  const auto check = [&](int64_t position, int64_t steps) {
    return position >= 0 && position <= rows - steps ? OkStatus()
                                                     : DataError("position {} where there are {}", position, rows);
  };
  if (first) RETURN_IF_ERROR(check(numbers[0], plan.length));
  plan.positions.resize(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) {
    const auto at = static_cast<size_t>(i);
    plan.positions[at] = first ? numbers[0] + i % plan.length : numbers[at];
    RETURN_IF_ERROR(check(plan.positions[at], 1));
  }
  return OkStatus();
}

Status TurnAll(KernelContext& context, const Plan& plan, const Tensor& cos, const Tensor& sin) {
  const Tensor& x = context.in(0);
  if (x.dtype() == DType::kDouble) return Unsupported("elements of type double are not supported here");
  ASSIGN_OR_RETURN(const auto xs, FloatInput<float>::Of(context, &x));
  ASSIGN_OR_RETURN(const auto cosines, FloatInput<float>::Of(context, &cos));
  ASSIGN_OR_RETURN(const auto sines, FloatInput<float>::Of(context, &sin));
  ASSIGN_OR_RETURN(auto y, FloatOutput<float>::Make(context, 0, x.dtype(), x.dims()));
  if (x.size() == 0) return OkStatus();
  const auto view = [&](auto* data) {
    return plan.heads_last ? HeadsLast(data, plan.heads, plan.length, plan.head_size)
                           : HeadsFirst(data, plan.heads, plan.length, plan.head_size);
  };
  const auto from = view(xs.data());
  const auto to = view(y.data());
  ParallelFor(plan.batch * plan.length, [&](int64_t i) {
    const int64_t b = i / plan.length, step = i % plan.length;
    const int64_t angle = plan.positions[static_cast<size_t>(i)] * (plan.dim / 2);
    for (int64_t h = 0; h < plan.heads; ++h) {
      TurnHead(plan, from.at(b, h) + step * from.row, cosines.data() + angle, sines.data() + angle,
               to.at(b, h) + step * to.row);
    }
  });
  return y.Finish();
}

Status EvalRotaryEmbedding(KernelContext& context) {
  const Tensor &x = context.in(0), &cos = context.in(1), &sin = context.in(2);
  RETURN_IF_ERROR(SameTypes(context, {1, 2}));
  Plan plan;
  RETURN_IF_ERROR(ReadDims(x, context.attributes().Int("num_heads", 0), plan));
  RETURN_IF_ERROR(CheckAngles(context, cos, sin, plan));
  if (const Tensor* positions = context.input(3)) {
    RETURN_IF_ERROR(ReadPositions(*positions, cos, false, plan));
  } else {
    if (cos.dims() != Dims{plan.batch, plan.length, plan.dim / 2}) {
      return DataError("angles of {} for {} samples of {}", ToString(cos.dims()), plan.batch, plan.length);
    }
    for (int64_t i = 0; x.size() > 0 && i < plan.batch * plan.length; ++i) plan.positions.push_back(i);
  }
  return TurnAll(context, plan, cos, sin);
}

// Without num_heads, a head is as long as the angles say.
Status EvalMicrosoftRotaryEmbedding(KernelContext& context) {
  const Tensor &x = context.in(0), &positions = context.in(1), &cos = context.in(2), &sin = context.in(3);
  const Attributes& attributes = context.attributes();
  RETURN_IF_ERROR(SameTypes(context, {2, 3}));
  if (attributes.Int("is_packed_batching", 0) != 0) return Unsupported("is_packed_batching is not supported");
  int64_t heads = attributes.Int("num_heads", 0);
  if (heads == 0 && x.rank() == 3 && cos.rank() == 2 && cos.dims()[1] > 0) {
    if (attributes.Int("rotary_embedding_dim", 0) != 0) return DataError("rotary_embedding_dim without num_heads");
    heads = x.dims()[2] / cos.dims()[1] / 2;
  }
  Plan plan;
  RETURN_IF_ERROR(ReadDims(x, heads, plan));
  RETURN_IF_ERROR(CheckAngles(context, cos, sin, plan));
  RETURN_IF_ERROR(ReadPositions(positions, cos, true, plan));
  return TurnAll(context, plan, cos, sin);
}

}  // namespace

void TurnHead(const RotaryHead& rotary, const float* x, const float* cos, const float* sin, float* y) {
  const int64_t half = rotary.dim / 2, step = rotary.interleaved ? 2 : 1, other = rotary.interleaved ? 1 : half;
  for (int64_t i = 0; i < half; ++i) {
    const float x1 = x[i * step], x2 = x[i * step + other];
    y[i * step] = cos[i] * x1 - sin[i] * x2;
    y[i * step + other] = sin[i] * x1 + cos[i] * x2;
  }
  if (x != y) std::copy(x + rotary.dim, x + rotary.head_size, y + rotary.dim);
}

const OpDef& RotaryEmbeddingOp() {
  static const OpDef def = {.name = "RotaryEmbedding",
                            .since = {23},
                            .min_inputs = 3,
                            .eval = EvalRotaryEmbedding,
                            .role = FloatOnly{},
                            .exactness = Exactness::kRounding,
                            .index_input = IndexInput{.indices = 3, .table = 1, .axis_attribute = ""},
                            .summary = "Pairs of elements turned by an angle of their position"};
  return def;
}

const OpDef& MicrosoftRotaryEmbeddingOp() {
  static const SchemaRow schema = {
      .doc = "Pairs of elements turned by an angle of their position",
      .inputs = {{"input", "T"}, {"position_ids", "M"}, {"cos_cache", "T"}, {"sin_cache", "T"}},
      .outputs = {{"output", "T"}},
      .attributes = {{"interleaved", AttributeKind::kInt},
                     {"is_packed_batching", AttributeKind::kInt},
                     {"num_heads", AttributeKind::kInt},
                     {"rotary_embedding_dim", AttributeKind::kInt},
                     {"scale", AttributeKind::kFloat}},
      .types = {FloatTypes("T"), {"M", {"tensor(int64)"}}},
      .infer = InferLikeFirst};
  static const OpDef def = {.name = "RotaryEmbedding",
                            .domain = "com.microsoft",
                            .since = {1},
                            .min_inputs = 4,
                            .eval = EvalMicrosoftRotaryEmbedding,
                            .role = FloatOnly{},
                            .exactness = Exactness::kRounding,
                            .index_input = IndexInput{.indices = 1, .table = 2, .axis_attribute = ""},
                            .schema = &schema,
                            .summary = "Pairs of elements turned by an angle of their position"};
  return def;
}

}  // namespace quant
