#include "passes/polynomial.h"

#include <algorithm>
#include <cmath>

#include "passes/match.h"

namespace quant {
namespace {

constexpr int kMostLevels = 7;

bool IsArithmetic(const Node& node) {
  constexpr std::array<std::string_view, 6> kOps = {"Add", "Sub", "Mul", "Div", "Neg", "Pow"};
  return std::any_of(kOps.begin(), kOps.end(), [&](std::string_view op) { return IsOp(node, op); });
}

void Note(std::vector<NodeId>& parts, NodeId n) {
  if (std::find(parts.begin(), parts.end(), n) == parts.end()) parts.push_back(n);
}

Polynomial Constant(double c) {
  Polynomial p;
  p.of[0][0] = c;
  return p;
}

class Reader {
 public:
  Reader(const Graph& graph, ValueId x, ValueId e, std::vector<NodeId>& parts)
      : graph_(graph), x_(x), e_(e), parts_(parts) {}

  std::optional<Polynomial> Read(ValueId v, int levels) {
    Polynomial p;
    if (v == kNoValue) return std::nullopt;
    if (v == x_ || v == e_) {
      (v == x_ ? p.of[1][0] : p.of[0][1]) = 1;
      return p;
    }
    if (const auto number = NumberBeside(graph_, v, x_)) return Constant(*number);
    const NodeId n = ProducerOf(graph_, v);
    if (n == kNoNode || levels == 0 || !IsArithmetic(graph_.node(n))) return std::nullopt;
    const Node& node = graph_.node(n);
    const auto a = Read(InputOf(node, 0), levels - 1);
    if (!a) return std::nullopt;
    const auto b = IsOp(node, "Neg") ? Constant(-1) : Read(InputOf(node, 1), levels - 1);
    if (!b) return std::nullopt;
    Note(parts_, n);
    return Combined(node, *a, *b);
  }

 private:
  static std::optional<Polynomial> Combined(const Node& node, const Polynomial& a, const Polynomial& b) {
    if (IsOp(node, "Add")) return a + b;
    if (IsOp(node, "Sub")) return a + -1 * b;
    if (IsOp(node, "Mul") || IsOp(node, "Neg")) return Product(a, b);
    const double number = b.of[0][0];
    if (!b.is_constant() || number == 0) return std::nullopt;
    if (IsOp(node, "Div")) return 1 / number * a;
    std::optional<Polynomial> power = a;  // Pow
    if (number != 2 && number != 3) return std::nullopt;
    for (int i = 1; power && i < static_cast<int>(number); ++i) power = Product(*power, a);
    return power;
  }

  const Graph& graph_;
  const ValueId x_, e_;
  std::vector<NodeId>& parts_;
};

// `start` and what it is computed from by arithmetic, nearest first.
std::vector<ValueId> Behind(const Graph& graph, ValueId start) {
  std::vector<ValueId> found = {start};
  size_t begin = 0;
  for (int level = 0; level < kMostLevels; ++level) {
    const size_t end = found.size();
    for (; begin < end; ++begin) {
      const NodeId n = ProducerOf(graph, found[begin]);
      if (n == kNoNode || !IsArithmetic(graph.node(n))) continue;
      for (ValueId v : graph.node(n).inputs) {
        if (v == kNoValue || graph.value(v).constant) continue;
        if (std::find(found.begin(), found.end(), v) == found.end()) found.push_back(v);
      }
    }
  }
  return found;
}

}  // namespace

bool Polynomial::is_constant() const {
  Polynomial rest = *this;
  rest.of[0][0] = 0;
  return rest.of == Polynomial().of;
}

bool Polynomial::IsNear(const Polynomial& other, DType dtype) const {
  for (size_t i = 0; i < of.size(); ++i) {
    for (size_t j = 0; j < of[i].size(); ++j) {
      if (!quant::IsNear(of[i][j], other.of[i][j], dtype)) return false;
    }
  }
  return true;
}

Polynomial operator+(const Polynomial& a, const Polynomial& b) {
  Polynomial sum = a;
  for (size_t i = 0; i < sum.of.size(); ++i) {
    for (size_t j = 0; j < sum.of[i].size(); ++j) sum.of[i][j] += b.of[i][j];
  }
  return sum;
}

Polynomial operator*(double factor, const Polynomial& p) {
  Polynomial out = p;
  for (auto& row : out.of) {
    for (double& c : row) c *= factor;
  }
  return out;
}

std::optional<Polynomial> Product(const Polynomial& a, const Polynomial& b) {
  Polynomial out;
  for (size_t i = 0; i < a.of.size(); ++i) {
    for (size_t j = 0; j < a.of[i].size(); ++j) {
      if (a.of[i][j] == 0) continue;
      for (size_t k = 0; k < b.of.size(); ++k) {
        for (size_t l = 0; l < b.of[k].size(); ++l) {
          if (b.of[k][l] == 0) continue;
          if (i + k >= out.of.size() || j + l >= out.of[0].size()) return std::nullopt;
          out.of[i + k][j + l] += a.of[i][j] * b.of[k][l];
        }
      }
    }
  }
  return out;
}

std::optional<Polynomial> PolynomialOf(const Graph& graph, ValueId value, ValueId x, ValueId e,
                                       std::vector<NodeId>& parts) {
  return Reader(graph, x, e, parts).Read(value, kMostLevels);
}

std::vector<GatedFunction> ReadGated(const Graph& graph, NodeId root, std::string_view function) {
  std::vector<GatedFunction> found;
  const ValueId result = OutputOf(graph.node(root), 0);
  if (result == kNoValue) return found;
  for (ValueId e : Behind(graph, result)) {
    const NodeId n = ProducerOf(graph, e);
    if (n == kNoNode || !IsOp(graph.node(n), function) || InputOf(graph.node(n), 0) == kNoValue) continue;
    for (ValueId x : Behind(graph, InputOf(graph.node(n), 0))) {
      GatedFunction gated = {.x = x, .function = n};
      const auto inner = PolynomialOf(graph, InputOf(graph.node(n), 0), x, kNoValue, gated.parts);
      const auto outer = inner ? PolynomialOf(graph, result, x, e, gated.parts) : std::nullopt;
      if (!outer) continue;
      Note(gated.parts, n);
      gated.inner = *inner;
      gated.outer = *outer;
      found.push_back(std::move(gated));
    }
  }
  return found;
}

}  // namespace quant
