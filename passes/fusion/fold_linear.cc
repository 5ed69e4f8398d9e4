#include "passes/fusion/fold_linear.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "passes/match.h"

namespace quant {
namespace {

using Kind = LinearOp::Kind;

// A float that rounds to any narrower type as `v` itself would: truncated, its last bit set where that lost something.
float RoundedToOdd(double v) {
  const auto nearest = static_cast<float>(v);
  const double back = nearest;
  if (back == v || !std::isfinite(nearest)) return nearest;
  auto bits = std::bit_cast<uint32_t>(nearest);
  if (std::abs(back) > std::abs(v)) --bits;
  return std::bit_cast<float>(bits | 1U);
}

template <typename T>
T Rounded(double v) {
  if constexpr (sizeof(T) < sizeof(float)) return static_cast<T>(RoundedToOdd(v));
  return static_cast<T>(v);
}

// f(T{}) for the element type of `dtype`; false for types that are no floating-point numbers of 16 bits or more.
template <typename F>
bool WithFloats(DType dtype, F&& f) {
  switch (dtype) {
    case DType::kFloat:
      return f(float{}), true;
    case DType::kDouble:
      return f(double{}), true;
    case DType::kFloat16:
      return f(float16{}), true;
    case DType::kBfloat16:
      return f(bfloat16{}), true;
    default:
      return false;
  }
}

template <typename T>
bool PutRounded(double value, T& out) {
  out = Rounded<T>(value);
  return std::isfinite(static_cast<double>(out));
}

class Folder {
 public:
  Folder(const PassContext& context, const LinearOp& op, GraphEdit edit)
      : context_(context), graph_(context.graph()), op_(op), node_(graph_.node(op.id)), edit_(std::move(edit)) {}

  std::optional<GraphEdit> After(NodeId follower, const ChannelAffine& affine) {
    if (OnlyReader(graph_, OutputOf(node_, 0)) != follower) return Miss("what it gives is read by others too");
    if (graph_.node(follower).region != node_.region) return Miss("it lies outside of the body of what follows");
    const bool scales = affine.Scales(), shifts = affine.Shifts();
    if (scales && !TakeWeight()) return std::nullopt;
    if (scales) by_output_ = &affine.factor;
    if ((shifts || (scales && op_.bias != kNoValue)) && !TakeBias(affine)) return std::nullopt;
    for (size_t o = 0; o < bias_.size(); ++o) bias_[o] = bias_[o] * affine.factor[o] + affine.shift[o];
    return Finish(follower, ValueRef::Of(op_.x));
  }

  std::optional<GraphEdit> Before(NodeId before, ValueRef x, const ChannelAffine& affine) {
    if (OnlyReader(graph_, op_.x) != op_.id) {
      return context_.Miss("what {} gives is read by others too", graph_.NodeLabel(before));
    }
    const bool scales = affine.Scales(), shifts = affine.Shifts();
    if (op_.transposed_x) return Miss("its transA is set");
    if (shifts && op_.kind == Kind::kConvTranspose) return Miss("a shift before it is no bias: borders get less of it");
    if (shifts && op_.kind == Kind::kConv && !HasNoPads(node_)) {
      return Miss("a shift before it is no bias: it pads with zeros");
    }
    if (scales ? !TakeWeight() : !ReadWeight()) return std::nullopt;
    if (scales) by_input_ = &affine.factor;
    if (shifts) {
      if (!TakeBias(affine)) return std::nullopt;
      AddShift(affine.shift);
    }
    return Finish(op_.id, x);
  }

 private:
  const Tensor& constant() const { return *graph_.value(op_.weight).constant; }
  const Dims& dims() const { return constant().dims(); }
  std::nullopt_t Miss(std::string_view reason) const {
    return context_.Miss("{}: {}", graph_.NodeLabel(op_.id), reason);
  }

  bool ReadWeight() {
    auto owned = constant().Materialize();
    if (!owned.ok()) return Miss("its weight can't be read"), false;
    weight_ = *std::move(owned);
    return true;
  }
  bool TakeWeight() {
    if (!HasOneReader(graph_, op_.weight)) return Miss("its weight is read by others too"), false;
    return ReadWeight();
  }

  // What a shift of x adds to the bias.
  void AddShift(const std::vector<double>& shift) {
    const double alpha = op_.kind == Kind::kGemm ? node_.attributes.Float("alpha", 1) : 1;
    WithFloats(weight_.dtype(), [&](auto zero) {
      using T = decltype(zero);
      const T* w = weight_.data<T>().data();
      ForEachChannelPair(op_, dims(), [&](int64_t begin, int64_t end, size_t o, size_t i) {
        double sum = 0;
        for (int64_t k = begin; k < end; ++k) sum += static_cast<double>(w[k]);
        bias_[o] += alpha * shift[i] * sum;
      });
    });
  }

  std::optional<Tensor> ScaledWeight() const {
    Tensor out = Tensor::Allocate(weight_.dtype(), dims());
    bool finite = true;
    WithFloats(weight_.dtype(), [&](auto zero) {
      using T = decltype(zero);
      const T* from = weight_.data<T>().data();
      T* to = out.mutable_data<T>().data();
      ForEachChannelPair(op_, dims(), [&](int64_t begin, int64_t end, size_t o, size_t i) {
        const double factor = by_output_ != nullptr ? (*by_output_)[o] : (*by_input_)[i];
        for (int64_t k = begin; k < end; ++k) {
          finite = PutRounded(static_cast<double>(from[k]) * factor, to[k]) && finite;
        }
      });
    });
    return finite ? std::optional(out) : std::nullopt;
  }

  // The bias as a vector with beta in it, zeros when there is none.
  bool TakeBias(const ChannelAffine& affine) {
    bias_of_ = op_.bias != kNoValue ? op_.bias : affine.shift_value;
    if (op_.kind == Kind::kMatMul && !MayBecomeGemm()) return false;
    const auto count = static_cast<size_t>(op_.outputs);
    if (op_.bias == kNoValue) {
      bias_.assign(count, 0);
      return true;
    }
    const Tensor* given = ConstantOf(graph_, op_.bias);
    if (given == nullptr) return Miss("its bias is not constant"), false;
    const bool row = given->size() == 1 || (given->size() == op_.outputs && given->dims().back() == op_.outputs);
    if (!row || given->rank() > 2) return Miss("its bias is no row of its outputs"), false;
    const auto values = DoublesOf(graph_, op_.bias);
    if (!values) return Miss("its bias can't be read"), false;
    const double beta = op_.kind == Kind::kGemm ? node_.attributes.Float("beta", 1) : 1;
    for (size_t o = 0; o < count; ++o) bias_.push_back(beta * (*values)[values->size() == 1 ? 0 : o]);
    return true;
  }

  bool MayBecomeGemm() const {
    if (op_.rank != 2) return Miss("it takes no bias: its input is not known to be a matrix"), false;
    if (!context_.MayMake("", "Gemm")) return Miss("it takes no bias, and the target runs no Gemm"), false;
    if (constant().dtype() == DType::kBfloat16 && context_.opset() < 13) return Miss("Gemm takes no bfloat16"), false;
    return true;
  }

  std::optional<GraphEdit> Finish(NodeId replaced, ValueRef x) {
    GraphEdit::NewNode node = {.name_hint = "",
                               .op_type = node_.op_type,
                               .domain = node_.domain,
                               .inputs = {x, ValueRef::Of(op_.weight)},
                               .outputs = {},
                               .attributes = node_.attributes,
                               .name_of = op_.id};
    const DType dtype = constant().dtype();
    if (by_output_ != nullptr || by_input_ != nullptr) {
      auto weight = ScaledWeight();
      if (!weight) return Miss("its weight would not be finite");
      node.inputs[1] = PutConstant(graph_, edit_, op_.weight, *std::move(weight));
    }
    if (!bias_.empty()) {
      auto bias = RoundedTensor(dtype, {op_.outputs}, bias_);
      if (!bias) return Miss("its bias would not be finite");
      node.inputs.push_back(PutConstant(graph_, edit_, bias_of_, *std::move(bias)));
      node.attributes.Remove("beta");
      if (op_.kind == Kind::kMatMul) node.op_type = "Gemm";
    } else if (op_.bias != kNoValue) {
      node.inputs.push_back(ValueRef::Of(op_.bias));
    }
    edit_.ReplaceNode(replaced, std::move(node));
    return std::move(edit_);
  }

  const PassContext& context_;
  const Graph& graph_;
  const LinearOp& op_;
  const Node& node_;
  GraphEdit edit_;
  Tensor weight_;                                                        // as it is
  const std::vector<double>*by_output_ = nullptr, *by_input_ = nullptr;  // one of them, or the weight stays
  std::vector<double> bias_;                                             // the new one; empty: it stays
  ValueId bias_of_ = kNoValue;
};

}  // namespace

std::optional<GraphEdit> FoldAfter(const PassContext& context, const LinearOp& op, NodeId follower,
                                   const ChannelAffine& affine) {
  return Folder(context, op, GraphEdit(follower)).After(follower, affine);
}

std::optional<GraphEdit> FoldBefore(const PassContext& context, const LinearOp& op, NodeId before, ValueRef x,
                                    const ChannelAffine& affine, GraphEdit edit) {
  return Folder(context, op, std::move(edit)).Before(before, x, affine);
}

std::optional<GraphEdit> FoldElementwise(const PassContext& context, NodeId root,
                                         std::initializer_list<std::string_view> op_types) {
  const Graph& graph = context.graph();
  const auto among = [&](const Node& node) {
    return std::any_of(op_types.begin(), op_types.end(), [&](std::string_view type) { return IsOp(node, type); });
  };
  const Node& node = graph.node(root);
  if (among(node)) {
    const ValueId y = VariableOperand(graph, node);
    const auto op = LinearMaking(context, y);
    const auto affine = op ? AffineOf(context, root, y, AxisAfter(*op)) : std::nullopt;
    return affine ? FoldAfter(context, *op, root, *affine) : std::nullopt;
  }
  const NodeId before = ProducerOf(graph, InputOf(node, 0));
  if (before == kNoNode || !among(graph.node(before))) return std::nullopt;
  const ValueId x = VariableOperand(graph, graph.node(before));
  const auto op = x != kNoValue ? LinearAt(context, root) : std::nullopt;
  const auto affine = op ? AffineOf(context, before, x, AxisBefore(graph, *op, x)) : std::nullopt;
  return affine ? FoldBefore(context, *op, before, ValueRef::Of(x), *affine, GraphEdit(root)) : std::nullopt;
}

std::optional<Tensor> RoundedTensor(DType dtype, Dims dims, const std::vector<double>& values) {
  Tensor out = Tensor::Allocate(dtype, std::move(dims));
  bool finite = true;
  const bool known = WithFloats(dtype, [&](auto zero) {
    auto* data = out.mutable_data<decltype(zero)>().data();
    for (size_t i = 0; i < values.size(); ++i) finite = PutRounded(values[i], data[i]) && finite;
  });
  return known && finite ? std::optional(out) : std::nullopt;
}

ValueRef PutConstant(const Graph& graph, GraphEdit& edit, ValueId old, Tensor tensor) {
  const Value& v = graph.value(old);
  const bool alone = HasOneReader(graph, old) && v.dtype == tensor.dtype();
  const ValueRef made = edit.AddConstant(v.name, std::move(tensor), alone ? v.region : -1);
  if (alone) edit.Replace(old, made);
  return made;
}

}  // namespace quant
