// How far one model's answers are from another's, output by output: the report's data, and its two forms.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "libquant/ir/dtype.h"
#include "libquant/report/gate.h"
#include "libquant/report/metrics.h"

namespace quant {

struct DiffOutput {
  std::string name;
  DType dtype = DType::kUndefined;  // of the reference
  OutputMetrics metrics;
};

// Parts (0 to 1) of the labels that each model got right.
struct Accuracy {
  std::string output;
  int64_t labels = 0;
  double reference = 0;
  double candidate = 0;
  double drop_points() const { return (reference - candidate) * 100; }
};

struct DiffReport {
  std::string reference;  // file names, where the report is to say them
  std::string candidate;
  std::optional<int64_t> reference_bytes;  // sizes of the models, external data included
  std::optional<int64_t> candidate_bytes;
  int64_t samples = 0;
  std::vector<DiffOutput> outputs;
  std::optional<Accuracy> accuracy;
  std::vector<GateVerdict> gates;
};

// For gates: of each metric the worst over all outputs; top1 when an output has a class axis, accuracy (the
// candidate's) and accuracy.drop with labels, size.ratio when both sizes are known.
Measures MeasuresOf(const DiffReport& report);

// A table that fits 100 columns, then accuracy, sizes and gates where there are any. Ends with a newline.
std::string DiffText(const DiffReport& report);

// JSON, keys in fixed order: schema_version (1), then reference, candidate, reference_bytes, candidate_bytes where set,
// samples, outputs (name, dtype, elements, max_abs, mean_abs, rmse, relative_rms, cosine, sqnr_db, top1, non_finite),
// worst (the measures that gates use), accuracy (output, labels, reference, candidate, drop_points) where set, gates
// (text, metric, value, met) where set. JSON has no infinities and no NaN: they are the strings "inf", "-inf", "nan".
// What does not apply (top1 of an output without a class axis) is null.
std::string DiffJson(const DiffReport& report);

}  // namespace quant
