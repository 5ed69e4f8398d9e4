#include "passes/quant/weight_form.h"

#include <algorithm>

#include "libquant/base/checked.h"
#include "passes/quant/reader_form.h"

namespace quant {
namespace {

bool Same(const QuantSpec& a, const QuantSpec& b) {
  return a.format == b.format && a.granularity == b.granularity && a.group_size == b.group_size &&
         a.scheme == b.scheme && a.scale_dtype == b.scale_dtype;
}

bool Same(const WeightForm& a, const WeightForm& b) {
  return a.kind == b.kind && a.source.SharesPayloadWith(b.source) && a.view == b.view && a.layout == b.layout &&
         Same(a.spec, b.spec) && a.activation == b.activation && a.code_dims == b.code_dims && a.axis == b.axis &&
         a.block == b.block && a.reshaped == b.reshaped && a.own_codes == b.own_codes;
}

void WarnOfCopies(std::vector<FormGroup>& groups) {
  for (FormGroup& group : groups) {
    WeightForm& form = group.form;
    if (!form.own_codes || group.readers.size() < 2) continue;
    if (form.spec.granularity == Granularity::kTensor) {
      AddWarning(form,
                 "several readers with one scale: ONNX Runtime merges equal scalars and dequantizes on every run");
    } else {
      AddWarning(form, fmt::format("stored {} times, once for each reader: shared codes would not fuse",
                                   group.readers.size()));
    }
  }
  if (groups.size() > 1) {
    AddWarning(groups[0].form, fmt::format("stored in {} forms, as its readers want them", groups.size()));
  }
}

}  // namespace

std::variant<std::vector<FormGroup>, std::string> ChooseForms(const Graph& graph, const WeightSite& site,
                                                              const WeightFormat& format,
                                                              const QuantizeOptions& options) {
  const Tensor& weight = *graph.value(site.value).constant;
  if (site.is_output) return "is a graph output itself";
  if (weight.dtype() != DType::kFloat && weight.dtype() != DType::kFloat16) {
    return fmt::format("{} weights are not quantized", NameOf(weight.dtype()));
  }
  if (weight.size() == 0) return "has no elements";
  std::vector<FormGroup> groups;
  for (const WeightReader& reader : site.readers) {
    auto answer = FormForReader(graph, reader, format, options);
    if (auto* reason = std::get_if<std::string>(&answer)) return std::move(*reason);
    auto& form = std::get<WeightForm>(answer);
    auto same = std::find_if(groups.begin(), groups.end(), [&](const FormGroup& g) { return Same(g.form, form); });
    if (same == groups.end()) same = groups.insert(groups.end(), {std::move(form), {}});
    same->readers.push_back(reader);
  }
  WarnOfCopies(groups);
  return groups;
}

StatusOr<QuantizedWeight> QuantizeInForm(const std::string& name, const WeightForm& form) {
  ASSIGN_OR_RETURN(QuantizedWeight out, QuantizeWeight(name, form.source, form.view, form.spec, form.layout));
  if (!form.plain_zero_points && form.spec.scheme == Scheme::kSymmetric && out.zero_points) {
    out.bits -= out.zero_points->byte_size() * 8;
    out.zero_points.reset();
  }
  if (form.code_dims.empty()) return out;
  out.codes = out.codes.Reshaped(form.code_dims);
  if (form.block == 0) return out;
  Dims dims = form.code_dims;
  int64_t& along = dims[static_cast<size_t>(form.axis)];
  along = CeilDiv(along, form.block);
  out.scales = out.scales.Reshaped(dims);
  if (out.zero_points) out.zero_points = out.zero_points->Reshaped(dims);
  return out;
}

int64_t CodeSets(const FormGroup& group) {
  return group.form.own_codes ? static_cast<int64_t>(group.readers.size()) : 1;
}

}  // namespace quant
