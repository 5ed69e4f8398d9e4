// A sweep's report: the same bytes from one process, from a resumed one and from merged shards.
#pragma once

#include "libquant/report/report.h"
#include "libquant/search/sweep.h"
#include "libquant/search/sweep_file.h"

namespace quant {

// Measures are those of the recommended row; none when there is none.
Report SweepReport(const SweepResults& results, const SweepLimits& limits);

// GateError with the reason when limits were given and nothing is within them.
Status CheckLimits(const SweepResults& results, const SweepLimits& limits);

}  // namespace quant
