#include "passes/quant/emit_weight.h"

#include <algorithm>

#include "libquant/ir/edit.h"
#include "passes/quant/emit_dynamic.h"

namespace quant {
namespace {

struct CodeRefs {
  ValueRef codes;
  ValueRef scales;
  ValueRef zero_points;  // none when the form has none
};

// New initializers in `region`, or -1 for that of the edit.
CodeRefs AddCodes(GraphEdit& edit, const std::string& name, const QuantizedWeight& weight, RegionId region) {
  CodeRefs refs;
  refs.codes = edit.AddConstant(name + ".codes", weight.codes, region);
  refs.scales = edit.AddConstant(name + ".scales", weight.scales, region);
  if (weight.zero_points) refs.zero_points = edit.AddConstant(name + ".zero_points", *weight.zero_points, region);
  return refs;
}

// The same beside the weight they stand for, so that each of its readers can see them, as values of the graph.
StatusOr<CodeRefs> AddSharedCodes(Graph& graph, const Value& source, const FormGroup& group,
                                  const QuantizedWeight& weight) {
  GraphEdit constants(group.readers[0].node);
  const CodeRefs made = AddCodes(constants, source.name, weight, source.region);
  std::vector<ValueId> ids;
  RETURN_IF_ERROR(constants.ApplyTo(graph, &ids));
  const auto existing = [&](ValueRef r) { return r.made >= 0 ? ValueRef::Of(ids[static_cast<size_t>(r.made)]) : r; };
  return CodeRefs{existing(made.codes), existing(made.scales), existing(made.zero_points)};
}

ValueRef AddCast(GraphEdit& edit, std::string name, ValueRef value, DType to,
                 std::optional<Shape> shape = std::nullopt) {
  GraphEdit::NewNode cast{std::move(name), "Cast", "", {value}, {}, {}};
  cast.attributes.Set("to", static_cast<int64_t>(to));
  return edit.AddNode(std::move(cast), to, std::move(shape));
}

// DequantizeLinear of the codes, with what brings them into the reader's type and dims. Codes and node are in one
// region: ONNX Runtime 1.30 refuses to load a body's DequantizeLinear of 4-bit codes that lie outside.
ValueRef AddDequantize(GraphEdit& edit, const Value& source, const QuantizedWeight& weight, const WeightForm& form) {
  const CodeRefs refs = AddCodes(edit, source.name, weight, -1);
  GraphEdit::NewNode node{source.name + ".dequantize", "DequantizeLinear", "", {refs.codes, refs.scales}, {}, {}};
  if (weight.zero_points) node.inputs.push_back(refs.zero_points);
  if (form.spec.granularity != Granularity::kTensor) node.attributes.Set("axis", form.axis);
  if (form.block > 0) node.attributes.Set("block_size", form.block);
  const Shape shape = ShapeOf(weight.codes.dims());
  ValueRef out = edit.AddNode(std::move(node), form.spec.scale_dtype, shape);
  if (form.spec.scale_dtype != form.activation) out = AddCast(edit, source.name + ".cast", out, form.activation, shape);
  if (form.reshaped.empty()) return out;
  const auto rank = static_cast<int64_t>(form.reshaped.size());
  const ValueRef dims = edit.AddConstant(source.name + ".dims", Tensor::Of<int64_t>({rank}, form.reshaped));
  GraphEdit::NewNode reshape{source.name + ".reshape", "Reshape", "", {out, dims}, {}, {}};
  return edit.AddNode(std::move(reshape), form.activation, ShapeOf(form.reshaped));
}

// The node of `region` that is, or whose bodies hold, the first reader.
NodeId FirstIn(const Graph& graph, RegionId region, const std::vector<WeightReader>& readers) {
  NodeId node = readers[0].node;
  while (graph.node(node).region != region) node = graph.region(graph.node(node).region).owner;
  return node;
}

// MatMul(x, W) + C with C of [1, N] becomes the same with [N]: of the first ONNX Runtime makes a Gemm that it then does
// not fuse with the DequantizeLinear.
Status FlattenBias(Graph& graph, NodeId reader) {
  const Node& matmul = graph.node(reader);
  if (matmul.op_type != "MatMul") return OkStatus();
  const Value& y = graph.value(matmul.outputs[0]);
  const auto& x = graph.value(matmul.inputs[0]).shape;
  if (y.uses.size() != 1 || y.uses[0].node == kNoNode || !x) return OkStatus();
  const NodeId add = y.uses[0].node;
  const int32_t other = 1 - y.uses[0].index;
  if (graph.node(add).op_type != "Add" || graph.node(add).inputs[static_cast<size_t>(other)] == matmul.outputs[0]) {
    return OkStatus();
  }
  const Value& bias = graph.value(graph.node(add).inputs[static_cast<size_t>(other)]);
  if (!bias.constant || bias.constant->rank() < 2 || bias.constant->rank() > static_cast<int64_t>(x->size())) {
    return OkStatus();
  }
  if (bias.constant->size() != bias.constant->dims().back()) return OkStatus();
  GraphEdit edit(add);
  edit.SetInput(add, other, edit.AddConstant(bias.name + ".flat", bias.constant->Reshaped({bias.constant->size()})));
  return edit.ApplyTo(graph);
}

Status EmitDequantize(Graph& graph, const Value& source, const FormGroup& group, const QuantizedWeight& weight) {
  const auto read_by = [&](const std::vector<WeightReader>& readers, NodeId anchor) -> Status {
    GraphEdit edit(anchor);
    const ValueRef value = AddDequantize(edit, source, weight, group.form);
    for (const WeightReader& reader : readers) edit.SetInput(reader.node, reader.input, value);
    return edit.ApplyTo(graph);
  };
  if (!group.form.own_codes) return read_by(group.readers, FirstIn(graph, source.region, group.readers));
  // Each reader gets initializers of its own: shared ones would keep ONNX Runtime from fusing any of them.
  for (const WeightReader& reader : group.readers) {
    RETURN_IF_ERROR(read_by({reader}, reader.node));
    // Codes are stored [K, N] whatever the constant's orientation was.
    Attributes& attributes = graph.node(reader.node).attributes;
    if (attributes.Int("transB", 0) != 0) attributes.Set("transB", int64_t{0});
    RETURN_IF_ERROR(FlattenBias(graph, reader.node));
  }
  return OkStatus();
}

// Rows are looked up as codes, with their scales and zero points, and multiplied out in plain operators:
//   (Cast(Gather(codes, i)) - Cast(Gather(zero_points, i))) * Gather(scales, i)
// A DequantizeLinear here would be taken for a quantized activation's by ONNX Runtime (1.30): it copies it to every
// reader, leaves a MatMul behind it unfused or wrongly fused, and was slower.
class RowsEmitter {
 public:
  RowsEmitter(Graph& graph, const Value& source, const FormGroup& group)
      : graph_(graph), source_(source), group_(group), form_(group.form) {}

  Status Run(QuantizedWeight weight) {
    const int64_t rows = form_.view.channels;
    if (by_row()) {
      weight.scales = weight.scales.Reshaped({rows, 1});
      if (weight.zero_points) weight.zero_points = weight.zero_points->Reshaped({rows, 1});
    }
    ASSIGN_OR_RETURN(const CodeRefs refs, AddSharedCodes(graph_, source_, group_, weight));
    for (const WeightReader& reader : group_.readers) {
      GraphEdit edit(reader.node);
      Emit(edit, reader.node, refs, weight);
      RETURN_IF_ERROR(edit.ApplyTo(graph_));
    }
    return OkStatus();
  }

 private:
  bool by_row() const { return form_.spec.granularity == Granularity::kChannel; }

  void Emit(GraphEdit& edit, NodeId reader, const CodeRefs& refs, const QuantizedWeight& weight) const {
    const Node& node = graph_.node(reader);
    const std::string& base = source_.name;
    const DType codes_type = weight.codes.dtype(), scale_type = form_.spec.scale_dtype;
    const auto gather = [&](ValueRef table, DType dtype, const char* what) {
      GraphEdit::NewNode lookup{base + "." + what, "Gather", "", {table, ValueRef::Of(node.inputs[1])}, {}, {}};
      return edit.AddNode(std::move(lookup), dtype, std::nullopt);
    };
    ValueRef value = gather(refs.codes, codes_type, "gather");
    value = AddCast(edit, base + ".cast", value, scale_type);
    ValueRef scales = refs.scales, zero_points = refs.zero_points;
    if (by_row()) scales = gather(scales, scale_type, "gather_scales");
    if (weight.zero_points) {
      if (by_row()) zero_points = gather(zero_points, codes_type, "gather_zero_points");
      zero_points = AddCast(edit, base + ".cast_zero_points", zero_points, scale_type);
      GraphEdit::NewNode difference{base + ".difference", "Sub", "", {value, zero_points}, {}, {}};
      value = edit.AddNode(std::move(difference), scale_type, std::nullopt);
    }
    GraphEdit::NewNode product{node.name, "Mul", "", {value, scales}, {}, {}};
    if (scale_type == form_.activation) return edit.ReplaceNode(reader, std::move(product));
    product.name_hint = base + ".product";
    value = edit.AddNode(std::move(product), scale_type, std::nullopt);
    GraphEdit::NewNode cast{node.name, "Cast", "", {value}, {}, {}};
    cast.attributes.Set("to", static_cast<int64_t>(form_.activation));
    edit.ReplaceNode(reader, std::move(cast));
  }

  Graph& graph_;
  const Value& source_;
  const FormGroup& group_;
  const WeightForm& form_;
};

// A scalar of the activation's type.
Tensor ScalarOf(DType dtype, float value) {
  return dtype == DType::kFloat16 ? Tensor::Scalar(float16(value)) : Tensor::Scalar(value);
}

class NBitsEmitter {
 public:
  NBitsEmitter(Graph& graph, const Value& source, const FormGroup& group, const QuantizeOptions& options)
      : graph_(graph), source_(source), group_(group), form_(group.form), options_(options) {}

  // Readers share one set of codes.
  Status Run(QuantizedWeight weight) {
    const bool looked_up = std::any_of(group_.readers.begin(), group_.readers.end(),
                                       [&](const WeightReader& r) { return graph_.node(r.node).op_type == "Gather"; });
    const bool multiplied = std::any_of(group_.readers.begin(), group_.readers.end(),
                                        [&](const WeightReader& r) { return graph_.node(r.node).op_type != "Gather"; });
    // A table is a matrix of packed rows; MatMulNBits wants them block by block.
    if (looked_up && !multiplied && form_.layout == CodeLayout::kNBits) {
      weight.codes = weight.codes.Reshaped({form_.view.channels, weight.codes.size() / form_.view.channels});
    }
    table_is_blocks_ = looked_up && multiplied;
    ASSIGN_OR_RETURN(const CodeRefs made, AddSharedCodes(graph_, source_, group_, weight));
    for (const WeightReader& reader : group_.readers) RETURN_IF_ERROR(EmitReader(reader.node, made));
    return OkStatus();
  }

 private:
  GraphEdit::NewNode NBits(const std::string& name, ValueRef activation, const CodeRefs& refs) const {
    GraphEdit::NewNode node{name, "MatMulNBits", "com.microsoft", {activation, refs.codes, refs.scales}, {}, {}};
    if (refs.zero_points.id != kNoValue) node.inputs.push_back(refs.zero_points);
    node.attributes.Set("K", form_.view.reduction);
    node.attributes.Set("N", form_.view.channels);
    node.attributes.Set("bits", int64_t{form_.spec.format->bits});
    node.attributes.Set("block_size", form_.spec.group_size);
    node.attributes.Set("accuracy_level", options_.accuracy_level);
    return node;
  }

  Status EmitReader(NodeId reader, const CodeRefs& refs) {
    const Node node = graph_.node(reader);
    GraphEdit edit(reader);
    if (node.op_type == "Gather") {
      EmitGather(edit, reader, node, refs);
    } else if (node.op_type == "Gemm") {
      EmitGemm(edit, reader, node, refs);
    } else {
      edit.ReplaceNode(reader, NBits(node.name, ValueRef::Of(node.inputs[0]), refs));
    }
    return edit.ApplyTo(graph_);
  }

  void EmitGather(GraphEdit& edit, NodeId reader, const Node& node, const CodeRefs& refs) const {
    ValueRef table = refs.codes;
    if (table_is_blocks_) {
      const std::vector<int64_t> dims = {form_.view.channels, -1};
      const ValueRef shape = edit.AddConstant(source_.name + ".rows", Tensor::Of<int64_t>({2}, dims), source_.region);
      GraphEdit::NewNode reshape{source_.name + ".table", "Reshape", "", {table, shape}, {}, {}};
      table = edit.AddNode(std::move(reshape), DType::kUint8, std::nullopt);
    }
    GraphEdit::NewNode lookup{
        node.name, "GatherBlockQuantized", "com.microsoft", {table, ValueRef::Of(node.inputs[1]), refs.scales}, {}, {}};
    if (refs.zero_points.id != kNoValue) lookup.inputs.push_back(refs.zero_points);
    lookup.attributes.Set("gather_axis", int64_t{0});
    lookup.attributes.Set("quantize_axis", int64_t{1});
    lookup.attributes.Set("block_size", form_.spec.group_size);
    lookup.attributes.Set("bits", int64_t{form_.spec.format->bits});
    edit.ReplaceNode(reader, std::move(lookup));
  }

  // alpha * A' * W + beta * C; a step that multiplies by one or adds nothing is left out.
  void EmitGemm(GraphEdit& edit, NodeId reader, const Node& node, const CodeRefs& refs) {
    const DType dtype = form_.activation;
    const float alpha = node.attributes.Float("alpha", 1);
    const float beta = node.attributes.Float("beta", 1);
    const ValueId c = node.inputs.size() > 2 && beta != 0 ? node.inputs[2] : kNoValue;
    const std::string& base = source_.name;
    ValueRef a = ValueRef::Of(node.inputs[0]);
    if (node.attributes.Int("transA", 0) != 0) {
      GraphEdit::NewNode transpose{base + ".transpose_a", "Transpose", "", {a}, {}, {}};
      transpose.attributes.Set("perm", std::vector<int64_t>{1, 0});
      a = edit.AddNode(std::move(transpose), dtype, std::nullopt);
    }
    GraphEdit::NewNode matmul = NBits(node.name, a, refs);
    const bool bias = c != kNoValue && alpha == 1 && beta == 1 && IsBias(c);
    if (bias) {
      matmul.inputs.resize(5, ValueRef::None());  // zero points and g_idx may be left out
      matmul.inputs.push_back(ValueRef::Of(c));
    }
    const bool scaled = alpha != 1;
    const bool added = c != kNoValue && !bias;
    if (!scaled && !added) return edit.ReplaceNode(reader, std::move(matmul));

    matmul.name_hint = base + ".matmul";
    ValueRef y = edit.AddNode(std::move(matmul), dtype, std::nullopt);
    const auto times = [&](ValueRef x, float factor, const std::string& name) {
      const ValueRef by = edit.AddConstant(base + "." + name, ScalarOf(dtype, factor));
      return GraphEdit::NewNode{base + ".times_" + name, "Mul", "", {x, by}, {}, {}};
    };
    if (!added) return edit.ReplaceNode(reader, times(y, alpha, "alpha"));
    if (scaled) y = edit.AddNode(times(y, alpha, "alpha"), dtype, std::nullopt);
    ValueRef shift = ValueRef::Of(c);
    if (beta != 1) shift = edit.AddNode(times(shift, beta, "beta"), dtype, std::nullopt);
    edit.ReplaceNode(reader, GraphEdit::NewNode{node.name, "Add", "", {y, shift}, {}, {}});
  }

  // MatMulNBits adds a vector of N entries.
  bool IsBias(ValueId c) const {
    const auto& shape = graph_.value(c).shape;
    return shape && shape->size() == 1 && (*shape)[0].value == form_.view.channels;
  }

  Graph& graph_;
  const Value& source_;
  const FormGroup& group_;
  const WeightForm& form_;
  const QuantizeOptions& options_;
  bool table_is_blocks_ = false;  // the table's codes lie as MatMulNBits wants them
};

}  // namespace

Status EmitWeight(Graph& graph, ValueId weight, const FormGroup& group, const QuantizedWeight& quantized,
                  const QuantizeOptions& options) {
  const Value source = graph.value(weight);
  switch (group.form.kind) {
    case FormKind::kDequantize:
      return EmitDequantize(graph, source, group, quantized);
    case FormKind::kGatherRows:
      return RowsEmitter(graph, source, group).Run(quantized);
    case FormKind::kDynamic:
      return EmitDynamic(graph, source, group, quantized);
    case FormKind::kNBits:
      return NBitsEmitter(graph, source, group, options).Run(quantized);
  }
  return BugError("a weight form without an emitter");
}

}  // namespace quant
