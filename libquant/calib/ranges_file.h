// Ranges in a file: JSON that a person reads and may edit, with the counts behind them, so that files of several
// machines merge exactly.
//
//   {"ranges_version": 1, "method": "minmax", ..., "samples": 12, "values": {
//     "conv1_out": {"range": [0, 5.25], "min": 0, "max": 5.25, ..., "exponent": -8, "bins": "2048*0 17 3 5*0 1"}}}
//
// `range` is what quantizing takes, and the only field that is for editing; the rest is what was measured.
#pragma once

#include <string>

#include "libquant/base/status.h"
#include "libquant/calib/calibration.h"

namespace quant {

inline constexpr int64_t kRangesVersion = 1;

std::string RangesText(const Calibration& calibration);

// What a file says: the ranges as they stand there, and what was measured.
struct RangesFile {
  Calibration calibration;
  ValueRanges ranges;
};
// DataError saying what is wrong; the file's name is the caller's to add.
StatusOr<RangesFile> ParseRanges(const std::string& text);

// Whether the file is one of ranges, by its name: NAME.json.
bool NamesRanges(const std::string& path);
StatusOr<RangesFile> ReadRanges(const std::string& path);

}  // namespace quant
