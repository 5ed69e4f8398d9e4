#include "passes/quant/weight_form.h"

#include <algorithm>

#include "libquant/base/checked.h"
#include "libquant/ops/op_def.h"

namespace quant {
namespace {

using Answer = std::variant<WeightForm, std::string>;

// Block of MatMulNBits in which a scale per channel or tensor is repeated.
constexpr int64_t kRepeatBlock = 128;

bool IsKernelBlock(int64_t size) { return size >= 16 && size <= 256 && (size & (size - 1)) == 0; }

const Weighted* WeightedRoleOf(const Node& node) {
  const OpDef* op = FindOp(node.domain, node.op_type);
  return op == nullptr ? nullptr : std::get_if<Weighted>(&op->role);
}

std::string OperandReason(const Graph& graph, const WeightReader& reader, const Weighted* role) {
  const Node& node = graph.node(reader.node);
  if (role == nullptr) return fmt::format("read by {}, which has no quantized form", node.op_type);
  if (reader.input == role->activation) return fmt::format("the left operand of {}", node.op_type);
  return fmt::format("input {} of {}, not its weight", reader.input, node.op_type);
}

DType ActivationType(const Graph& graph, const Node& node, const Weighted& role, const Tensor& weight) {
  const auto i = static_cast<size_t>(role.activation);
  const DType seen =
      i < node.inputs.size() && node.inputs[i] != kNoValue ? graph.value(node.inputs[i]).dtype : DType::kUndefined;
  return seen != DType::kUndefined ? seen : weight.dtype();
}

// The view of one reader, or why there is none.
std::variant<MatrixView, std::string> ViewFor(const Node& node, const Weighted& role, const Tensor& weight) {
  const Dims& dims = weight.dims();
  const int64_t channel = role.channel_axis(node.attributes, weight.rank());
  if (role.reduction_axis != nullptr) {
    if (weight.rank() != 2)
      return fmt::format("rank {} on {}: only matrices are quantized", weight.rank(), node.op_type);
    const bool rows_are_channels = channel == 0;
    return rows_are_channels ? MatrixView{dims[0], dims[1], dims[1], 1} : MatrixView{dims[1], dims[0], 1, dims[1]};
  }
  if (channel != 0) return fmt::format("{}: output channels are not the first axis", node.op_type);
  const int64_t rest = weight.size() / dims[0];
  return MatrixView{dims[0], rest, rest, 1};
}

bool IsPlainGemm(const Node& node) {
  return node.attributes.Int("transA", 0) == 0 && node.attributes.Float("alpha", 1) == 1 &&
         node.attributes.Float("beta", 1) == 1;
}

void AddWarning(WeightForm& form, const std::string& text) {
  form.warning += (form.warning.empty() ? "" : "; ") + text;
}

void WarnOfSlowMatrix(WeightForm& form, const Node& node, const WeightSite& site) {
  const bool blocked = form.spec.granularity == Granularity::kGroup;
  if (blocked && !IsKernelBlock(form.spec.group_size)) {
    AddWarning(form,
               fmt::format("group size {} is no power of two from 16 to 256: ONNX Runtime dequantizes on every run",
                           form.spec.group_size));
  }
  if (node.op_type == "Gemm" && !IsPlainGemm(node)) {
    AddWarning(form, "Gemm with transA, alpha or beta: ONNX Runtime dequantizes on every run");
  }
  if (form.spec.scale_dtype != form.activation) {
    AddWarning(form, "scales of another type than the activation need a Cast: ONNX Runtime dequantizes on every run");
  }
  if (site.readers.size() > 1 && form.spec.granularity == Granularity::kTensor) {
    AddWarning(form, "several readers with one scale: ONNX Runtime merges equal scalars and dequantizes on every run");
  } else if (site.readers.size() > 1) {
    AddWarning(form,
               fmt::format("stored {} times, once for each reader: shared codes would not fuse", site.readers.size()));
  }
}

// A group as long as the reduction is a channel: the same numbers, in a form that older opsets know and that
// ONNX Runtime runs (1.30 fails on a block longer than the axis when there are zero points).
void SingleGroupIsChannel(WeightForm& form) {
  if (form.spec.granularity != Granularity::kGroup || form.view.reduction > form.spec.group_size) return;
  form.spec.granularity = Granularity::kChannel;
  form.note = "the reduction is a single group";
}

void FinishMatrix(WeightForm& form, const Node& node, const WeightSite& site, const QuantizeOptions& options) {
  if (options.emit == Emit::kNBits) {
    form.kind = FormKind::kNBits;
    form.layout = CodeLayout::kNBits;
    if (form.spec.granularity != Granularity::kGroup) form.spec.group_size = kRepeatBlock;
    return;
  }
  form.kind = FormKind::kQdqMatrix;
  form.layout = CodeLayout::kReductionMajor;
  SingleGroupIsChannel(form);
  WarnOfSlowMatrix(form, node, site);
}

void FinishKernel(WeightForm& form) {
  form.kind = FormKind::kQdqKernel;
  form.layout = CodeLayout::kChannelMajor;
  SingleGroupIsChannel(form);
  AddWarning(form, "smaller, but ONNX Runtime dequantizes on every run: slower than float");
}

}  // namespace

Answer ChooseForm(const Graph& graph, const WeightSite& site, const QuantizeOptions& options) {
  const Tensor& weight = *graph.value(site.value).constant;
  if (site.is_output) return "is a graph output itself";
  if (weight.dtype() != DType::kFloat && weight.dtype() != DType::kFloat16) {
    return fmt::format("{} weights are not quantized", NameOf(weight.dtype()));
  }
  if (weight.size() == 0) return "has no elements";

  WeightForm form;
  bool is_matrix = false;
  for (size_t i = 0; i < site.readers.size(); ++i) {
    const Node& node = graph.node(site.readers[i].node);
    const Weighted* role = WeightedRoleOf(node);
    if (role == nullptr || site.readers[i].input != role->weight) return OperandReason(graph, site.readers[i], role);
    auto view = ViewFor(node, *role, weight);
    if (auto* reason = std::get_if<std::string>(&view)) return *reason;
    const MatrixView& v = std::get<MatrixView>(view);
    const DType activation = ActivationType(graph, node, *role, weight);
    const bool matrix = role->reduction_axis != nullptr;
    if (i > 0 &&
        (v.channel_stride != form.view.channel_stride || activation != form.activation || matrix != is_matrix)) {
      return "read by operators that want it in different forms";
    }
    is_matrix = matrix;
    form.view = v;
    form.activation = activation;
  }
  if (form.activation != DType::kFloat && form.activation != DType::kFloat16) {
    return fmt::format("its reader computes in {}", NameOf(form.activation));
  }

  const Node& first = graph.node(site.readers[0].node);
  const Format& format = *FindFormat(options.weights);
  form.spec.format = &format;
  form.spec.granularity = options.granularity;
  form.spec.group_size = options.group_size;
  form.spec.scheme = options.scheme;
  form.spec.scale_dtype = options.scale_type != DType::kUndefined ? options.scale_type : form.activation;
  form.spec.allow_negative_scales = FindTarget(options.target)->negative_scales;
  form.spec.non_finite = options.non_finite;
  if (!is_matrix) {
    FinishKernel(form);
    return form;
  }
  if (options.emit == Emit::kNBits && form.spec.scale_dtype != form.activation) {
    return fmt::format("MatMulNBits takes scales of its activation's type, {}", NameOf(form.activation));
  }
  FinishMatrix(form, first, site, options);
  return form;
}

StatusOr<QuantizedWeight> QuantizeInForm(const Value& weight, const WeightForm& form) {
  ASSIGN_OR_RETURN(QuantizedWeight out,
                   QuantizeWeight(weight.name, *weight.constant, form.view, form.spec, form.layout));
  if (form.kind == FormKind::kQdqKernel && form.spec.granularity != Granularity::kGroup) {
    out.codes = out.codes.Reshaped(weight.constant->dims());
  }
  return out;
}

}  // namespace quant
