#include "passes/quant/precision_sizes.h"

#include <map>

#include "passes/convert/to_half.h"
#include "passes/quant/weight_quant.h"

namespace quant {
namespace {

// Calls seen(tensor) for every constant of the graph and the functions.
template <typename Seen>
void ForConstants(const Model& model, const Seen& seen) {
  for (int f = -1; f < static_cast<int>(model.functions.size()); ++f) {
    const Graph& graph = GraphOf(model, f);
    for (ValueId v = 0; v < graph.value_count(); ++v) {
      if (!graph.value(v).removed && graph.value(v).constant) seen(*graph.value(v).constant);
    }
  }
}

struct Inventory {
  std::map<DType, int64_t> bytes;
  int64_t parameters = 0;
  bool quantized = false;  // codes of 8 bits and fewer make up more than the floats
};

Inventory TakeInventory(const Model& model) {
  Inventory out;
  int64_t codes = 0, floats = 0;
  ForConstants(model, [&](const Tensor& t) {
    out.bytes[t.dtype()] += t.byte_size();
    const bool code = !InfoOf(t.dtype()).is_float && InfoOf(t.dtype()).bits <= 8 && t.dtype() != DType::kBool;
    if (code || InfoOf(t.dtype()).is_float) out.parameters += t.size();
    (code ? codes : floats) += t.byte_size();
  });
  out.quantized = codes > floats;
  return out;
}

std::string NameAsIs(const Inventory& inventory) {
  if (inventory.quantized) return "as it is";
  const auto bytes = [&](DType dtype) {
    const auto it = inventory.bytes.find(dtype);
    return it == inventory.bytes.end() ? 0 : it->second;
  };
  const int64_t single = bytes(DType::kFloat), half = bytes(DType::kFloat16), brain = bytes(DType::kBfloat16);
  if (bytes(DType::kDouble) > single) return "as it is";
  if (single >= half && single >= brain) return "fp32";
  return half >= brain ? "fp16" : "bf16";
}

StatusOr<int64_t> QuantizedBytes(const Model& model, const QuantizeOptions& options, int64_t as_is, bool& any) {
  ASSIGN_OR_RETURN(const QuantizePlan plan, PlanWeights(model, options));
  int64_t bytes = as_is;
  for (const WeightVerdict& v : plan.verdicts) {
    if (v.kind != VerdictKind::kQuantized) continue;
    any = true;
    bytes += (v.bits + 7) / 8 - GraphOf(model, v.function).value(v.value).constant->byte_size();
  }
  return bytes;
}

}  // namespace

int64_t ConstantBytes(const Model& model) {
  int64_t bytes = 0;
  ForConstants(model, [&](const Tensor& t) { bytes += t.byte_size(); });
  return bytes;
}

StatusOr<PrecisionSizes> SizesAtPrecisions(const Model& model, DType scale_type) {
  const Inventory inventory = TakeInventory(model);
  PrecisionSizes out;
  out.parameters = inventory.parameters;
  const int64_t as_is = ConstantBytes(model);
  out.sizes.push_back({NameAsIs(inventory), PrecisionKind::kAsIs, 0, as_is});
  if (out.sizes[0].name == "fp32") {
    Model half = model;
    const auto report = ConvertToHalf(half, {});
    if (report.ok()) {
      half.graph.RemoveUnused();
      out.sizes.push_back({"fp16", PrecisionKind::kHalf, 0, ConstantBytes(half)});
    } else {
      out.note = fmt::format("no fp16: {}", Message(report.status()));
    }
  }
  for (const int64_t group : {-1, 32, 64, 128, 0}) {
    QuantizeOptions options;
    options.format.weights = group < 0 ? "int8" : "int4";
    options.format.granularity = group > 0 ? Granularity::kGroup : Granularity::kChannel;
    if (group > 0) options.format.group_size = group;
    options.format.scale_type = scale_type;
    bool any = false;
    ASSIGN_OR_RETURN(const int64_t bytes, QuantizedBytes(model, options, as_is, any));
    if (!any) continue;
    if (group < 0) out.sizes.push_back({"int8", PrecisionKind::kInt8, 0, bytes});
    if (group == 0) out.sizes.push_back({"int4, per channel", PrecisionKind::kInt4, 0, bytes});
    if (group > 0) {
      out.sizes.push_back({fmt::format("int4, groups of {}", group), PrecisionKind::kInt4Groups, group, bytes});
    }
  }
  return out;
}

}  // namespace quant
