// Gates: conditions such as "sqnr>=30" that a CI job sets. Each is held against the worst output.
#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "libquant/base/status.h"

namespace quant {

// What was measured, by the names that gates use. Errors and sizes of several outputs are given as the worst of them.
using Measures = std::vector<std::pair<std::string, double>>;

enum class Comparison { kAtLeast, kAtMost, kMore, kLess };  // >= <= > <

struct Gate {
  std::string metric;
  Comparison comparison = Comparison::kAtLeast;
  // The limit is this number, or the metric's in an accepted report plus it or times it.
  enum class Against { kNumber, kBaselinePlus, kBaselineTimes } against = Against::kNumber;
  double limit = 0;
  std::string text;  // as given
};

// "METRIC OP LIMIT" with OP one of >= <= > <, LIMIT a number, "baseline", "baseline-0.5", "baseline+0.5" or
// "baseline*1.01"; spaces are free. UsageError listing the known metrics otherwise.
StatusOr<Gate> ParseGate(const std::string& text);
// The gate with a number for its limit. UsageError when it refers to a baseline that does not have the metric.
StatusOr<Gate> ResolveGate(const Gate& gate, const Measures* baseline);
// What holds an accepted report against a run where the user set no gates: no metric of both may be worse, but for a
// little that differs between machines.
std::vector<Gate> BaselineGates(const Measures& baseline, const Measures& measures);
// "sqnr (dB), cosine, ...": every metric a gate may name, with its unit.
std::string GateMetrics();

struct GateVerdict {
  Gate gate;
  double value = 0;
  bool met = false;  // never, when the value is NaN
};

// In the order given; limits are numbers by then. UsageError when a gate's metric was not measured.
StatusOr<std::vector<GateVerdict>> JudgeGates(std::span<const Gate> gates, const Measures& measures);
// GateError naming every gate that is not met, with the value found.
Status CheckVerdicts(std::span<const GateVerdict> verdicts);

}  // namespace quant
