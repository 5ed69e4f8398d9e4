// A sweep: every configuration of a grid, planned before any is run. Which ones are worth running, which are the same
// model under another name, and which the quantizer refuses, is known from names and shapes alone.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "libquant/base/status.h"
#include "libquant/config/sweep_grid.h"
#include "libquant/ir/graph.h"
#include "libquant/report/gate.h"

namespace quant {

struct SweepConfig {
  std::string name;  // "int4 g64 asymmetric skip=head": one name, one configuration
  QuantizeOptions options;
  std::optional<size_t> same_as;  // an earlier one that makes the same model
  std::string refused;            // why it cannot be run; empty: it can
  bool to_measure() const { return !same_as && refused.empty(); }
};

// Of a finished grid, in order: skip sets, formats, group sizes, schemes.
std::vector<SweepConfig> ConfigsOf(const SweepGrid& grid);

// The same, judged by their plans. UsageError with the first reason when none can be run.
StatusOr<std::vector<SweepConfig>> PlanSweep(const Model& model, const SweepGrid& grid);

// The options that hold for all configurations, as text that differs when they do.
std::string BaseText(const QuantizeOptions& options);

// What became of a configuration: a line of a file of results.
struct SweepRow {
  size_t config = 0;  // its place in the grid
  std::string name;
  std::string failed;  // why it could not be run; then there is nothing else
  int64_t bytes = 0;
  double coverage = 0;
  double bits_per_weight = 0;
  Measures measures;  // as `diff` gives them
  std::optional<double> reference_accuracy;

  std::optional<double> Measure(const std::string& name) const;
};

// Indices of the rows that no other beats: none is as small and at least as good, and better in one of both. By size,
// smallest first; of equal rows the first. Rows without the measure, or for which it is NaN, are on no front.
std::vector<size_t> ParetoFront(const std::vector<SweepRow>& rows, const std::string& measure);

struct SweepLimits {
  std::optional<double> max_size_ratio;
  std::optional<int64_t> max_bytes;
  std::optional<double> max_drop;  // points of accuracy
  std::optional<double> min_sqnr;  // dB
  bool size() const { return max_size_ratio || max_bytes; }
  bool error() const { return max_drop || min_sqnr; }
  bool any() const { return size() || error(); }
};

struct Recommendation {
  std::optional<size_t> row;
  std::string reason;  // a sentence
};

// With a limit on the error: the smallest row within all limits. With a limit on the size alone: the one of highest
// SQNR. Without any: the smallest that loses at most a point of accuracy or, without labels, has 20 dB at least.
Recommendation Recommend(const std::vector<SweepRow>& rows, const SweepLimits& limits);

}  // namespace quant
