// com.microsoft QLinearAveragePool and QLinearGlobalAveragePool on 8-bit codes, [N, C, spatial...] or, with
// channels_last, [N, spatial..., C]; as ONNX Runtime does them:
//   windows    y = saturate(round(mean of dequantized codes / y_scale + y_zero)), summed in float32; the divisor is the
//              number of taps inside the input or, with count_include_pad, the kernel's size
//   planes     sums of codes, requantized (requantize.h)
#include <algorithm>

#include "libquant/base/checked.h"
#include "libquant/base/parallel.h"
#include "libquant/ops/qlinear.h"
#include "libquant/ops/scratch.h"
#include "libquant/ops/window.h"

namespace quant {
namespace {

constexpr int64_t kPieceElements = 16384;
constexpr int64_t kMaxPlane = (int64_t{1} << 31) / 256;  // sums stay within int32

// `outer` planes, whose elements are `inner` channels each.
struct PlaneLayout {
  int64_t outer = 1, inner = 1;
  Dims spatial;

  Dims WithSpatial(const Tensor& x, bool channels_last, const Dims& out) const {
    Dims dims = {x.dims()[0]};
    if (!channels_last) dims.push_back(x.dims()[1]);
    dims.insert(dims.end(), out.begin(), out.end());
    if (channels_last) dims.push_back(inner);
    return dims;
  }
};

StatusOr<PlaneLayout> ReadLayout(const Tensor& x, bool channels_last) {
  const Dims& dims = x.dims();
  if (dims.size() < 3) return DataError("the input has rank {}; batch, channels and spatial axes are needed", x.rank());
  PlaneLayout out;
  out.outer = dims[0];
  if (channels_last) {
    out.inner = dims.back();
    out.spatial.assign(dims.begin() + 1, dims.end() - 1);
  } else {
    const auto planes = CheckedMul(dims[0], dims[1]);
    if (!planes) return DataError("an input of {} is too large", ToString(dims));
    out.outer = *planes;
    out.spatial.assign(dims.begin() + 2, dims.end());
  }
  return out;
}

struct PoolScales {
  CodeScale x, y;
};

StatusOr<PoolScales> ReadScales(const KernelContext& context) {
  RETURN_IF_ERROR(RequireInputs(context, {3}));
  const DType dtype = context.in(0).dtype();
  PoolScales out;
  ASSIGN_OR_RETURN(out.x, ReadCodeScale(context.in(1), context.input(2), dtype));
  ASSIGN_OR_RETURN(out.y, ReadCodeScale(context.in(3), context.input(4), dtype));
  return out;
}

struct AveragePlan {
  std::array<WindowAxis, 3> axes;
  int64_t channels = 1;
  int64_t kernel_size = 0;        // the divisor; 0: the taps inside
  std::array<float, 256> values;  // dequantized
  CodeScale y;
};

// Taps of one output, all its channels.
void AverageWindow(const AveragePlan& plan, const uint8_t* x, const std::array<int64_t, 3>& at, float* sums,
                   uint8_t* y) {
  const auto& [d, h, w] = plan.axes;
  const int64_t d0 = d.start(at[0]), h0 = h.start(at[1]), w0 = w.start(at[2]);
  std::fill_n(sums, plan.channels, 0.0F);
  int64_t taps = 0;
  for (int64_t kd = d.FirstTap(d0); kd < d.LastTap(d0); ++kd) {
    for (int64_t kh = h.FirstTap(h0); kh < h.LastTap(h0); ++kh) {
      for (int64_t kw = w.FirstTap(w0); kw < w.LastTap(w0); ++kw, ++taps) {
        const int64_t position = ((d0 + kd * d.dilation) * h.in + h0 + kh * h.dilation) * w.in + w0 + kw * w.dilation;
        const uint8_t* codes = x + position * plan.channels;
        for (int64_t c = 0; c < plan.channels; ++c) sums[c] += plan.values[codes[c]];
      }
    }
  }
  const auto count = static_cast<float>(plan.kernel_size != 0 ? plan.kernel_size : taps);
  const auto zero_point = static_cast<float>(plan.y.zero_point);
  for (int64_t c = 0; c < plan.channels; ++c) {
    const float value = (taps == 0 ? 0.0F : sums[c] / count) / plan.y.scale + zero_point;
    y[c] =
        plan.y.dtype == DType::kInt8 ? static_cast<uint8_t>(RoundToCode<int8_t>(value)) : RoundToCode<uint8_t>(value);
  }
}

void AveragePlane(const AveragePlan& plan, const uint8_t* x, float* sums, uint8_t* y) {
  std::array<int64_t, 3> at;
  for (at[0] = 0; at[0] < plan.axes[0].out; ++at[0]) {
    for (at[1] = 0; at[1] < plan.axes[1].out; ++at[1]) {
      for (at[2] = 0; at[2] < plan.axes[2].out; ++at[2], y += plan.channels) AverageWindow(plan, x, at, sums, y);
    }
  }
}

Status EvalAveragePool(KernelContext& context) {
  const Tensor& x = context.in(0);
  const Attributes& attributes = context.attributes();
  const bool channels_last = attributes.Int("channels_last", 0) != 0;
  ASSIGN_OR_RETURN(const PoolScales scales, ReadScales(context));
  ASSIGN_OR_RETURN(const PlaneLayout layout, ReadLayout(x, channels_last));
  ASSIGN_OR_RETURN(const Window window, ReadWindow(attributes, WindowKind::kPool, layout.spatial, {}));
  AveragePlan plan;
  ASSIGN_OR_RETURN(plan.axes, ThreeAxes(window));
  plan.channels = layout.inner;
  plan.y = scales.y;
  const auto& [d, h, w] = plan.axes;
  const auto kernel_size = CheckedProduct(Dims{d.kernel, h.kernel, w.kernel});
  if (!kernel_size) return DataError("a kernel of {} x {} x {}", d.kernel, h.kernel, w.kernel);
  if (attributes.Int("count_include_pad", 0) != 0) plan.kernel_size = *kernel_size;
  for (int32_t byte = 0; byte < 256; ++byte) {
    const int32_t code = scales.x.dtype == DType::kInt8 && byte > 127 ? byte - 256 : byte;
    plan.values[static_cast<size_t>(byte)] = scales.x.scale * static_cast<float>(code - scales.x.zero_point);
  }
  Dims spatial;
  for (const WindowAxis& axis : window) spatial.push_back(axis.out);
  ASSIGN_OR_RETURN(Tensor * y, context.Allocate(0, x.dtype(), layout.WithSpatial(x, channels_last, spatial)));
  if (y->size() == 0) return OkStatus();
  const int64_t in_plane = d.in * h.in * w.in * plan.channels, out_plane = d.out * h.out * w.out * plan.channels;
  ScratchPool scratch(context, plan.channels * static_cast<int64_t>(sizeof(float)));
  const uint8_t* in = x.data<uint8_t>().data();
  uint8_t* out = y->mutable_data<uint8_t>().data();
  ParallelFor(layout.outer, [&](int64_t p) {
    auto sums = scratch.Borrow();
    AveragePlane(plan, in + p * in_plane, sums.as<float>(), out + p * out_plane);
  });
  return OkStatus();
}

Status EvalGlobalAveragePool(KernelContext& context) {
  const Tensor& x = context.in(0);
  const bool channels_last = context.attributes().Int("channels_last", 0) != 0;
  ASSIGN_OR_RETURN(const PoolScales scales, ReadScales(context));
  ASSIGN_OR_RETURN(const PlaneLayout layout, ReadLayout(x, channels_last));
  const auto plane = CheckedProduct(layout.spatial);
  if (!plane || *plane == 0) return DataError("a plane of {} has no elements to pool", ToString(x.dims()));
  if (*plane > kMaxPlane) return Unsupported("planes of {} elements are not supported", *plane);
  const Dims dims = layout.WithSpatial(x, channels_last, Dims(layout.spatial.size(), 1));
  ASSIGN_OR_RETURN(Tensor * y, context.Allocate(0, x.dtype(), dims));
  if (y->size() == 0) return OkStatus();
  const int64_t inner = layout.inner, size = *plane;
  const float scale = scales.x.scale / (scales.y.scale * static_cast<float>(size));
  const int32_t flip = x.dtype() == DType::kInt8 ? 0x80 : 0;
  const int32_t shift = scales.x.zero_point + flip;  // codes as stored ^ flip are unsigned
  const uint8_t* in = x.data<uint8_t>().data();
  uint8_t* out = y->mutable_data<uint8_t>().data();
  const int64_t per_piece = std::max<int64_t>(1, kPieceElements / (size * inner));
  ScratchPool scratch(context, inner * static_cast<int64_t>(sizeof(int32_t)));
  ParallelFor(CeilDiv(layout.outer, per_piece), [&](int64_t piece) {
    auto lease = scratch.Borrow();
    int32_t* sums = lease.as<int32_t>();
    for (int64_t p = piece * per_piece; p < std::min(layout.outer, (piece + 1) * per_piece); ++p) {
      std::fill_n(sums, inner, 0);
      const uint8_t* codes = in + p * size * inner;
      for (int64_t i = 0; i < size; ++i, codes += inner) {
        for (int64_t c = 0; c < inner; ++c) sums[c] += (codes[c] ^ flip) - shift;
      }
      RequantizeRow(sums, inner, &scale, 0, scales.y, out + p * inner);
    }
  });
  return OkStatus();
}

void InferPool(InferContext& context, bool global) {
  if (context.inputs.empty() || context.outputs.empty()) return;
  const TypeShape& x = context.inputs[0];
  TypeShape& y = context.outputs[0];
  y.dtype = x.dtype;
  if (!x.shape || x.shape->size() < 3) return;
  const bool channels_last = context.attributes.Int("channels_last", 0) != 0;
  const size_t first = channels_last ? 1 : 2, rank = x.shape->size() - 2;
  Shape shape = *x.shape;
  Dims spatial;
  bool known = true;
  for (size_t i = 0; i < rank; ++i) {
    Dim& dim = shape[first + i];
    known = known && dim.known();
    spatial.push_back(dim.value);
    dim = global ? Dim{1, ""} : Dim{};
  }
  if (!global && known) {
    const auto window = ReadWindow(context.attributes, WindowKind::kPool, spatial, {});
    for (size_t i = 0; window.ok() && i < rank; ++i) shape[first + i] = {(*window)[i].out, ""};
  }
  y.shape = std::move(shape);
}

SchemaRow Schema(std::string doc, void (*infer)(InferContext&), std::vector<AttributeRow> attributes) {
  attributes.push_back({"channels_last", AttributeKind::kInt});
  return {.doc = std::move(doc),
          .inputs = {{"X", "T"},
                     {"x_scale", "tensor(float)"},
                     {"x_zero_point", "T", true},
                     {"y_scale", "tensor(float)"},
                     {"y_zero_point", "T", true}},
          .outputs = {{"Y", "T"}},
          .attributes = std::move(attributes),
          .types = {{"T", {"tensor(uint8)", "tensor(int8)"}}},
          .infer = infer};
}

}  // namespace

const OpDef& QLinearAveragePoolOp() {
  static const SchemaRow schema =
      Schema("Mean of each window of a quantized tensor, quantized", [](InferContext& c) { InferPool(c, false); },
             {{"auto_pad", AttributeKind::kString},
              {"kernel_shape", AttributeKind::kInts, true},
              {"pads", AttributeKind::kInts},
              {"strides", AttributeKind::kInts},
              {"ceil_mode", AttributeKind::kInt},
              {"count_include_pad", AttributeKind::kInt}});
  static const OpDef def =
      QLinear("QLinearAveragePool", 2, EvalAveragePool, schema, "Mean of each window of a quantized tensor");
  return def;
}

const OpDef& QLinearGlobalAveragePoolOp() {
  static const SchemaRow schema = Schema("Mean of each channel's plane of a quantized tensor, quantized",
                                         [](InferContext& c) { InferPool(c, true); }, {});
  static const OpDef def = QLinear("QLinearGlobalAveragePool", 2, EvalGlobalAveragePool, schema,
                                   "Mean of each channel's plane of a quantized tensor");
  return def;
}

}  // namespace quant
