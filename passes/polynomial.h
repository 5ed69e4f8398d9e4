// Elementwise arithmetic read as a polynomial, so that a formula is recognised however its factors and terms are
// grouped and ordered:
//
//   0.5 * x * (1 + e),  (x + x * e) / 2,  x * (0.5 * e + 0.5)        all are        0.5 x + 0.5 x e
//
// where e is the value of some function that is not arithmetic (Erf, Clip, ...), of degree 1 at most.
#pragma once

#include <array>
#include <optional>
#include <string_view>
#include <vector>

#include "libquant/ir/graph.h"

namespace quant {

struct Polynomial {
  static constexpr int kDegree = 3;
  // of[i][j]: the coefficient of x^i e^j.
  std::array<std::array<double, 2>, kDegree + 1> of{};

  bool is_constant() const;
  // Whether each coefficient is near the other's, both computed with elements of that type.
  bool IsNear(const Polynomial& other, DType dtype) const;
};

Polynomial operator+(const Polynomial& a, const Polynomial& b);
Polynomial operator*(double factor, const Polynomial& p);
std::optional<Polynomial> Product(const Polynomial& a, const Polynomial& b);  // nullopt: a degree too high

// `value` in terms of x and e (kNoValue: of x alone) through Add, Sub, Mul, Div, Neg and Pow with scalar constants that
// leave x's shape as it is. The nodes in between are added to `parts`.
std::optional<Polynomial> PolynomialOf(const Graph& graph, ValueId value, ValueId x, ValueId e,
                                       std::vector<NodeId>& parts);

// A value computed from x and a function of x: outer(x, function(inner(x))).
struct GatedFunction {
  ValueId x = kNoValue;
  NodeId function = kNoNode;
  Polynomial inner = {}, outer = {};
  std::vector<NodeId> parts = {};  // from the root up to x, the function among them
};

// All ways to read what `root` makes as such, with a function of this operator whose input 0 is what counts.
std::vector<GatedFunction> ReadGated(const Graph& graph, NodeId root, std::string_view function);

}  // namespace quant
