#include "passes/decomposed_norm.h"

#include <algorithm>
#include <utility>

#include "passes/match.h"

namespace quant {
namespace {

constexpr int kMostPassed = 8;  // Casts and Identities in a row

class Matcher {
 public:
  Matcher(const Graph& graph, NodeId root) : graph_(graph) {
    found_.root = root;
    found_.parts.push_back(root);
  }

  std::optional<DecomposedNorm> Run() {
    const Node& root = graph_.node(found_.root);
    if (root.inputs.size() != 2 || root.inputs[0] == kNoValue || root.inputs[1] == kNoValue) return std::nullopt;
    bool matched = false;
    if (IsOp(root, "Div")) {
      matched = Try([&] { return Quotient(root.inputs[0], root.inputs[1]); });
    } else if (IsOp(root, "Mul")) {
      matched = EitherWay(root, [&](ValueId a, ValueId b) { return Product(a, b); });
    } else if (IsOp(root, "Add")) {
      matched = EitherWay(root, [&](ValueId a, ValueId b) { return ShiftedProduct(a, b); });
    }
    if (!matched) return std::nullopt;
    for (NodeId n : found_.parts) {
      if (IsOp(graph_.node(n), "Cast")) found_.casts.push_back(n);
    }
    return std::move(found_);
  }

 private:
  // Forgets what a failed attempt found.
  template <typename Attempt>
  bool Try(Attempt attempt) {
    DecomposedNorm before = found_;
    if (attempt()) return true;
    found_ = std::move(before);
    return false;
  }
  template <typename Attempt>
  bool EitherWay(const Node& node, Attempt attempt) {
    const ValueId a = node.inputs[0], b = node.inputs[1];
    return Try([&] { return attempt(a, b); }) || Try([&] { return attempt(b, a); });
  }

  // The value before Casts and Identities.
  ValueId Base(ValueId v) const {
    for (int i = 0; v != kNoValue && i < kMostPassed; ++i) {
      const NodeId p = ProducerOf(graph_, v);
      if (p == kNoNode || !(IsOp(graph_.node(p), "Cast") || IsOp(graph_.node(p), "Identity"))) return v;
      v = InputOf(graph_.node(p), 0);
    }
    return v;
  }
  bool Same(ValueId a, ValueId b) const { return a == b || Base(a) == Base(b); }

  void Note(NodeId part) {
    if (std::find(found_.parts.begin(), found_.parts.end(), part) == found_.parts.end()) found_.parts.push_back(part);
  }
  // Notes the Casts and Identities between `v` and `to`, a value before them.
  void NotePath(ValueId v, ValueId to) {
    for (int i = 0; v != to && i < kMostPassed; ++i) {
      const NodeId p = ProducerOf(graph_, v);
      if (p == kNoNode) return;
      Note(p);
      v = InputOf(graph_.node(p), 0);
    }
  }
  // The node behind Casts and Identities that makes the value, if it is of that operator; it becomes a part.
  NodeId Take(ValueId v, std::string_view op_type) {
    const ValueId base = Base(v);
    const NodeId p = ProducerOf(graph_, base);
    if (p == kNoNode || !IsOp(graph_.node(p), op_type) || HasReferences(graph_.node(p))) return kNoNode;
    if (graph_.node(p).inputs.empty() || graph_.node(p).inputs[0] == kNoValue) return kNoNode;
    NotePath(v, base);
    Note(p);
    return p;
  }
  const Node& At(NodeId n) const { return graph_.node(n); }
  bool IsNumber(ValueId v, double number) const {
    const auto constant = NumberOf(graph_, Base(v));
    return constant && *constant == number;
  }
  // The power's base, if the value is some value to that power.
  ValueId PowerOf(ValueId v, double exponent) {
    const NodeId pow = Take(v, "Pow");
    return pow != kNoNode && IsNumber(InputOf(At(pow), 1), exponent) ? At(pow).inputs[0] : kNoValue;
  }

  // What the value is the square root of.
  ValueId RootOf(ValueId v) {
    const NodeId sqrt = Take(v, "Sqrt");
    return sqrt != kNoNode ? At(sqrt).inputs[0] : PowerOf(v, 0.5);
  }
  // What the value is one over the square root of.
  ValueId InverseRootOf(ValueId v) {
    if (const NodeId reciprocal = Take(v, "Reciprocal"); reciprocal != kNoNode) return RootOf(At(reciprocal).inputs[0]);
    const NodeId div = Take(v, "Div");
    if (div != kNoNode) return IsNumber(At(div).inputs[0], 1) ? RootOf(InputOf(At(div), 1)) : kNoValue;
    return PowerOf(v, -0.5);
  }

  bool Quotient(ValueId centred, ValueId root) {
    const ValueId variance = RootOf(root);
    return variance != kNoValue && Normalized(centred, variance);
  }
  bool Product(ValueId centred, ValueId inverse) {
    const ValueId variance = InverseRootOf(inverse);
    return variance != kNoValue && Normalized(centred, variance);
  }

  // The mean of squares, plus epsilon: returns what is squared.
  ValueId Squared(ValueId v) {
    ValueId mean = v;
    if (const NodeId add = Take(v, "Add"); add != kNoNode) {
      for (const size_t i : {0, 1}) {
        if (!NumberOf(graph_, Base(InputOf(At(add), i)))) continue;
        found_.epsilon = Base(InputOf(At(add), i));
        mean = InputOf(At(add), 1 - i);
      }
      if (found_.epsilon == kNoValue) return kNoValue;
    }
    found_.variance = Take(mean, "ReduceMean");
    if (found_.variance == kNoNode) return kNoValue;
    const ValueId square = At(found_.variance).inputs[0];
    const NodeId mul = Take(square, "Mul");
    if (mul == kNoNode) return PowerOf(square, 2);
    return Joined(At(mul).inputs[0], InputOf(At(mul), 1));
  }
  // Two values that are the same but for Casts: the one they have in common, kNoValue when they are not.
  ValueId Joined(ValueId a, ValueId b) {
    if (a == b || a == kNoValue) return a;
    const ValueId base = Base(a);
    if (base != Base(b)) return kNoValue;
    NotePath(a, base);
    NotePath(b, base);
    return base;
  }

  // x - mean(x): x, with the mean noted; `either`: mean(x) - x too, whose square is the same.
  ValueId Centred(ValueId v, bool either) {
    const NodeId sub = Take(v, "Sub");
    if (sub == kNoNode) return kNoValue;
    for (const size_t i : {0, 1}) {
      if (i == 1 && !either) break;
      const ValueId x = At(sub).inputs[i];
      const NodeId mean = Take(InputOf(At(sub), 1 - i), "ReduceMean");
      if (mean == kNoNode || !Same(At(mean).inputs[0], x)) continue;
      found_.means.push_back(mean);
      return Joined(At(mean).inputs[0], x);
    }
    return kNoValue;
  }

  bool Normalized(ValueId centred, ValueId variance) {
    const ValueId squared = Squared(variance);
    if (squared == kNoValue) return false;
    if (Try([&] { return (found_.x = Centred(centred, false)) != kNoValue; })) {
      if (Same(squared, centred)) return Joined(squared, centred) != kNoValue;
      const ValueId again = Centred(squared, true);
      return again != kNoValue && (found_.x = Joined(again, found_.x)) != kNoValue;
    }
    return (found_.x = Joined(squared, centred)) != kNoValue;
  }

  // x * s + (beta - mean * s).
  bool ShiftedProduct(ValueId product, ValueId rest) {
    const NodeId mul = Take(product, "Mul"), sub = Take(rest, "Sub");
    if (mul == kNoNode || sub == kNoNode) return false;
    found_.shift = At(sub).inputs[0];
    const NodeId taken = Take(InputOf(At(sub), 1), "Mul");
    if (taken == kNoNode || taken == mul) return false;
    return EitherWay(At(mul), [&](ValueId x, ValueId s) {
      return EitherWay(At(taken), [&](ValueId mean, ValueId s2) { return s == s2 && Scaled(x, mean, s); });
    });
  }
  bool Scaled(ValueId x, ValueId mean, ValueId s) {
    const NodeId reduce = Take(mean, "ReduceMean");
    if (reduce == kNoNode || !Same(At(reduce).inputs[0], x)) return false;
    found_.means.push_back(reduce);
    const auto inverse = [&](ValueId inverse_root) {
      const ValueId variance = InverseRootOf(inverse_root);
      const ValueId squared = variance != kNoValue ? Squared(variance) : kNoValue;
      const ValueId centred = squared != kNoValue ? Centred(squared, true) : kNoValue;
      return centred != kNoValue && (found_.x = Joined(Joined(centred, x), At(reduce).inputs[0])) != kNoValue;
    };
    if (Try([&] { return inverse(s); })) return true;
    const NodeId mul = Take(s, "Mul");
    return mul != kNoNode && EitherWay(At(mul), [&](ValueId inverse_root, ValueId scale) {
             found_.scale = scale;
             return inverse(inverse_root);
           });
  }

  const Graph& graph_;
  DecomposedNorm found_;
};

}  // namespace

std::optional<DecomposedNorm> MatchDecomposedNorm(const Graph& graph, NodeId root) {
  return Matcher(graph, root).Run();
}

}  // namespace quant
