#include "passes/quant/emit_dynamic.h"

#include "libquant/ir/edit.h"
#include "passes/match.h"

namespace quant {
namespace {

struct Codes {
  ValueRef codes, scale, zero_point;
};

// What DynamicQuantizeLinear makes of the value: of one that is there already, or a new one.
Codes QuantizedInput(const Graph& graph, GraphEdit& edit, ValueId x, RegionId region) {
  for (const Use& use : graph.value(x).uses) {
    if (use.node == kNoNode) continue;
    const Node& node = graph.node(use.node);
    if (!IsOp(node, "DynamicQuantizeLinear") || node.region != region) continue;
    return {ValueRef::Of(node.outputs[0]), ValueRef::Of(node.outputs[1]), ValueRef::Of(node.outputs[2])};
  }
  GraphEdit::NewNode node{graph.value(x).name + ".quantize", "DynamicQuantizeLinear", "", {ValueRef::Of(x)}, {}, {}};
  const auto made = edit.AddNode(
      std::move(node), {{DType::kUint8, graph.value(x).shape}, {DType::kFloat, Shape{}}, {DType::kUint8, Shape{}}});
  return {made[0], made[1], made[2]};
}

class DynamicEmitter {
 public:
  DynamicEmitter(Graph& graph, const Value& source, const QuantizedWeight& weight)
      : graph_(graph), source_(source), weight_(weight) {}

  Status Run(NodeId reader) {
    const Node node = graph_.node(reader);
    const bool conv = node.op_type == "Conv";
    GraphEdit edit(reader);
    const Codes x = QuantizedInput(graph_, edit, node.inputs[0], node.region);
    const std::string& base = source_.name;
    GraphEdit::NewNode product{base + ".product", conv ? "ConvInteger" : "MatMulInteger", "", {}, {}, {}};
    product.inputs = {x.codes, edit.AddConstant(base + ".codes", weight_.codes), x.zero_point};
    if (weight_.zero_points) {
      constexpr uint8_t kMiddle = 128;
      product.inputs.push_back(edit.AddConstant(base + ".zero_point", Tensor::Scalar(kMiddle)));
    }
    if (conv) product.attributes = node.attributes;
    const auto shape = graph_.value(node.outputs[0]).shape;
    ValueRef y = edit.AddNode(std::move(product), DType::kInt32, shape);
    GraphEdit::NewNode cast{base + ".cast", "Cast", "", {y}, {}, {}};
    cast.attributes.Set("to", static_cast<int64_t>(DType::kFloat));
    y = edit.AddNode(std::move(cast), DType::kFloat, shape);
    const int64_t kernel_rank = conv ? weight_.codes.rank() : 0;
    const Tensor scales = weight_.scales.rank() == 1 ? Spread(weight_.scales, kernel_rank) : weight_.scales;
    GraphEdit::NewNode step{base + ".step", "Mul", "", {x.scale, edit.AddConstant(base + ".scales", scales)}, {}, {}};
    const ValueRef steps = edit.AddNode(std::move(step), DType::kFloat, ShapeOf(scales.dims()));
    GraphEdit::NewNode scaled{node.name, "Mul", "", {y, steps}, {}, {}};
    const ValueId bias = InputOf(node, 2);
    if (bias == kNoValue) {
      edit.ReplaceNode(reader, std::move(scaled));
      return edit.ApplyTo(graph_);
    }
    scaled.name_hint = base + ".scaled";
    y = edit.AddNode(std::move(scaled), DType::kFloat, shape);
    edit.ReplaceNode(reader, {node.name, "Add", "", {y, Bias(edit, bias, kernel_rank)}, {}, {}});
    return edit.ApplyTo(graph_);
  }

 private:
  // [M] as [M, 1, 1] for kernels of rank 4: beside [N, M, H, W]. Matrices want it as it is.
  static Tensor Spread(const Tensor& by_channel, int64_t kernel_rank) {
    if (kernel_rank == 0) return by_channel;
    Dims dims(static_cast<size_t>(kernel_rank - 1), 1);
    dims[0] = by_channel.size();
    return by_channel.Reshaped(dims);
  }

  ValueRef Bias(GraphEdit& edit, ValueId bias, int64_t kernel_rank) const {
    if (kernel_rank == 0) return ValueRef::Of(bias);
    if (const Tensor* constant = ConstantOf(graph_, bias)) {
      return edit.AddConstant(graph_.value(bias).name + ".spread", Spread(*constant, kernel_rank));
    }
    std::vector<int64_t> axes;
    for (int64_t i = 1; i < kernel_rank - 1; ++i) axes.push_back(i);
    const ValueRef where = edit.AddConstant(source_.name + ".axes", Tensor::Of<int64_t>({kernel_rank - 2}, axes));
    GraphEdit::NewNode spread{source_.name + ".bias", "Unsqueeze", "", {ValueRef::Of(bias), where}, {}, {}};
    return edit.AddNode(std::move(spread), DType::kFloat, std::nullopt);
  }

  Graph& graph_;
  const Value& source_;
  const QuantizedWeight& weight_;
};

}  // namespace

Status EmitDynamic(Graph& graph, const Value& source, const FormGroup& group, const QuantizedWeight& weight) {
  for (const WeightReader& reader : group.readers) {
    RETURN_IF_ERROR(DynamicEmitter(graph, source, weight).Run(reader.node));
  }
  return OkStatus();
}

}  // namespace quant
