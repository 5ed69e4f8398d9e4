#include "libquant/report/gate.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <string_view>

namespace quant {
namespace {

struct MetricRow {
  std::string_view name;
  std::string_view unit;
  bool at_most_one;  // its values lie within [-1, 1]; a limit outside is a mistake, say a percentage
};

constexpr std::array kMetrics = {
    MetricRow{"sqnr", "dB", false},
    MetricRow{"cosine", "-1 to 1", true},
    MetricRow{"relative_rms", "", false},
    MetricRow{"rmse", "", false},
    MetricRow{"max_abs", "", false},
    MetricRow{"mean_abs", "", false},
    MetricRow{"non_finite", "elements", false},
    MetricRow{"top1", "0 to 1", true},
    MetricRow{"accuracy", "0 to 1", true},
    MetricRow{"accuracy.drop", "percentage points", false},
    MetricRow{"coverage", "0 to 1", true},
    MetricRow{"bits_per_weight", "", false},
    MetricRow{"size.ratio", "new size / old size", false},
};

std::string_view Trimmed(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \t");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t") - begin + 1);
}

std::string_view Symbol(Comparison comparison) {
  switch (comparison) {
    case Comparison::kAtLeast:
      return ">=";
    case Comparison::kAtMost:
      return "<=";
    case Comparison::kMore:
      return ">";
    case Comparison::kLess:
      break;
  }
  return "<";
}

bool Holds(double value, const Gate& gate) {
  switch (gate.comparison) {
    case Comparison::kAtLeast:
      return value >= gate.limit;
    case Comparison::kAtMost:
      return value <= gate.limit;
    case Comparison::kMore:
      return value > gate.limit;
    case Comparison::kLess:
      break;
  }
  return value < gate.limit;
}

}  // namespace

std::string GateMetrics() {
  std::string out;
  for (const MetricRow& row : kMetrics) {
    if (!out.empty()) out += ", ";
    out += row.name;
    if (!row.unit.empty()) out += fmt::format(" ({})", row.unit);
  }
  return out;
}

StatusOr<Gate> ParseGate(const std::string& text) {
  const size_t at = text.find_first_of("<>=");
  if (at == std::string::npos) {
    return UsageError("gate '{}': a gate is METRIC OP NUMBER with OP one of >=, <=, >, <, as in 'sqnr>=30'", text);
  }
  Gate gate;
  gate.text = text;
  gate.metric = Trimmed(std::string_view(text).substr(0, at));
  const size_t after = text.find_first_not_of("<>=", at);
  const std::string op = text.substr(at, after == std::string::npos ? std::string::npos : after - at);
  const std::array all = {Comparison::kAtLeast, Comparison::kAtMost, Comparison::kMore, Comparison::kLess};
  const auto comparison = std::find_if(all.begin(), all.end(), [&](Comparison c) { return Symbol(c) == op; });
  if (comparison == all.end()) return UsageError("gate '{}': '{}' is none of >=, <=, >, <", text, op);
  gate.comparison = *comparison;
  const auto row = std::find_if(kMetrics.begin(), kMetrics.end(), [&](const auto& r) { return r.name == gate.metric; });
  if (row == kMetrics.end()) {
    return UsageError("gate '{}': there is no metric '{}'; there are {}", text, gate.metric, GateMetrics());
  }
  const std::string_view number = after == std::string::npos ? "" : Trimmed(std::string_view(text).substr(after));
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), gate.limit);
  if (error != std::errc() || end != number.data() + number.size() || !std::isfinite(gate.limit)) {
    return UsageError("gate '{}': '{}' is no number", text, number);
  }
  if (row->at_most_one && std::abs(gate.limit) > 1) {
    return UsageError("gate '{}': {} is given as {}, so this would never decide anything", text, row->name, row->unit);
  }
  return gate;
}

StatusOr<std::vector<GateVerdict>> JudgeGates(std::span<const Gate> gates, const Measures& measures) {
  std::vector<GateVerdict> out;
  for (const Gate& gate : gates) {
    const auto it =
        std::find_if(measures.begin(), measures.end(), [&](const auto& m) { return m.first == gate.metric; });
    if (it == measures.end()) {
      std::string known;
      for (const auto& [name, value] : measures) known += (known.empty() ? "" : ", ") + name;
      return UsageError("gate '{}': this run measured no {}; it measured {}", gate.text, gate.metric,
                        known.empty() ? "nothing" : known);
    }
    out.push_back({gate, it->second, Holds(it->second, gate)});
  }
  return out;
}

Status CheckGates(std::span<const Gate> gates, const Measures& measures) {
  ASSIGN_OR_RETURN(const std::vector<GateVerdict> verdicts, JudgeGates(gates, measures));
  std::string unmet;
  for (const GateVerdict& v : verdicts) {
    if (v.met) continue;
    unmet += fmt::format("{}gate '{}' is not met: {} is {:.6g}", unmet.empty() ? "" : "; ", v.gate.text, v.gate.metric,
                         v.value);
  }
  return unmet.empty() ? OkStatus() : GateError("{}", unmet);
}

}  // namespace quant
