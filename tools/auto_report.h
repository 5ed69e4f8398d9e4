// How sensitive weights are, and what was chosen for them, in a report.
#pragma once

#include "libquant/report/report.h"
#include "tools/auto_args.h"
#include "tools/search_args.h"

namespace quant {

// Sections "Choices" and "Tried", a fact, and `search` in the data.
void AddChoice(const FormatChoice& choice, Report& report);

// Sections with the ranking and a plot along the graph, facts, and the data.
void AddSensitivity(const WeightFormats& formats, double base_noise, Report& report);

}  // namespace quant
