// Sensitivity: how much the model's answers change when one weight alone is stored in another format, measured by
// running it on samples.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "libquant/base/status.h"
#include "libquant/report/diff_report.h"
#include "libquant/search/weight_formats.h"

namespace quant {

struct SensitivityOptions {
  // Noise of the model with these options (NoiseFrom): the runs.
  std::function<StatusOr<double>(const QuantizeOptions&)> measure;
  std::function<void(int64_t done, int64_t all)> progress = nullptr;
};

// Fills the noise of every alternative of `formats`; float has none. Returns the noise with all of them float: what
// other weights' rules and types cost, which is taken off the others.
StatusOr<double> MeasureSensitivity(WeightFormats& formats, const SensitivityOptions& options);

// Energy of the error over that of the reference at the worst output; infinite where answers are not finite.
double NoiseFrom(const Measures& measures);
// In dB, as SQNR is.
double DecibelsOf(double noise);

// Places of the units, the most sensitive first: by the noise of the alternative of fewest bits.
std::vector<size_t> RankBySensitivity(const std::vector<ChoiceItem>& items);

}  // namespace quant
