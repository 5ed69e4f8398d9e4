// A node between DequantizeLinear and QuantizeLinear becomes the operator on codes.
//
//   xq ─ DequantizeLinear ─ Conv ─ QuantizeLinear ─ yq      =>   xq ─ QLinearConv ─ yq
//   xq ─ DequantizeLinear ─ MaxPool ─ QuantizeLinear ─ yq   =>   xq ─ MaxPool ─ yq        where both have the same
//   parameters xq ─ DequantizeLinear ─ MatMul ─ y                      =>   xq ─ MatMulIntegerToFloat ─ y
//
// Conv and MatMul become operators of ONNX; Gemm, Add, Mul, Concat, AveragePool, GlobalAveragePool, Sigmoid and
// LeakyRelu those of com.microsoft, on targets that have them. Activations have one constant scale and zero point of 8
// bits, weights one for each output channel at most; a Conv's or Gemm's bias is int32 at the product of both scales.
// Nobody else reads what lies between. What only moves or picks codes keeps its operator.
#include <algorithm>
#include <array>
#include <cmath>

#include "passes/match.h"
#include "passes/pass.h"

namespace quant {
namespace {

constexpr std::string_view kMicrosoft = "com.microsoft";

// What a DequantizeLinear reads.
struct Codes {
  ValueId codes = kNoValue, scale = kNoValue, zero = kNoValue;
  int64_t axis = 1;
  bool by_channel = false;
  DType dtype = DType::kUndefined;
};

bool IsByte(DType dtype) { return dtype == DType::kUint8 || dtype == DType::kInt8; }

// The parameters that a quantizer node reads; null for codes of another kind.
std::optional<Codes> ParametersOf(const Graph& graph, const Node& node, DType dtype) {
  Codes out;
  out.scale = InputOf(node, 1);
  out.zero = InputOf(node, 2);
  const Tensor* scale = ConstantOf(graph, out.scale);
  const bool known = out.zero == kNoValue || ConstantOf(graph, out.zero) != nullptr;
  if (scale == nullptr || scale->dtype() != DType::kFloat || scale->rank() > 1 || !known) return std::nullopt;
  if (HasReferences(node) || node.attributes.Int("block_size", 0) != 0) return std::nullopt;
  out.by_channel = scale->rank() == 1 && scale->size() > 1;
  out.axis = node.attributes.Int("axis", 1);
  out.dtype = dtype;
  return out;
}

std::optional<Codes> DequantizedBy(const Graph& graph, ValueId value) {
  const Node* node = MadeBy(graph, value, "DequantizeLinear");
  if (node == nullptr) return std::nullopt;
  auto out = ParametersOf(graph, *node, graph.value(node->inputs[0]).dtype);
  if (out) out->codes = node->inputs[0];
  return out;
}

// The same for an activation: one scale, 8 bits.
std::optional<Codes> ActivationOf(const Graph& graph, ValueId value) {
  auto out = DequantizedBy(graph, value);
  return out && !out->by_channel && IsByte(out->dtype) ? out : std::nullopt;
}

std::optional<Codes> WeightOf(const Graph& graph, ValueId value, int64_t axis) {
  auto out = DequantizedBy(graph, value);
  if (!out || !IsByte(out->dtype) || ConstantOf(graph, out->codes) == nullptr) return std::nullopt;
  return !out->by_channel || out->axis == axis ? out : std::nullopt;
}

// Elements of small constants as doubles; nullopt for what has no numbers.
std::optional<std::vector<double>> NumbersOf(const Graph& graph, ValueId value) {
  const Tensor* constant = ConstantOf(graph, value);
  if (constant == nullptr) return std::nullopt;
  const StatusOr<Tensor> made = constant->Materialize();
  if (!made.ok()) return std::nullopt;
  std::vector<double> out;
  const auto copy = [&](const auto values) { out.assign(values.begin(), values.end()); };
  switch (made->dtype()) {
    case DType::kFloat:
      copy(made->data<float>());
      return out;
    case DType::kUint8:
      copy(made->data<uint8_t>());
      return out;
    case DType::kInt8:
      copy(made->data<int8_t>());
      return out;
    default:
      return std::nullopt;
  }
}

bool SameParameters(const Graph& graph, const Codes& a, const Codes& b) {
  if (a.dtype != b.dtype || a.by_channel || b.by_channel || (a.zero == kNoValue) != (b.zero == kNoValue)) return false;
  const bool same_scale = a.scale == b.scale || NumbersOf(graph, a.scale) == NumbersOf(graph, b.scale);
  return same_scale && (a.zero == b.zero || NumbersOf(graph, a.zero) == NumbersOf(graph, b.zero));
}

// The bias' codes when their scale is the product of the others: as sums of products have it.
std::optional<ValueId> BiasOf(const Graph& graph, ValueId value, const Codes& x, const Codes& w) {
  if (value == kNoValue) return kNoValue;
  const auto bias = DequantizedBy(graph, value);
  if (!bias || bias->dtype != DType::kInt32 || bias->zero != kNoValue) return std::nullopt;
  const auto xs = NumbersOf(graph, x.scale), ws = NumbersOf(graph, w.scale), bs = NumbersOf(graph, bias->scale);
  if (!xs || !ws || !bs || ws->size() != bs->size()) return std::nullopt;
  for (size_t i = 0; i < ws->size(); ++i) {
    if (static_cast<double>(static_cast<float>((*xs)[0] * (*ws)[i])) != (*bs)[i]) return std::nullopt;
  }
  return bias->codes;
}

class Maker {
 public:
  Maker(const PassContext& context, NodeId root)
      : context_(context), graph_(context.graph()), root_(root), edit_(root) {}

  // The root quantizes what `inner` makes.
  std::optional<GraphEdit> Quantized(NodeId inner) {
    const Node& quantize = graph_.node(root_);
    const Node& node = graph_.node(inner);
    y_ = ParametersOf(graph_, quantize, graph_.value(quantize.outputs[0]).dtype);
    if (!y_ || y_->by_channel || !IsByte(y_->dtype)) return std::nullopt;
    name_of_ = inner;
    if (IsOp(node, "Conv")) return Conv(node);
    if (IsOp(node, "MatMul")) return MatMul(node);
    if (IsOp(node, "Gemm")) return Gemm(node);
    if (IsOp(node, "Add") || IsOp(node, "Mul")) return Binary(node);
    if (IsOp(node, "Concat")) return Concat(node);
    for (const char* op : {"AveragePool", "GlobalAveragePool", "Sigmoid", "LeakyRelu"}) {
      if (IsOp(node, op)) return Unary(node);
    }
    return Move(node);
  }

  // The root multiplies codes and makes floats.
  std::optional<GraphEdit> Float() {
    const Node& node = graph_.node(root_);
    return IsOp(node, "MatMul") ? MatMul(node) : Gemm(node);
  }

 private:
  ValueRef Zero(const Codes& codes) {
    if (codes.zero != kNoValue) return ValueRef::Of(codes.zero);
    // QGemm wants as many as there are scales.
    const Dims dims = ConstantOf(graph_, codes.scale)->dims();
    Tensor zeros = Tensor::Allocate(codes.dtype, dims);
    std::ranges::fill(zeros.mutable_bytes(), std::byte{0});
    return edit_.AddConstant("zero_point", std::move(zeros));
  }
  void Put(GraphEdit::NewNode& node, const Codes& codes) {
    node.inputs.insert(node.inputs.end(), {ValueRef::Of(codes.codes), ValueRef::Of(codes.scale), Zero(codes)});
  }
  void PutOutput(GraphEdit::NewNode& node) {
    if (y_) node.inputs.insert(node.inputs.end(), {ValueRef::Of(y_->scale), Zero(*y_)});
  }
  GraphEdit::NewNode New(std::string_view domain, std::string_view op) const {
    GraphEdit::NewNode node = NewNodeOf(domain, op, {});
    node.name_of = name_of_;
    return node;
  }
  GraphEdit Done(GraphEdit::NewNode node) {
    edit_.ReplaceNode(root_, std::move(node));
    return std::move(edit_);
  }

  // Kernels multiply uint8 by both types of codes, int8 by int8 alone.
  bool GoTogether(const Codes& a, const Codes& b) const {
    if (a.dtype != DType::kInt8 || b.dtype == DType::kInt8) return true;
    context_.Miss("there is no kernel for int8 by uint8");
    return false;
  }

  std::optional<GraphEdit> Conv(const Node& node) {
    const auto x = ActivationOf(graph_, node.inputs[0]);
    const auto w = WeightOf(graph_, node.inputs[1], 0);
    if (!x || !w || !context_.MayMake("", "QLinearConv")) return std::nullopt;
    if (!GoTogether(*x, *w)) return std::nullopt;
    const auto bias = BiasOf(graph_, InputOf(node, 2), *x, *w);
    if (!bias) return context_.Miss("its bias is no int32 at the product of the scales");
    auto out = New("", "QLinearConv");
    Put(out, *x);
    Put(out, *w);
    PutOutput(out);
    if (*bias != kNoValue) out.inputs.push_back(ValueRef::Of(*bias));
    out.attributes = node.attributes;
    return Done(std::move(out));
  }

  std::optional<GraphEdit> MatMul(const Node& node) {
    const auto a = ActivationOf(graph_, node.inputs[0]);
    const auto rank = RankOf(graph_, node.inputs[1]);
    if (!a || !rank) return std::nullopt;
    auto b = WeightOf(graph_, node.inputs[1], *rank - 1);
    if (!b) b = ActivationOf(graph_, node.inputs[1]);
    if (!b || (b->by_channel && *rank != 2) || !GoTogether(*a, *b)) return std::nullopt;
    if (y_) {
      if (!context_.MayMake("", "QLinearMatMul")) return std::nullopt;
      auto out = New("", "QLinearMatMul");
      Put(out, *a);
      Put(out, *b);
      PutOutput(out);
      return Done(std::move(out));
    }
    if (!context_.MayMake(kMicrosoft, "MatMulIntegerToFloat")) return std::nullopt;
    auto out = New(kMicrosoft, "MatMulIntegerToFloat");
    out.inputs = {ValueRef::Of(a->codes),
                  ValueRef::Of(b->codes),
                  ValueRef::Of(a->scale),
                  ValueRef::Of(b->scale),
                  Zero(*a),
                  Zero(*b)};
    return Done(std::move(out));
  }

  std::optional<GraphEdit> Gemm(const Node& node) {
    const auto a = ActivationOf(graph_, node.inputs[0]);
    const bool turned = node.attributes.Int("transB", 0) != 0;
    const auto b = WeightOf(graph_, node.inputs[1], turned ? 0 : 1);
    if (!a || !b || !context_.MayMake(kMicrosoft, "QGemm")) return std::nullopt;
    if (!GoTogether(*a, *b)) return std::nullopt;
    if (node.attributes.Float("alpha", 1) != 1 || node.attributes.Float("beta", 1) != 1 || HasReferences(node)) {
      return context_.Miss("alpha or beta is not 1");
    }
    const auto bias = BiasOf(graph_, InputOf(node, 2), *a, *b);
    if (!bias) return context_.Miss("its bias is no int32 at the product of the scales");
    auto out = New(kMicrosoft, "QGemm");
    Put(out, *a);
    Put(out, *b);
    if (*bias != kNoValue || y_) out.inputs.push_back(*bias == kNoValue ? ValueRef::None() : ValueRef::Of(*bias));
    PutOutput(out);
    for (const char* name : {"transA", "transB"}) {
      if (const int64_t value = node.attributes.Int(name, 0)) out.attributes.Set(name, value);
    }
    return Done(std::move(out));
  }

  std::optional<GraphEdit> Binary(const Node& node) {
    const auto a = ActivationOf(graph_, node.inputs[0]), b = ActivationOf(graph_, node.inputs[1]);
    const std::string op = "QLinear" + node.op_type;
    if (!a || !b || a->dtype != y_->dtype || b->dtype != y_->dtype || !context_.MayMake(kMicrosoft, op))
      return std::nullopt;
    auto out = New(kMicrosoft, op);
    Put(out, *a);
    Put(out, *b);
    PutOutput(out);
    return Done(std::move(out));
  }

  std::optional<GraphEdit> Concat(const Node& node) {
    if (node.attributes.Find("axis") == nullptr) return std::nullopt;
    if (auto moved = Move(node)) return moved;
    if (!context_.MayMake(kMicrosoft, "QLinearConcat")) return std::nullopt;
    auto out = New(kMicrosoft, "QLinearConcat");
    PutOutput(out);
    for (const ValueId v : node.inputs) {
      const auto x = ActivationOf(graph_, v);
      if (!x || x->dtype != y_->dtype) return std::nullopt;
      Put(out, *x);
    }
    out.attributes = node.attributes;
    return Done(std::move(out));
  }

  std::optional<GraphEdit> Unary(const Node& node) {
    const auto x = ActivationOf(graph_, node.inputs[0]);
    const std::string op = "QLinear" + node.op_type;
    if (!x || x->dtype != y_->dtype || !context_.MayMake(kMicrosoft, op) || node.outputs.size() != 1)
      return std::nullopt;
    if (node.attributes.Has("dilations")) return context_.Miss("com.microsoft has no dilations here");
    auto out = New(kMicrosoft, op);
    Put(out, *x);
    PutOutput(out);
    out.attributes = node.attributes;
    return Done(std::move(out));
  }

  // The operator itself, on codes: its first input, or all of a Concat's.
  std::optional<GraphEdit> Move(const Node& node) {
    constexpr std::array<std::string_view, 9> kMoves = {
        "Reshape", "Transpose", "Flatten", "Squeeze", "Unsqueeze", "MaxPool", "DepthToSpace", "SpaceToDepth", "Concat"};
    if (!node.domain.empty() || std::find(kMoves.begin(), kMoves.end(), node.op_type) == kMoves.end())
      return std::nullopt;
    constexpr int64_t kOpsetOfBytes = 12;  // MaxPool
    if (node.op_type == "MaxPool" && (context_.opset() < kOpsetOfBytes || node.outputs.size() != 1))
      return std::nullopt;
    const size_t moved = node.op_type == "Concat" ? node.inputs.size() : 1;
    auto out = New("", node.op_type);
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      if (i >= moved) {
        out.inputs.push_back(ValueRef::Of(node.inputs[i]));
        continue;
      }
      const auto x = ActivationOf(graph_, node.inputs[i]);
      if (!x || !SameParameters(graph_, *x, *y_)) return std::nullopt;
      out.inputs.push_back(ValueRef::Of(x->codes));
    }
    out.attributes = node.attributes;
    return Done(std::move(out));
  }

  const PassContext& context_;
  const Graph& graph_;
  NodeId root_;
  NodeId name_of_ = kNoNode;
  std::optional<Codes> y_;  // none: the output is float
  GraphEdit edit_;
};

std::optional<GraphEdit> FuseIntegerOperators(const PassContext& context, NodeId root) {
  const Graph& graph = context.graph();
  const Node& node = graph.node(root);
  if (IsOp(node, "QuantizeLinear")) {
    const ValueId v = InputOf(node, 0);
    const NodeId inner = ProducerOf(graph, v);
    if (inner == kNoNode || !HasOneReader(graph, v) || graph.node(inner).region != node.region) return std::nullopt;
    if (HasReferences(graph.node(inner))) return std::nullopt;
    return Maker(context, root).Quantized(inner);
  }
  // A product whose only reader quantizes it waits for that one.
  const NodeId reader = OnlyReader(graph, OutputOf(node, 0));
  if (reader != kNoNode && IsOp(graph.node(reader), "QuantizeLinear")) return std::nullopt;
  return Maker(context, root).Float();
}

}  // namespace

const Pass& FuseIntegerOperatorsPass() {
  static const Pass pass = {
      "fuse-integer-operators",
      "Nodes between DequantizeLinear and QuantizeLinear become QLinearConv, QLinearMatMul and their like",
      {"QuantizeLinear", "MatMul", "Gemm"},
      FuseIntegerOperators};
  return pass;
}

}  // namespace quant
