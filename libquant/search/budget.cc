#include "libquant/search/budget.h"

#include <charconv>
#include <cmath>

namespace quant {
namespace {

constexpr double kMostBytes = 1e18;

double FactorOf(std::string_view suffix) {
  if (suffix == "K") return 1024;
  if (suffix == "M") return 1024.0 * 1024;
  return suffix == "G" ? 1024.0 * 1024 * 1024 : 0;
}

int64_t Floor(double value) { return static_cast<int64_t>(std::floor(std::min(value, kMostBytes))); }

}  // namespace

StatusOr<Budget> ParseBudget(const std::string& text) {
  Budget out;
  out.text = text;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, out.amount);
  const std::string_view suffix(stop, static_cast<size_t>(end - stop));
  const bool number = error == std::errc() && std::isfinite(out.amount) && out.amount > 0;
  if (suffix == "bpw") {
    out.unit = Budget::Unit::kBitsPerWeight;
  } else if (suffix == "%") {
    out.unit = Budget::Unit::kPart;
    out.amount /= 100;
  } else if (!suffix.empty()) {
    out.amount *= FactorOf(suffix);
  }
  if (!number || out.amount <= 0) {
    return UsageError(
        "budget '{}': give bits per weight (4.5bpw), a part of the model's size (30%) or bytes (400K, 2M)", text);
  }
  return out;
}

SizeLimit LimitFor(const Budget& budget, const WeightFormats& formats, int64_t source_bytes) {
  SizeLimit limit;
  if (budget.unit == Budget::Unit::kBitsPerWeight) {
    limit.bits = Floor(budget.amount * static_cast<double>(formats.elements()));
    return limit;
  }
  const bool part = budget.unit == Budget::Unit::kPart;
  limit.bytes = Floor(part ? budget.amount * static_cast<double>(source_bytes) : budget.amount);
  limit.bits = (limit.bytes - formats.other_bytes()) * 8;
  return limit;
}

}  // namespace quant
