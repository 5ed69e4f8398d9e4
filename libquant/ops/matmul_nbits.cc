// com.microsoft MatMulNBits: y = a * b' + bias for a weight b of N rows in codes of 2, 4 or 8 bits, which it
// dequantizes exactly, a panel of rows at a time, whatever accuracy_level says:
//   b[n, k] = (code - zero_point[n, k / block_size]) * scale[n, k / block_size]
// Codes are [N, blocks, block_size * bits / 8], low bits first. Packed zero points are [N, ceil(blocks * bits / 8)];
// without any, 2^(bits - 1) is meant.
#include <algorithm>

#include "libquant/base/checked.h"
#include "libquant/base/parallel.h"
#include "libquant/ops/float_view.h"
#include "libquant/ops/gemm.h"
#include "libquant/ops/scratch.h"

namespace quant {
namespace {

constexpr int64_t kPanelElements = 256 * 1024;
constexpr int64_t kLimit = int64_t{1} << 40;

struct NBitsPlan {
  int64_t rows = 0, k = 0, n = 0;
  int64_t block_size = 0, blocks = 0, row_bytes = 0;
  int bits = 4;
  Dims out_dims;
};

// Where the weight's parts are. `scales` and float zero points are float32, [n, blocks].
struct NBitsWeight {
  const uint8_t* codes;
  const float* scales;
  const uint8_t* packed_zero_points;  // or null
  const float* zero_points;           // or null
  const int32_t* group_of;            // of each k; null: k / block_size
};

Status ReadSizes(const Attributes& attributes, NBitsPlan& plan) {
  plan.k = attributes.Int("K", 0);
  plan.n = attributes.Int("N", 0);
  plan.block_size = attributes.Int("block_size", 0);
  const int64_t bits = attributes.Int("bits", 4);
  if (bits != 2 && bits != 4 && bits != 8) return Unsupported("{} bits are not supported; 2, 4 and 8 are", bits);
  if (attributes.Int("weight_prepacked", 0) != 0) return Unsupported("prepacked weights are not supported");
  for (int64_t v : {plan.k, plan.n, plan.block_size}) {
    if (v < 1 || v > kLimit) return DataError("K {}, N {} and block_size {} can't be", plan.k, plan.n, plan.block_size);
  }
  plan.bits = static_cast<int>(bits);
  if (plan.block_size * bits % 8 != 0)
    return DataError("a block of {} codes of {} bits is no whole number of bytes", plan.block_size, bits);
  plan.blocks = CeilDiv(plan.k, plan.block_size);
  plan.row_bytes = plan.blocks * (plan.block_size * bits / 8);
  return OkStatus();
}

Status CheckSize(const Tensor* tensor, const char* what, int64_t rows, int64_t columns) {
  if (tensor == nullptr || CheckedMul(rows, columns) == tensor->size()) return OkStatus();
  return DataError("{} of {} where {}x{} elements belong", what, ToString(tensor->dims()), rows, columns);
}

Status CheckGroups(const Tensor* g_idx, const NBitsPlan& plan) {
  if (g_idx == nullptr) return OkStatus();
  if (g_idx->dtype() != DType::kInt32) return DataError("g_idx is {}, not int32", NameOf(g_idx->dtype()));
  if (g_idx->size() != plan.k && g_idx->size() != plan.blocks * plan.block_size) {
    return DataError("g_idx of {} for K {}", ToString(g_idx->dims()), plan.k);
  }
  for (int32_t g : g_idx->data<int32_t>().first(static_cast<size_t>(plan.k))) {
    if (g < 0 || g >= plan.blocks) return DataError("g_idx holds {} where there are {} blocks", g, plan.blocks);
  }
  return OkStatus();
}

StatusOr<NBitsPlan> PlanNBits(const KernelContext& context) {
  NBitsPlan plan;
  RETURN_IF_ERROR(ReadSizes(context.attributes(), plan));
  RETURN_IF_ERROR(SameTypes(context, {2, 5}));
  const Tensor &a = context.in(0), &b = context.in(1);
  if (a.rank() < 1 || a.dims().back() != plan.k) return DataError("A of {} for K {}", ToString(a.dims()), plan.k);
  if (b.dtype() != DType::kUint8) return DataError("B is {}, not uint8", NameOf(b.dtype()));
  RETURN_IF_ERROR(CheckSize(&b, "B", plan.n, plan.row_bytes));
  RETURN_IF_ERROR(CheckSize(&context.in(2), "scales", plan.n, plan.blocks));
  const Tensor* zero_points = context.input(3);
  if (zero_points != nullptr && zero_points->dtype() == DType::kUint8) {
    RETURN_IF_ERROR(CheckSize(zero_points, "packed zero points", plan.n, CeilDiv(plan.blocks * plan.bits, 8)));
  } else {
    RETURN_IF_ERROR(SameTypes(context, {3}));
    RETURN_IF_ERROR(CheckSize(zero_points, "zero points", plan.n, plan.blocks));
  }
  RETURN_IF_ERROR(CheckGroups(context.input(4), plan));
  RETURN_IF_ERROR(CheckSize(context.input(5), "bias", 1, plan.n));
  plan.out_dims = a.dims();
  plan.out_dims.back() = plan.n;
  plan.rows = a.size() / plan.k;
  return plan;
}

// out[i] = (code i - zero_point) * scale for `count` codes; writes up to the end of the last byte's codes.
template <int kBits>
void DequantizeBlock(const uint8_t* codes, int64_t count, float scale, float zero_point, float* out) {
  constexpr int kPerByte = 8 / kBits;
  constexpr int kMask = (1 << kBits) - 1;
  const int64_t bytes = CeilDiv(count, kPerByte);
  for (int64_t i = 0; i < bytes; ++i) {
    for (int j = 0; j < kPerByte; ++j) {
      out[i * kPerByte + j] = (static_cast<float>(codes[i] >> (j * kBits) & kMask) - zero_point) * scale;
    }
  }
}

// Zero points of one row, as float32.
const float* RowZeroPoints(const NBitsPlan& plan, const NBitsWeight& w, int64_t row, float* out) {
  if (w.zero_points != nullptr) return w.zero_points + row * plan.blocks;
  if (w.packed_zero_points == nullptr) {
    std::fill_n(out, plan.blocks, static_cast<float>(1 << (plan.bits - 1)));
    return out;
  }
  const uint8_t* packed = w.packed_zero_points + row * CeilDiv(plan.blocks * plan.bits, 8);
  for (int64_t b = 0; b < plan.blocks; ++b) {
    const int64_t bit = b * plan.bits;
    out[b] = static_cast<float>(packed[bit / 8] >> (bit % 8) & ((1 << plan.bits) - 1));
  }
  return out;
}

// One row of the weight; `out` has room for whole blocks.
template <int kBits>
void DequantizeRow(const NBitsPlan& plan, const NBitsWeight& w, int64_t row, const float* zero_points, float* out) {
  const float* scales = w.scales + row * plan.blocks;
  const uint8_t* codes = w.codes + row * plan.row_bytes;
  if (w.group_of != nullptr) {
    DequantizeBlock<kBits>(codes, plan.k, 1, 0, out);
    for (int64_t k = 0; k < plan.k; ++k) out[k] = (out[k] - zero_points[w.group_of[k]]) * scales[w.group_of[k]];
    return;
  }
  const int64_t block_bytes = plan.row_bytes / plan.blocks;
  for (int64_t b = 0; b < plan.blocks; ++b) {
    const int64_t count = std::min(plan.block_size, plan.k - b * plan.block_size);
    DequantizeBlock<kBits>(codes + b * block_bytes, count, scales[b], zero_points[b], out + b * plan.block_size);
  }
}

void DequantizeRows(const NBitsPlan& plan, const NBitsWeight& w, int64_t begin, int64_t end, int64_t stride,
                    float* zero_points, float* out) {
  const auto dequantize = plan.bits == 2 ? DequantizeRow<2> : plan.bits == 4 ? DequantizeRow<4> : DequantizeRow<8>;
  for (int64_t row = begin; row < end; ++row, out += stride) {
    dequantize(plan, w, row, RowZeroPoints(plan, w, row, zero_points), out);
  }
}

// y[i, n] for all rows of a; y holds the bias already when `add`.
void MultiplyPanels(const KernelContext& context, const NBitsPlan& plan, const float* a, const NBitsWeight& w, bool add,
                    float* y) {
  const int64_t stride = CeilDiv(plan.k, 8) * 8;  // a last byte's codes may lie past K
  const int64_t panel = std::clamp<int64_t>(kPanelElements / stride, 1, 128);
  const int64_t zero_point_room = CeilDiv(plan.blocks, 16) * 16;
  ScratchPool scratch(context, (panel * stride + zero_point_room) * static_cast<int64_t>(sizeof(float)));
  ParallelFor(CeilDiv(plan.n, panel), [&](int64_t item) {
    const int64_t begin = item * panel, end = std::min(begin + panel, plan.n);
    auto lease = scratch.Borrow();
    float* zero_points = lease.as<float>();
    float* weights = zero_points + zero_point_room;
    if (plan.rows == 1) {
      // Each row is used while it is in the first-level cache.
      for (int64_t n = begin; n < end; ++n) {
        DequantizeRows(plan, w, n, n + 1, stride, zero_points, weights);
        y[n] = (add ? y[n] : 0.0F) + Dot(a, weights, plan.k);
      }
      return;
    }
    DequantizeRows(plan, w, begin, end, stride, zero_points, weights);
    GemmTile<float>({plan.rows, end - begin, plan.k}, {{a, plan.k}, {weights, stride, true}, y + begin, plan.n, add});
  });
}

Status EvalMatMulNBits(KernelContext& context) {
  ASSIGN_OR_RETURN(const NBitsPlan plan, PlanNBits(context));
  const Tensor *zero_points = context.input(3), *g_idx = context.input(4);
  const DType dtype = context.in(0).dtype();
  if (dtype != DType::kFloat && dtype != DType::kFloat16 && dtype != DType::kBfloat16) {
    return Unsupported("A of type {} is not supported", NameOf(dtype));
  }
  const bool packed = zero_points != nullptr && zero_points->dtype() == DType::kUint8;
  ASSIGN_OR_RETURN(const auto a, FloatInput<float>::Of(context, &context.in(0)));
  ASSIGN_OR_RETURN(const auto scales, FloatInput<float>::Of(context, &context.in(2)));
  ASSIGN_OR_RETURN(const auto float_zero_points, FloatInput<float>::Of(context, packed ? nullptr : zero_points));
  ASSIGN_OR_RETURN(const auto bias, FloatInput<float>::Of(context, context.input(5)));
  ASSIGN_OR_RETURN(auto y, FloatOutput<float>::Make(context, 0, dtype, plan.out_dims));
  const NBitsWeight weight{context.in(1).data<uint8_t>().data(), scales.data(),
                           packed ? zero_points->data<uint8_t>().data() : nullptr, float_zero_points.data(),
                           g_idx != nullptr ? g_idx->data<int32_t>().data() : nullptr};
  for (int64_t i = 0; bias.data() != nullptr && i < plan.rows; ++i) {
    std::copy_n(bias.data(), plan.n, y.data() + i * plan.n);
  }
  MultiplyPanels(context, plan, a.data(), weight, bias.data() != nullptr, y.data());
  return y.Finish();
}

void InferMatMulNBits(InferContext& context) {
  if (context.inputs.empty() || context.outputs.empty()) return;
  const TypeShape& a = context.inputs[0];
  TypeShape& y = context.outputs[0];
  y.dtype = a.dtype;
  const int64_t n = context.attributes.Int("N", 0);
  if (!a.shape || a.shape->empty() || n < 1) return;
  y.shape = a.shape;
  y.shape->back() = {n, ""};
}

const SchemaRow& Schema() {
  static const SchemaRow row = {
      .since_version = 1,
      .doc = "Matrix product with a weight of N rows and K columns in codes of 2, 4 or 8 bits, in blocks along K",
      .inputs = {{"A", "T1"},
                 {"B", "T2"},
                 {"scales", "T1"},
                 {"zero_points", "T3", true},
                 {"g_idx", "T4", true},
                 {"bias", "T1", true}},
      .outputs = {{"Y", "T1"}},
      .attributes = {{"K", AttributeKind::kInt, true},
                     {"N", AttributeKind::kInt, true},
                     {"block_size", AttributeKind::kInt, true},
                     {"bits", AttributeKind::kInt},
                     {"accuracy_level", AttributeKind::kInt},
                     {"weight_prepacked", AttributeKind::kInt}},
      .types = {{"T1", {"tensor(float)", "tensor(float16)", "tensor(bfloat16)"}},
                {"T2", {"tensor(uint8)"}},
                {"T3", {"tensor(uint8)", "tensor(float)", "tensor(float16)", "tensor(bfloat16)"}},
                {"T4", {"tensor(int32)"}}},
      .infer = InferMatMulNBits,
  };
  return row;
}

}  // namespace

const OpDef& MatMulNBitsOp() {
  static const OpDef def = {
      .name = "MatMulNBits",
      .domain = "com.microsoft",
      .since = {1},
      .min_inputs = 3,
      .eval = EvalMatMulNBits,
      .role = Quantizer{},
      .exactness = Exactness::kRounding,
      .schema = &Schema(),
      .summary = "Matrix product with a block-quantized weight of 2, 4 or 8 bits",
  };
  return def;
}

}  // namespace quant
