#include "libquant/numerics/weight_plan.h"

#include <algorithm>

#include "libquant/base/checked.h"

namespace quant {
namespace {

// Floats of a tile. With the codes and the copies that transposing takes, a thread holds a few MiB.
constexpr int64_t kTileFloats = int64_t{1} << 18;
// Runs long enough for a read or a write to be worth its call.
constexpr int64_t kRun = 512;
// A larger MatMulNBits block is nobody's: runtimes take 256 at most.
constexpr int64_t kLargestBlock = 65536;

Status CheckInput(const std::string& name, const Tensor& source, const MatrixView& view, const QuantSpec& spec,
                  CodeLayout layout) {
  const DType t = source.dtype();
  if (t != DType::kFloat && t != DType::kFloat16 && t != DType::kBfloat16) {
    return Unsupported("weight '{}' is {}: only float32, float16 and bfloat16 are quantized", name, NameOf(t));
  }
  const auto size = CheckedProduct(source.dims());
  const auto bytes = BytesFor(t, source.dims());
  if (!size || !bytes || source.byte_size() != *bytes) {
    return DataError("weight '{}' has {} bytes, which does not fit its shape {}", name, source.byte_size(),
                     ToString(source.dims()));
  }
  const bool in_runs = view.inner > 0 && view.reduction % view.inner == 0;
  const bool dense = in_runs || (view.channel_stride == 1 && view.reduction_stride == view.channels) ||
                     (view.reduction_stride == 1 && view.channel_stride == view.reduction);
  if (view.channels < 0 || view.reduction < 0 || CheckedMul(view.channels, view.reduction) != *size ||
      (*size > 0 && !dense)) {
    return BugError("weight '{}' of shape {} viewed as {} x {} with strides {} and {}", name, ToString(source.dims()),
                    view.channels, view.reduction, view.channel_stride, view.reduction_stride);
  }
  if ((layout == CodeLayout::kSourceOrder) != (view.inner > 0) ||
      (view.inner > 0 && spec.granularity == Granularity::kGroup)) {
    return BugError("weight '{}': a layout that does not fit runs of {}", name, view.inner);
  }
  if (spec.format == nullptr || (spec.scale_dtype != DType::kFloat && spec.scale_dtype != DType::kFloat16)) {
    return BugError("weight '{}': no format, or scales of type {}", name, NameOf(spec.scale_dtype));
  }
  if (spec.format->bits > 8) return Unsupported("weight '{}': codes of {} bits", name, spec.format->bits);
  const bool in_blocks = spec.granularity == Granularity::kGroup || layout == CodeLayout::kNBits;
  if (in_blocks && spec.group_size < 1) return BugError("weight '{}': group size {}", name, spec.group_size);
  if (layout == CodeLayout::kNBits &&
      (spec.group_size > kLargestBlock || spec.group_size * spec.format->bits % 8 != 0)) {
    return Unsupported("weight '{}': MatMulNBits has no blocks of {} codes of {} bits", name, spec.group_size,
                       spec.format->bits);
  }
  return OkStatus();
}

void SetDims(WeightPlan& plan) {
  const int64_t n = plan.view.channels;
  plan.code_dtype = plan.zero_dtype = plan.rule.format.dtype;
  if (plan.layout == CodeLayout::kNBits) {
    const int64_t block_bytes = plan.spec.group_size * plan.bits() / 8;
    plan.code_dtype = plan.zero_dtype = DType::kUint8;
    plan.code_dims = {n, plan.parameters, block_bytes};
    plan.scale_dims = {n, plan.parameters};
    plan.zero_dims = {n, CeilDiv(plan.parameters * plan.bits(), 8)};
    return;
  }
  const int64_t k = plan.view.reduction;
  plan.code_dims = plan.reduction_major() ? Dims{k, n} : Dims{n, k};
  if (plan.view.inner > 0) plan.code_dims = {k / plan.view.inner, n, plan.view.inner};
  switch (plan.spec.granularity) {
    case Granularity::kTensor:
      plan.scale_dims = {};
      break;
    case Granularity::kChannel:
      plan.scale_dims = {n};
      break;
    case Granularity::kGroup:
      plan.scale_dims = plan.reduction_major() ? Dims{plan.parameters, n} : Dims{n, plan.parameters};
      break;
  }
  plan.zero_dims = plan.scale_dims;
}

void SetGranules(WeightPlan& plan) {
  const int64_t k = plan.view.reduction;
  const bool nbits = plan.layout == CodeLayout::kNBits;
  const int64_t group = nbits ? plan.spec.group_size : std::min(plan.spec.group_size, std::max<int64_t>(k, 1));
  plan.padded = nbits ? CeilDiv(k, group) * group : k;
  switch (plan.spec.granularity) {
    case Granularity::kTensor:
      plan.granule = nbits ? group : 1;
      plan.parameters = nbits ? CeilDiv(k, group) : 0;
      break;
    case Granularity::kChannel:
      plan.granule = std::max<int64_t>(plan.padded, 1);
      plan.repeat = nbits ? CeilDiv(k, group) : 1;
      plan.parameters = plan.repeat;
      break;
    case Granularity::kGroup:
      plan.granule = group;
      plan.parameters = CeilDiv(k, group);
      break;
  }
}

// Long runs in both source and output where they run the same way, else as square as the granules allow.
void SetTiles(WeightPlan& plan) {
  const int64_t n = std::max<int64_t>(plan.view.channels, 1);
  const int64_t k = std::max<int64_t>(plan.padded, 1);
  const int64_t granule = std::min(plan.granule, k);
  const bool source_rows = plan.view.inner == 0 && plan.view.channel_stride == 1;
  int64_t c = 0;
  if (source_rows && plan.reduction_major()) {
    c = std::min(n, std::max(kRun, kTileFloats / granule));
  } else if (!source_rows && !plan.reduction_major()) {
    c = std::min(n, std::max<int64_t>(64, kTileFloats / k));
  } else {
    c = std::min({n, kRun, std::max<int64_t>(64, kTileFloats / granule)});
  }
  int64_t r = std::min(k, kTileFloats / c);
  if (r < k && granule <= r) r -= r % granule;
  if (r < k && granule > r) r -= r % 2;
  // What the reduction left free goes to more channels; 16 keep runs even and transposing whole.
  c = std::min(n, std::max(c, kTileFloats / r));
  if (c < n && c > 16) c -= c % 16;
  plan.tile_channels = c;
  plan.tile_reduction = r;
  plan.unit_reduction = granule <= r ? r : granule;
}

}  // namespace

int64_t WeightPlan::zero_row() const { return layout == CodeLayout::kNBits ? zero_dims[1] * (8 / bits()) : parameters; }

int64_t WeightPlan::code_rows() const {
  if (view.inner > 0) return view.reduction / view.inner;
  return reduction_major() ? padded : view.channels;
}

int64_t WeightPlan::unit_count() const {
  if (view.channels == 0 || view.reduction == 0) return 0;
  return CeilDiv(view.channels, tile_channels) * CeilDiv(padded, unit_reduction);
}

WeightUnit WeightPlan::unit(int64_t index) const {
  const int64_t across = CeilDiv(view.channels, tile_channels);
  const int64_t down = CeilDiv(padded, unit_reduction);
  // In the order of the source.
  const bool rows_first = view.inner == 0 && view.channel_stride == 1;
  const int64_t i = rows_first ? index % across : index / down;
  const int64_t j = rows_first ? index / across : index % down;
  WeightUnit unit;
  unit.c = i * tile_channels;
  unit.columns = std::min(tile_channels, view.channels - unit.c);
  unit.k = j * unit_reduction;
  unit.k_end = std::min(unit.k + unit_reduction, padded);
  return unit;
}

StatusOr<WeightPlan> PlanWeight(const std::string& name, const Tensor& source, const MatrixView& view,
                                const QuantSpec& spec, CodeLayout layout) {
  RETURN_IF_ERROR(CheckInput(name, source, view, spec, layout));
  WeightPlan plan;
  plan.name = name;
  plan.view = view;
  plan.spec = spec;
  plan.layout = layout;
  plan.rule = RuleOf(spec);
  const bool nbits = layout == CodeLayout::kNBits;
  plan.zero_points = !plan.rule.symmetric || (!nbits && !plan.rule.format.is_signed);
  plan.code_offset = nbits && plan.rule.format.is_signed ? 1 << (plan.bits() - 1) : 0;
  SetGranules(plan);
  SetDims(plan);
  if (!BytesFor(plan.code_dtype, plan.code_dims) || !BytesFor(DType::kFloat, plan.scale_dims) ||
      !BytesFor(DType::kUint8, plan.zero_dims) || !CheckedMul(view.channels, plan.padded)) {
    return DataError("weight '{}' of shape {} is too large to quantize", name, ToString(source.dims()));
  }
  SetTiles(plan);
  return plan;
}

}  // namespace quant
