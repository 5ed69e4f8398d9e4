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
  double limit = 0;
  std::string text;  // as given
};

// "METRIC OP NUMBER" with OP one of >= <= > <; spaces are free. UsageError listing the known metrics otherwise.
StatusOr<Gate> ParseGate(const std::string& text);
// "sqnr (dB), cosine, ...": every metric a gate may name, with its unit.
std::string GateMetrics();

struct GateVerdict {
  Gate gate;
  double value = 0;
  bool met = false;  // never, when the value is NaN
};

// In the order given. UsageError when a gate's metric was not measured.
StatusOr<std::vector<GateVerdict>> JudgeGates(std::span<const Gate> gates, const Measures& measures);
// GateError naming every gate that is not met, with the value found.
Status CheckGates(std::span<const Gate> gates, const Measures& measures);

}  // namespace quant
