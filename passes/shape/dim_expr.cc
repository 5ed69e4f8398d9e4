#include "passes/shape/dim_expr.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "libquant/base/checked.h"

namespace quant {
namespace {

constexpr size_t kMostTerms = 16;
constexpr size_t kMostFactors = 16;

}  // namespace

DimExpr DimExpr::Number(int64_t number) {
  DimExpr out;
  if (number != 0) out.terms_[{}] = number;
  return out;
}

DimExpr DimExpr::Symbol(std::string name) {
  DimExpr out;
  out.terms_[{std::move(name)}] = 1;
  return out;
}

std::optional<int64_t> DimExpr::number() const {
  if (terms_.empty()) return 0;
  if (terms_.size() > 1 || !terms_.begin()->first.empty()) return std::nullopt;
  return terms_.begin()->second;
}

bool DimExpr::AtLeast(int64_t bound) const {
  int64_t constant = 0;
  for (const auto& [monomial, coefficient] : terms_) {
    if (monomial.empty()) {
      constant = coefficient;
    } else if (coefficient < 0) {
      return false;
    }
  }
  return constant >= bound;
}

bool DimExpr::AddTerm(const Monomial& monomial, int64_t coefficient) {
  int64_t& at = terms_[monomial];
  if (__builtin_add_overflow(at, coefficient, &at)) return false;
  if (at == 0) terms_.erase(monomial);
  return terms_.size() <= kMostTerms;
}

std::optional<DimExpr> DimExpr::Sum(const DimExpr& a, const DimExpr& b) {
  DimExpr out = a;
  for (const auto& [monomial, coefficient] : b.terms_) {
    if (!out.AddTerm(monomial, coefficient)) return std::nullopt;
  }
  return out;
}

std::optional<DimExpr> DimExpr::Difference(const DimExpr& a, const DimExpr& b) {
  const auto negative = Product(b, Number(-1));
  return negative ? Sum(a, *negative) : std::nullopt;
}

std::optional<DimExpr> DimExpr::Product(const DimExpr& a, const DimExpr& b) {
  DimExpr out;
  for (const auto& [x, p] : a.terms_) {
    for (const auto& [y, q] : b.terms_) {
      Monomial both(x);
      both.insert(both.end(), y.begin(), y.end());
      std::sort(both.begin(), both.end());
      const auto coefficient = CheckedMul(p, q);
      if (!coefficient || both.size() > kMostFactors || !out.AddTerm(both, *coefficient)) return std::nullopt;
    }
  }
  return out;
}

std::optional<DimExpr> DimExpr::Quotient(const DimExpr& a, const DimExpr& b) {
  const auto divisor = b.number();
  if (!divisor || *divisor == 0 || *divisor == -1) return std::nullopt;
  if (const auto n = a.number()) return Number(*n / *divisor);
  DimExpr out;
  for (const auto& [monomial, coefficient] : a.terms_) {
    if (coefficient % *divisor != 0) return std::nullopt;
    out.terms_[monomial] = coefficient / *divisor;
  }
  return out;
}

std::optional<std::string> DimExpr::symbol() const {
  if (terms_.size() != 1 || terms_.begin()->second != 1 || terms_.begin()->first.size() != 1) return std::nullopt;
  return terms_.begin()->first[0];
}

std::string DimExpr::Key() const {
  std::string key;
  for (const auto& [monomial, coefficient] : terms_) {
    key += fmt::format("{}", coefficient);
    for (const std::string& symbol : monomial) key += fmt::format("*{}:{}", symbol.size(), symbol);
    key += "+";
  }
  return key;
}

}  // namespace quant
