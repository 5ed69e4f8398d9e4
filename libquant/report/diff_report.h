// How far one model's answers are from another's, output by output and, when asked for, layer by layer: what was
// measured, and how a report shows it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "libquant/ir/dtype.h"
#include "libquant/report/gate.h"
#include "libquant/report/metrics.h"
#include "libquant/report/report.h"
#include "libquant/report/task_metrics.h"

namespace quant {

struct DiffOutput {
  std::string name;
  DType dtype = DType::kUndefined;  // of the reference
  OutputMetrics metrics;
  std::vector<double> sqnr_by_sample;  // dB
};

// Against labels: both sides' figures for one output.
struct TaskDiff {
  std::string output;
  int64_t labels = 0;
  TaskScores reference;
  TaskScores candidate;
  double drop_points() const { return (reference.accuracy - candidate.accuracy) * 100; }
};

// Against numbers that are right.
struct NumberDiff {
  std::string output;
  double reference = 0;  // mean squared errors
  double candidate = 0;
};

struct DiffLayer {
  std::string name;  // the value's, which both models have
  std::string node;  // that makes it in the reference
  std::string op_type;
  DType dtype = DType::kUndefined;
  OutputMetrics metrics;
};

// Of one layer in one sample: the reference's values, the candidate's, and their differences.
struct LayerHistograms {
  std::string name;
  ReportHistogram values;
  ReportHistogram errors;
};

struct LayerDiff {
  std::vector<DiffLayer> layers;       // in the reference's order
  int64_t reference_values = 0;        // floats that the reference makes: those not compared are in fused operators
  std::vector<LayerHistograms> worst;  // of the worst sample
  std::vector<std::pair<std::string, double>> saturated;  // integers the candidate makes: parts at an end of the range
};

struct DiffReport {
  std::string reference;  // file names, where the report is to say them
  std::string candidate;
  std::string source;                      // "--data heldout.npz"
  std::optional<int64_t> reference_bytes;  // sizes of the models, external data included
  std::optional<int64_t> candidate_bytes;
  int64_t samples = 0;
  std::vector<DiffOutput> outputs;
  std::optional<TaskDiff> task;
  std::optional<NumberDiff> numbers;
  std::optional<LayerDiff> layers;
  double line = 20;  // dB: the first layer below it is named
};

// For gates: of each metric the worst over all outputs; what needs labels, sizes or layers when those are there.
Measures MeasuresOf(const DiffReport& report);
// The sample whose answers are farthest off, by the least SQNR of any output; -1 when there is none.
int64_t WorstSample(const DiffReport& report);
// The first layer whose SQNR is below the line.
const DiffLayer* FirstBelow(const LayerDiff& layers, double line);

// Adds sections, facts, measures, cases and data to a report.
void AddDiff(const DiffReport& diff, Report& report);

// What programs get: docs/report.md.
Json DiffJson(const DiffReport& report);

}  // namespace quant
