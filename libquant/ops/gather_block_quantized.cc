// com.microsoft GatherBlockQuantized: slices of a quantized table, picked along gather_axis and dequantized:
//   y[..., j, ...] = (code[..., indices[j], ...] - zero_point) * scale       one of both per block of quantize_axis
// The table is int4 or uint4, or uint8 with codes of 2, 4 or 8 bits packed along the last dimension, low bits first.
// Zero points are packed as the table is; without any, 0 is meant for int4 and uint4, 2^(bits - 1) for uint8.
#include <algorithm>

#include "libquant/base/checked.h"
#include "libquant/base/parallel.h"
#include "libquant/ops/axes.h"
#include "libquant/ops/dispatch.h"
#include "libquant/ops/quant_layout.h"

namespace quant {
namespace {

constexpr int64_t kPieceElements = 16384;

// Codes of a tensor, first in the low bits, numbered as if no row had padding.
struct Codes {
  const uint8_t* bytes = nullptr;
  int bits = 4;
  bool is_signed = false;

  int32_t at(int64_t i) const {
    const int64_t bit = i * bits;
    const int32_t raw = bytes[bit / 8] >> (bit % 8) & ((1 << bits) - 1);
    const int32_t sign = is_signed ? 1 << (bits - 1) : 0;
    return (raw ^ sign) - sign;
  }
};

struct GatherPlan {
  Dims dims;  // of the table, in codes
  int64_t gather_axis = 0;
  int64_t outer = 1, run = 1;  // codes before and after gather_axis
  ScaleLayout layout;
  Codes codes;
  const uint8_t* zero_points = nullptr;  // or null
  int32_t default_zero_point = 0;
  int64_t zero_point_columns = 0;  // zero points a row has room for, padding included
  int64_t scale_columns = 0;
};

StatusOr<Dims> TableDims(const Tensor& data, int64_t bits) {
  Dims dims = data.dims();
  if (data.dtype() != DType::kUint8) return dims;
  const auto columns = CheckedMul(dims.back(), 8 / bits);
  if (!columns) return DataError("a table of {} is too large", Describe(data));
  dims.back() = *columns;
  if (!CheckedProduct(dims)) return DataError("a table of {} is too large", Describe(data));
  return dims;
}

Status ReadFormat(const KernelContext& context, GatherPlan& plan) {
  const Tensor& data = context.in(0);
  const bool packed = data.dtype() == DType::kUint8;
  if (!packed && data.dtype() != DType::kInt4 && data.dtype() != DType::kUint4) {
    return Unsupported("a table of type {} is not supported; int4, uint4 and uint8 are", NameOf(data.dtype()));
  }
  if (data.rank() == 0) return DataError("the table is a scalar");
  const int64_t bits = context.attributes().Int("bits", 4);
  if (bits != 2 && bits != 4 && bits != 8) return Unsupported("{} bits are not supported; 2, 4 and 8 are", bits);
  if (!packed && bits != 4) return DataError("{} bits for a table of {}", bits, NameOf(data.dtype()));
  plan.codes = {reinterpret_cast<const uint8_t*>(data.bytes().data()), static_cast<int>(bits),
                data.dtype() == DType::kInt4};
  plan.default_zero_point = packed ? 1 << (plan.codes.bits - 1) : 0;
  ASSIGN_OR_RETURN(plan.dims, TableDims(data, bits));
  return OkStatus();
}

// How the scales lie over the table.
Status ReadLayout(const KernelContext& context, GatherPlan& plan) {
  const Tensor& scales = context.in(2);
  const auto rank = static_cast<int64_t>(plan.dims.size());
  ASSIGN_OR_RETURN(const int64_t axis, NormalizeAxis(context.attributes().Int("quantize_axis", 1), rank));
  const int64_t block = context.attributes().Int("block_size", 128);
  if (block < 16 || (block & (block - 1)) != 0) {
    return DataError("block_size {} is not a power of two from 16 on", block);
  }
  if (context.in(0).dtype() == DType::kUint8 && (axis != rank - 1 || plan.gather_axis != 0)) {
    return Unsupported("a uint8 table with gather_axis {} and quantize_axis {}", plan.gather_axis, axis);
  }
  Dims want = plan.dims;
  want[static_cast<size_t>(axis)] = CeilDiv(want[static_cast<size_t>(axis)], block);
  if (scales.dims() != want) {
    return DataError("scales of {} for a table of {} in blocks of {} along axis {}", ToString(scales.dims()),
                     ToString(plan.dims), block, axis);
  }
  ScaleLayout& layout = plan.layout;
  const auto a = static_cast<size_t>(axis);
  layout.size = ProductOf(plan.dims, 0, plan.dims.size());
  layout.outer = ProductOf(plan.dims, 0, a);
  layout.axis = plan.dims[a];
  layout.inner = ProductOf(plan.dims, a + 1, plan.dims.size());
  layout.block = block;
  layout.blocks = want[a];
  layout.blocked = true;
  plan.scale_columns = want.back();
  return OkStatus();
}

Status ReadZeroPoints(const KernelContext& context, GatherPlan& plan) {
  const Tensor &data = context.in(0), &scales = context.in(2);
  const Tensor* zero_points = context.input(3);
  if (zero_points == nullptr) return OkStatus();
  if (zero_points->dtype() != data.dtype()) {
    return DataError("{} zero points for {} data", NameOf(zero_points->dtype()), NameOf(data.dtype()));
  }
  Dims want = scales.dims();
  plan.zero_point_columns = want.back();
  if (data.dtype() == DType::kUint8) {
    want.back() = CeilDiv(want.back() * plan.codes.bits, 8);
    plan.zero_point_columns = want.back() * (8 / plan.codes.bits);
  }
  if (zero_points->dims() != want) {
    return DataError("zero points of {} where {} belong", ToString(zero_points->dims()), ToString(want));
  }
  plan.zero_points = reinterpret_cast<const uint8_t*>(zero_points->bytes().data());
  return OkStatus();
}

StatusOr<GatherPlan> PlanGather(const KernelContext& context) {
  GatherPlan plan;
  RETURN_IF_ERROR(ReadFormat(context, plan));
  const auto rank = static_cast<int64_t>(plan.dims.size());
  ASSIGN_OR_RETURN(plan.gather_axis, NormalizeAxis(context.attributes().Int("gather_axis", 0), rank));
  RETURN_IF_ERROR(ReadLayout(context, plan));
  RETURN_IF_ERROR(ReadZeroPoints(context, plan));
  const auto a = static_cast<size_t>(plan.gather_axis);
  plan.outer = ProductOf(plan.dims, 0, a);
  plan.run = ProductOf(plan.dims, a + 1, plan.dims.size());
  return plan;
}

// The scales' run that holds a code.
ScaleRun RunAt(const ScaleLayout& layout, int64_t code) {
  if (layout.inner > 1) return layout.Run(code / layout.inner);
  return layout.Run(code / layout.axis * layout.blocks + code % layout.axis / layout.block);
}

int32_t ZeroPointAt(const GatherPlan& plan, int64_t scale) {
  if (plan.zero_points == nullptr) return plan.default_zero_point;
  const int64_t at = scale / plan.scale_columns * plan.zero_point_columns + scale % plan.scale_columns;
  return Codes{plan.zero_points, plan.codes.bits, plan.codes.is_signed}.at(at);
}

// Codes [begin, end) of the table.
template <typename T>
void Dequantize(const GatherPlan& plan, const T* scales, int64_t begin, int64_t end, T* out) {
  while (begin < end) {
    const ScaleRun run = RunAt(plan.layout, begin);
    const int64_t stop = std::min(end, run.offset + run.length);
    int64_t scale = run.scale + (run.scale_per_element ? begin - run.offset : 0);
    int32_t zero_point = ZeroPointAt(plan, scale);
    float factor = static_cast<float>(scales[scale]);
    for (; begin < stop; ++begin) {
      *out++ = static_cast<T>(static_cast<float>(plan.codes.at(begin) - zero_point) * factor);
      if (!run.scale_per_element || begin + 1 == stop) continue;
      zero_point = ZeroPointAt(plan, ++scale);
      factor = static_cast<float>(scales[scale]);
    }
  }
}

Status EvalGatherBlockQuantized(KernelContext& context) {
  ASSIGN_OR_RETURN(const GatherPlan plan, PlanGather(context));
  const Tensor &indices = context.in(1), &scales = context.in(2);
  const auto a = static_cast<size_t>(plan.gather_axis);
  const int64_t dim = plan.dims[a];
  ASSIGN_OR_RETURN(const std::vector<int64_t> picks, IndicesInto(indices, dim));
  Dims dims(plan.dims.begin(), plan.dims.begin() + plan.gather_axis);
  dims.insert(dims.end(), indices.dims().begin(), indices.dims().end());
  dims.insert(dims.end(), plan.dims.begin() + plan.gather_axis + 1, plan.dims.end());
  return WithType<float, float16, bfloat16>(scales.dtype(), [&](auto zero) -> Status {
    using T = decltype(zero);
    ASSIGN_OR_RETURN(Tensor * y, context.Allocate(0, scales.dtype(), dims));
    if (y->size() == 0) return OkStatus();
    const T* factors = scales.data<T>().data();
    T* out = y->template mutable_data<T>().data();
    const auto count = static_cast<int64_t>(picks.size());
    const int64_t slices = plan.outer * count;
    const int64_t per_piece = std::max<int64_t>(1, kPieceElements / plan.run);
    ParallelFor(CeilDiv(slices, per_piece), [&](int64_t piece) {
      for (int64_t s = piece * per_piece; s < std::min(slices, (piece + 1) * per_piece); ++s) {
        const int64_t begin = (s / count * dim + picks[static_cast<size_t>(s % count)]) * plan.run;
        Dequantize(plan, factors, begin, begin + plan.run, out + s * plan.run);
      }
    });
    return OkStatus();
  });
}

void InferGatherBlockQuantized(InferContext& context) {
  if (context.inputs.size() < 3 || context.outputs.empty()) return;
  const TypeShape &data = context.inputs[0], &indices = context.inputs[1];
  TypeShape& y = context.outputs[0];
  y.dtype = context.inputs[2].dtype;
  if (!data.shape || data.shape->empty() || !indices.shape) return;
  const auto rank = static_cast<int64_t>(data.shape->size());
  const int64_t bits = context.attributes.Int("bits", 4);
  int64_t axis = context.attributes.Int("gather_axis", 0);
  if (axis < -rank || axis >= rank) return;
  if (axis < 0) axis += rank;
  Shape table = *data.shape;
  if (data.dtype == DType::kUint8) {
    if (bits != 2 && bits != 4 && bits != 8) return;
    const auto columns = CheckedMul(table.back().value, 8 / bits);
    if (table.back().known() && columns) {
      table.back() = {*columns, ""};
    } else {
      table.back() = {};
    }
  }
  y.shape = Shape(table.begin(), table.begin() + axis);
  y.shape->insert(y.shape->end(), indices.shape->begin(), indices.shape->end());
  y.shape->insert(y.shape->end(), table.begin() + axis + 1, table.end());
}

const SchemaRow& Schema() {
  static const SchemaRow row = {
      .since_version = 1,
      .doc = "Slices of a table that is quantized in blocks, dequantized",
      .inputs = {{"data", "T1"}, {"indices", "Tind"}, {"scales", "T2"}, {"zero_points", "T1", true}},
      .outputs = {{"output", "T2"}},
      .attributes = {{"gather_axis", AttributeKind::kInt},
                     {"quantize_axis", AttributeKind::kInt},
                     {"block_size", AttributeKind::kInt},
                     {"bits", AttributeKind::kInt}},
      .types = {{"T1", {"tensor(int4)", "tensor(uint4)", "tensor(uint8)"}},
                {"T2", {"tensor(float)", "tensor(float16)", "tensor(bfloat16)"}},
                {"Tind", {"tensor(int32)", "tensor(int64)"}}},
      .infer = InferGatherBlockQuantized,
  };
  return row;
}

}  // namespace

const OpDef& GatherBlockQuantizedOp() {
  static const OpDef def = {
      .name = "GatherBlockQuantized",
      .domain = "com.microsoft",
      .since = {1},
      .min_inputs = 3,
      .eval = EvalGatherBlockQuantized,
      .role = Quantizer{},
      .exactness = Exactness::kExact,
      .index_input = IndexInput{.indices = 1, .table = 0, .axis_attribute = "gather_axis"},
      .schema = &Schema(),
      .summary = "Slices of a block-quantized table, dequantized",
  };
  return def;
}

}  // namespace quant
