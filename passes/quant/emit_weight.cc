#include "passes/quant/emit_weight.h"

#include "libquant/ir/edit.h"

namespace quant {
namespace {

struct CodeRefs {
  ValueRef codes;
  ValueRef scales;
  ValueRef zero_points;  // none when the form has none
};

// New initializers beside the weight they stand for, so that each of its readers can see them.
CodeRefs AddCodes(GraphEdit& edit, const Value& source, const QuantizedWeight& weight) {
  CodeRefs refs;
  refs.codes = edit.AddConstant(source.name + ".codes", weight.codes, source.region);
  refs.scales = edit.AddConstant(source.name + ".scales", weight.scales, source.region);
  if (weight.zero_points) {
    refs.zero_points = edit.AddConstant(source.name + ".zero_points", *weight.zero_points, source.region);
  }
  return refs;
}

// DequantizeLinear of the codes, and a Cast when scales are of another type than the reader computes in.
ValueRef AddDequantize(GraphEdit& edit, const Value& source, const QuantizedWeight& weight, const WeightForm& form) {
  const CodeRefs refs = AddCodes(edit, source, weight);
  GraphEdit::NewNode node{source.name + ".dequantize", "DequantizeLinear", "", {refs.codes, refs.scales}, {}, {}};
  if (weight.zero_points) node.inputs.push_back(refs.zero_points);
  const bool kernel = form.kind == FormKind::kQdqKernel;
  if (form.spec.granularity == Granularity::kGroup) {
    node.attributes.Set("axis", int64_t{kernel ? 1 : 0});
    node.attributes.Set("block_size", form.spec.group_size);
  } else if (form.spec.granularity == Granularity::kChannel) {
    node.attributes.Set("axis", int64_t{kernel ? 0 : 1});
  }
  ValueRef out = edit.AddNode(std::move(node), form.spec.scale_dtype, ShapeOf(weight.codes.dims()));
  if (form.spec.scale_dtype != form.activation) {
    GraphEdit::NewNode cast{source.name + ".cast", "Cast", "", {out}, {}, {}};
    cast.attributes.Set("to", static_cast<int64_t>(form.activation));
    out = edit.AddNode(std::move(cast), form.activation, ShapeOf(weight.codes.dims()));
  }
  return out;
}

Status EmitQdqMatrix(Graph& graph, const WeightSite& site, const WeightForm& form, const QuantizedWeight& weight) {
  // Each reader gets initializers of its own: shared ones would keep ONNX Runtime from fusing any of them.
  for (const WeightReader& reader : site.readers) {
    GraphEdit edit(reader.node);
    edit.SetInput(reader.node, reader.input, AddDequantize(edit, graph.value(site.value), weight, form));
    RETURN_IF_ERROR(edit.ApplyTo(graph));
    // Codes are stored [K, N] whatever the constant's orientation was.
    Attributes& attributes = graph.node(reader.node).attributes;
    if (attributes.Int("transB", 0) != 0) attributes.Set("transB", int64_t{0});
  }
  return OkStatus();
}

Status EmitQdqKernel(Graph& graph, const WeightSite& site, const WeightForm& form, const QuantizedWeight& weight) {
  const Value source = graph.value(site.value);
  for (const WeightReader& reader : site.readers) {
    GraphEdit edit(reader.node);
    ValueRef kernel = AddDequantize(edit, source, weight, form);
    if (form.spec.granularity == Granularity::kGroup) {
      const Dims& dims = source.constant->dims();
      const ValueRef shape = edit.AddConstant(
          source.name + ".dims", Tensor::Of<int64_t>({static_cast<int64_t>(dims.size())}, dims), source.region);
      GraphEdit::NewNode reshape{source.name + ".reshape", "Reshape", "", {kernel, shape}, {}, {}};
      kernel = edit.AddNode(std::move(reshape), form.activation, ShapeOf(dims));
    }
    edit.SetInput(reader.node, reader.input, kernel);
    RETURN_IF_ERROR(edit.ApplyTo(graph));
  }
  return OkStatus();
}

// A scalar of the activation's type.
Tensor ScalarOf(DType dtype, float value) {
  return dtype == DType::kFloat16 ? Tensor::Scalar(float16(value)) : Tensor::Scalar(value);
}

class NBitsEmitter {
 public:
  NBitsEmitter(Graph& graph, const WeightSite& site, const WeightForm& form, const QuantizeOptions& options)
      : graph_(graph), source_(graph.value(site.value)), form_(form), options_(options) {}

  // Readers share one set of codes.
  Status Run(const WeightSite& site, const QuantizedWeight& weight) {
    GraphEdit constants(site.readers[0].node);
    CodeRefs made = AddCodes(constants, source_, weight);
    std::vector<ValueId> ids;
    RETURN_IF_ERROR(constants.ApplyTo(graph_, &ids));
    const auto existing = [&](ValueRef r) { return r.made >= 0 ? ValueRef::Of(ids[static_cast<size_t>(r.made)]) : r; };
    made = {existing(made.codes), existing(made.scales), existing(made.zero_points)};
    for (const WeightReader& reader : site.readers) RETURN_IF_ERROR(EmitReader(reader.node, made));
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
    if (node.op_type == "Gemm") {
      EmitGemm(edit, reader, node, refs);
    } else {
      edit.ReplaceNode(reader, NBits(node.name, ValueRef::Of(node.inputs[0]), refs));
    }
    return edit.ApplyTo(graph_);
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
  const Value source_;
  const WeightForm& form_;
  const QuantizeOptions& options_;
};

}  // namespace

Status EmitWeight(Graph& graph, const WeightSite& site, const WeightForm& form, const QuantizedWeight& weight,
                  const QuantizeOptions& options) {
  switch (form.kind) {
    case FormKind::kQdqMatrix:
      return EmitQdqMatrix(graph, site, form, weight);
    case FormKind::kQdqKernel:
      return EmitQdqKernel(graph, site, form, weight);
    case FormKind::kNBits:
      return NBitsEmitter(graph, site, form, options).Run(site, weight);
  }
  return BugError("a weight form without an emitter");
}

}  // namespace quant
