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
  // What holds a run against an accepted one. Empty for metrics that another one stands for.
  std::string_view held = "";
};

constexpr std::array kMetrics = {
    MetricRow{"sqnr", "dB", false, ">=baseline-0.1"},
    MetricRow{"cosine", "-1 to 1", true},
    MetricRow{"relative_rms", "", false},
    MetricRow{"rmse", "", false},
    MetricRow{"max_abs", "", false},
    MetricRow{"mean_abs", "", false},
    MetricRow{"psnr", "dB", false},
    MetricRow{"max_ulp", "", false},
    MetricRow{"kl", "nats", false},
    MetricRow{"non_finite", "elements", false, "<=baseline"},
    MetricRow{"saturated", "0 to 1", true},
    MetricRow{"top1", "0 to 1", true, ">=baseline-0.001"},
    MetricRow{"top5", "0 to 1", true},
    MetricRow{"layer.sqnr", "dB", false, ">=baseline-0.1"},
    MetricRow{"accuracy", "0 to 1", true, ">=baseline"},
    MetricRow{"accuracy.drop", "percentage points", false},
    MetricRow{"f1", "macro, 0 to 1", true, ">=baseline"},
    MetricRow{"f1.drop", "percentage points", false},
    MetricRow{"mse", "", false, "<=baseline*1.001"},
    MetricRow{"mse.ratio", "new / old", false},
    MetricRow{"coverage", "0 to 1", true, ">=baseline"},
    MetricRow{"bits_per_weight", "", false},
    MetricRow{"size.ratio", "new size / old size", false, "<=baseline*1.001"},
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

constexpr std::string_view kBaseline = "baseline";

bool ParseNumber(std::string_view text, double& out) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  return error == std::errc() && end == text.data() + text.size() && std::isfinite(out);
}

bool ParseLimit(std::string_view text, Gate& gate) {
  if (text.substr(0, kBaseline.size()) != kBaseline) return ParseNumber(text, gate.limit);
  text = Trimmed(text.substr(kBaseline.size()));
  gate.against = Gate::Against::kBaselinePlus;
  gate.limit = 0;
  if (text.empty()) return true;
  const char sign = text[0];
  if (sign != '+' && sign != '-' && sign != '*') return false;
  if (sign == '*') gate.against = Gate::Against::kBaselineTimes;
  if (!ParseNumber(Trimmed(text.substr(1)), gate.limit)) return false;
  if (sign == '-') gate.limit = -gate.limit;
  return true;
}

const double* Find(const Measures& measures, std::string_view name) {
  const auto it = std::find_if(measures.begin(), measures.end(), [&](const auto& m) { return m.first == name; });
  return it == measures.end() ? nullptr : &it->second;
}

}  // namespace

StatusOr<Gate> ResolveGate(const Gate& gate, const Measures* baseline) {
  if (gate.against == Gate::Against::kNumber) return gate;
  if (baseline == nullptr) return UsageError("gate '{}': give --baseline, the accepted report", gate.text);
  const double* value = Find(*baseline, gate.metric);
  if (value == nullptr) return UsageError("gate '{}': the accepted report measured no {}", gate.text, gate.metric);
  Gate out = gate;
  out.limit = gate.against == Gate::Against::kBaselinePlus ? *value + gate.limit : *value * gate.limit;
  out.against = Gate::Against::kNumber;
  return out;
}

std::vector<Gate> BaselineGates(const Measures& baseline, const Measures& measures) {
  std::vector<Gate> out;
  for (const MetricRow& row : kMetrics) {
    if (row.held.empty() || Find(baseline, row.name) == nullptr || Find(measures, row.name) == nullptr) continue;
    StatusOr<Gate> gate = ParseGate(fmt::format("{}{}", row.name, row.held));
    if (gate.ok()) out.push_back(*std::move(gate));
  }
  return out;
}

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
  if (!ParseLimit(number, gate)) return UsageError("gate '{}': '{}' is no number", text, number);
  if (row->at_most_one && gate.against == Gate::Against::kNumber && std::abs(gate.limit) > 1) {
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

Status CheckVerdicts(std::span<const GateVerdict> verdicts) {
  std::string unmet;
  for (const GateVerdict& v : verdicts) {
    if (v.met) continue;
    unmet += fmt::format("{}gate '{}' is not met: {} is {:.6g}", unmet.empty() ? "" : "; ", v.gate.text, v.gate.metric,
                         v.value);
    if (v.gate.text.find("baseline") != std::string::npos) unmet += fmt::format(" (limit {:.6g})", v.gate.limit);
  }
  return unmet.empty() ? OkStatus() : GateError("{}", unmet);
}

}  // namespace quant
