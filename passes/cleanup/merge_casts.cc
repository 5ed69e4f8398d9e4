// A Cast of a Cast becomes one, or none, where the first keeps every value.
//
//   x: float16 ─ Cast float ─ Cast double ─ y        =>        x ─ Cast double ─ y
//   x: float16 ─ Cast float ─ Cast float16 ─ y       =>        x
//
// Integers, bools and floats of 16 bits and more; the type in between must hold all values of x's type. The first stays
// for its other readers.
#include "passes/cleanup/return_input.h"
#include "passes/match.h"

namespace quant {
namespace {

// Bits of the numbers around 0 that the type holds without a gap, its sign aside, and of exponents; 0: not merged.
struct Range {
  bool is_float = false;
  bool is_signed = false;
  int digits = 0;
  int exponent_bits = 0;
};

Range RangeOf(DType dtype) {
  switch (dtype) {
    case DType::kFloat16:
      return {true, true, 11, 5};
    case DType::kBfloat16:
      return {true, true, 8, 8};
    case DType::kFloat:
      return {true, true, 24, 8};
    case DType::kDouble:
      return {true, true, 53, 11};
    case DType::kBool:
      return {false, false, 1, 0};
    case DType::kInt8:
    case DType::kInt16:
    case DType::kInt32:
    case DType::kInt64:
      return {false, true, InfoOf(dtype).bits - 1, 0};
    case DType::kUint8:
    case DType::kUint16:
    case DType::kUint32:
    case DType::kUint64:
      return {false, false, InfoOf(dtype).bits, 0};
    default:
      return {};
  }
}

// Every value of `from` is one of `to`.
bool Holds(DType to, DType from) {
  const Range a = RangeOf(from), b = RangeOf(to);
  if (a.digits == 0 || b.digits == 0) return false;
  if (to == from) return true;
  if (to == DType::kBool || (a.is_float && !b.is_float) || (a.is_signed && !b.is_signed)) return false;
  if (b.digits < a.digits) return false;
  // An integer of as many digits as the float's is within its exponents, float16's 11 included.
  return !a.is_float || b.exponent_bits >= a.exponent_bits;
}

std::optional<GraphEdit> Merge(const PassContext& context, NodeId root) {
  const Graph& graph = context.graph();
  const Node& second = graph.node(root);
  if (!IsOp(second, "Cast") || HasReferences(second)) return std::nullopt;
  const Node* first = MadeBy(graph, InputOf(second, 0), "Cast");
  if (first == nullptr || HasReferences(*first)) return std::nullopt;
  const ValueId x = InputOf(*first, 0);
  const DType from = graph.value(x).dtype;
  const auto to_of = [](const Node& n) { return DTypeFromNumber(static_cast<int32_t>(n.attributes.Int("to", 0))); };
  const DType between = to_of(*first), to = to_of(second);
  if (from == DType::kUndefined || RangeOf(to).digits == 0)
    return context.Miss("its types are not known or not merged");
  if (!Holds(between, from)) return context.Miss("{} does not hold every {}", NameOf(between), NameOf(from));
  const bool wraps = !RangeOf(from).is_float && RangeOf(between).is_float && !RangeOf(to).is_float;
  if (wraps && to != DType::kBool && !Holds(to, from)) {
    return context.Miss("a {} too large for {} would wrap, which one from {} does not", NameOf(from), NameOf(to),
                        NameOf(between));
  }
  if (from == to) return ReturnInput(context, root, x);
  GraphEdit::NewNode merged{second.name, "Cast", second.domain, {ValueRef::Of(x)}, {}, second.attributes};
  GraphEdit edit(root);
  edit.ReplaceNode(root, std::move(merged));
  return edit;
}

}  // namespace

const Pass& MergeCastsPass() {
  static const Pass pass = {.name = "merge-casts",
                            .summary = "A Cast of a Cast that keeps every value becomes one, or none",
                            .roots = {"Cast"},
                            .rule = Merge};
  return pass;
}

}  // namespace quant
