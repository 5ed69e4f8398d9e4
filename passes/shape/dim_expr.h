// A number that is known when the model runs, as a polynomial with integer coefficients over dimensions:
// 2*batch*heads + 1. Two that are equal are equal in every run; nothing is said of two that are not. Every symbol is a
// dimension, so 0 or more.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace quant {

class DimExpr {
 public:
  static DimExpr Number(int64_t number);
  static DimExpr Symbol(std::string name);

  std::optional<int64_t> number() const;
  // The name, when it is nothing but one symbol.
  std::optional<std::string> symbol() const;
  // Surely >= 0 (or >= 1), whatever the symbols are.
  bool AtLeast(int64_t bound) const;

  // nullopt when a coefficient overflows, there are too many terms, or a quotient is not exact for all values.
  static std::optional<DimExpr> Sum(const DimExpr& a, const DimExpr& b);
  static std::optional<DimExpr> Difference(const DimExpr& a, const DimExpr& b);
  static std::optional<DimExpr> Product(const DimExpr& a, const DimExpr& b);
  // By truncation, as Div divides integers.
  static std::optional<DimExpr> Quotient(const DimExpr& a, const DimExpr& b);

  // The same text for equal ones alone.
  std::string Key() const;

  bool operator==(const DimExpr&) const = default;

 private:
  using Monomial = std::vector<std::string>;  // sorted; empty: the constant
  bool AddTerm(const Monomial& monomial, int64_t coefficient);

  std::map<Monomial, int64_t> terms_;  // no zero coefficients
};

}  // namespace quant
