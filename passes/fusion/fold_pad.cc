// A Pad of spatial axes becomes the pads of the operator that reads it.
//
//   x ─ Pad(0) ─ Conv(pads) ─ z                =>      x ─ Conv(pads + Pad's) ─ z
//   x ─ Pad(0) ─ AveragePool(pads) ─ z         =>      x ─ AveragePool(pads + Pad's, count_include_pad = 1) ─ z
//   x ─ Pad(-infinity) ─ MaxPool(pads) ─ z     =>      x ─ MaxPool(pads + Pad's) ─ z
//
// The Pad's mode is constant, none of its numbers is negative, batch and channels are not padded, and only this
// operator reads it. The operator's own pads are numbers (auto_pad NOTSET). An AveragePool counts its own padding or
// has none. Of pools, none has a ceil_mode or dilations, no pad is as large as the window, and nobody wants indices. A
// MaxPool of what can't be negative takes a Pad with zeros too.
#include <algorithm>
#include <limits>

#include "passes/fusion/linear_op.h"
#include "passes/match.h"

namespace quant {
namespace {

// What a Pad adds to each spatial axis, all begins and then all ends, and the number it adds.
struct Padding {
  std::vector<int64_t> pads;
  double value = 0;
};

std::optional<double> PadValue(const PassContext& context, const Node& pad) {
  if (context.opset() < 11) return double{pad.attributes.Float("value", 0)};
  return InputOf(pad, 2) == kNoValue ? 0.0 : ScalarOf(context.graph(), pad.inputs[2]);
}

// Pads of all axes, from those of the axes that an opset 18 Pad names.
std::optional<std::vector<int64_t>> AllPads(const PassContext& context, const Node& pad) {
  const Graph& graph = context.graph();
  auto given = IntsOf(graph, pad, "pads", 1);
  if (!given || InputOf(pad, 3) == kNoValue) return given;
  const auto axes = IntsOf(graph, pad.inputs[3]);
  const auto rank = RankOf(graph, InputOf(pad, 0));
  if (!axes || !rank || given->size() != 2 * axes->size()) return std::nullopt;
  std::vector<int64_t> all(static_cast<size_t>(2 * *rank), 0);
  for (size_t i = 0; i < axes->size(); ++i) {
    const int64_t axis = (*axes)[i] < 0 ? (*axes)[i] + *rank : (*axes)[i];
    if (axis < 0 || axis >= *rank) return std::nullopt;
    all[static_cast<size_t>(axis)] += (*given)[i];
    all[static_cast<size_t>(axis + *rank)] += (*given)[i + axes->size()];
  }
  return all;
}

std::optional<Padding> PaddingOf(const PassContext& context, NodeId id) {
  const Graph& graph = context.graph();
  const Node& pad = graph.node(id);
  const std::string label = graph.NodeLabel(id);
  if (context.opset() < 7 || HasReferences(pad)) return std::nullopt;
  const std::string mode = pad.attributes.String("mode", "constant");
  if (mode != "constant") return context.Miss("the mode of {} is {}", label, mode);
  const auto all = AllPads(context, pad);
  const auto value = PadValue(context, pad);
  if (!all || !value) return context.Miss("the pads or the value of {} are not constant", label);
  const size_t rank = all->size() / 2;
  if (rank < 3 || all->size() != 2 * rank) return context.Miss("{} has no spatial axes", label);
  Padding out = {.pads = {}, .value = *value};
  for (size_t i = 0; i < all->size(); ++i) {
    if ((*all)[i] < 0) return context.Miss("{} cuts off elements", label);
    if (i % rank >= 2) {
      out.pads.push_back((*all)[i]);
    } else if ((*all)[i] != 0) {
      return context.Miss("{} pads the batch or the channels", label);
    }
  }
  return out;
}

bool AllAre(const std::vector<int64_t>& values, int64_t wanted) {
  return std::all_of(values.begin(), values.end(), [&](int64_t v) { return v == wanted; });
}

// The operator makes no negative numbers.
bool IsNotNegative(const Graph& graph, ValueId value) {
  constexpr std::string_view kOps[] = {"Relu", "Sigmoid", "HardSigmoid", "Softmax", "Abs", "Exp", "Softplus"};
  return std::any_of(std::begin(kOps), std::end(kOps),
                     [&](std::string_view op) { return MadeBy(graph, value, op) != nullptr; });
}

// Whether a pool with these pads, its own and the Pad's, does as it did; sets its attributes.
std::optional<Attributes> PoolAttributes(const PassContext& context, const Node& pool, const Padding& padding,
                                         const std::vector<int64_t>& own, const std::vector<int64_t>& pads) {
  const Attributes& a = pool.attributes;
  const std::vector<int64_t> kernel = a.Ints("kernel_shape");
  if (a.Int("ceil_mode", 0) != 0) return context.Miss("its ceil_mode is set");
  if (!AllAre(a.Ints("dilations"), 1)) return context.Miss("its window is dilated");
  if (OutputOf(pool, 1) != kNoValue) return context.Miss("its indices are read");
  for (size_t i = 0; i < pads.size(); ++i) {
    if (kernel.size() * 2 != pads.size() || pads[i] >= kernel[i % kernel.size()]) {
      return context.Miss("its pads would be as large as its window");
    }
  }
  Attributes out = a;
  if (IsOp(pool, "MaxPool")) return out;
  if (!AllAre(own, 0) && a.Int("count_include_pad", 0) == 0) return context.Miss("its own padding does not count");
  if (!AllAre(padding.pads, 0)) out.Set("count_include_pad", int64_t{1});
  return out;
}

// The number that the operator takes its own padding for.
bool PadsWith(const Graph& graph, const Node& node, const Node& pad, double value) {
  if (!IsOp(node, "MaxPool")) return value == 0;
  if (value == -std::numeric_limits<double>::infinity()) return true;
  return value == 0 && IsNotNegative(graph, InputOf(pad, 0));
}

std::optional<GraphEdit> Fold(const PassContext& context, NodeId root) {
  const Graph& graph = context.graph();
  const Node& node = graph.node(root);
  const bool conv = IsOp(node, "Conv");
  if (!conv && !IsOp(node, "AveragePool") && !IsOp(node, "MaxPool")) return std::nullopt;
  const ValueId padded = InputOf(node, 0);
  const Node* pad = padded == kNoValue ? nullptr : MadeBy(graph, padded, "Pad");
  if (pad == nullptr || HasReferences(node)) return std::nullopt;
  if (!HasOneReader(graph, padded)) return context.Miss("the Pad before it is read by others too");
  const std::string auto_pad = node.attributes.String("auto_pad", "NOTSET");
  if (auto_pad != "NOTSET") return context.Miss("its auto_pad is {}", auto_pad);
  const auto padding = PaddingOf(context, ProducerOf(graph, padded));
  if (!padding) return std::nullopt;
  if (!InfoOf(graph.value(padded).dtype).is_float) return context.Miss("what is padded is not known to be floats");
  if (!PadsWith(graph, node, *pad, padding->value)) return context.Miss("the Pad before it adds {}", padding->value);
  std::vector<int64_t> own = node.attributes.Ints("pads");
  own.resize(own.empty() ? padding->pads.size() : own.size(), 0);
  if (own.size() != padding->pads.size()) return context.Miss("its pads are for another rank than the Pad's");
  std::vector<int64_t> pads = own;
  for (size_t i = 0; i < pads.size(); ++i) pads[i] += padding->pads[i];
  auto attributes = conv ? node.attributes : PoolAttributes(context, node, *padding, own, pads);
  if (!attributes) return std::nullopt;
  attributes->Set("pads", std::move(pads));
  GraphEdit::NewNode folded = {.name_hint = "",
                               .op_type = node.op_type,
                               .domain = node.domain,
                               .inputs = {},
                               .outputs = {},
                               .attributes = *std::move(attributes)};
  for (ValueId v : node.inputs) folded.inputs.push_back(ValueRef::Of(v));
  folded.inputs[0] = ValueRef::Of(InputOf(*pad, 0));
  GraphEdit edit(root);
  edit.ReplaceNode(root, std::move(folded));
  return edit;
}

}  // namespace

const Pass& FoldPadPass() {
  static const Pass pass = {.name = "fold-pad",
                            .summary = "A Pad becomes the pads of the Conv, AveragePool or MaxPool that reads it",
                            .roots = {"Conv", "AveragePool", "MaxPool"},
                            .rule = Fold};
  return pass;
}

}  // namespace quant
