// Quantizes one unit of a weight after another: reads tiles, chooses scales, makes codes, and hands all three outputs
// to their writers. It owns the buffers of that; a thread takes one for as long as it works.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <vector>

#include "libquant/base/status.h"
#include "libquant/numerics/packing.h"
#include "libquant/numerics/weight_plan.h"
#include "libquant/numerics/weight_source.h"

namespace quant {

// What all threads that work on a weight share.
struct WeightRun {
  WeightRun(const WeightPlan& p, const WeightSource& s, CodeWriter& c, ByteSink& scale_sink, CodeWriter* z)
      : plan(p), source(s), codes(c), scales(scale_sink), zero_points(z) {}
  const WeightPlan& plan;
  const WeightSource& source;
  CodeWriter& codes;
  ByteSink& scales;
  CodeWriter* zero_points;  // null when the form has none
  // Per tensor: chosen beforehand, with the largest finite magnitude that infinities are clamped to.
  std::optional<ScaleZero> fixed;
  float fixed_limit = 0;

  std::atomic<int64_t> non_finite{0};
  std::atomic<bool> overflow{false};
};

class UnitQuantizer {
 public:
  explicit UnitQuantizer(WeightRun& run) : run_(run), plan_(run.plan) {}
  Status Run(const WeightUnit& unit);

 private:
  // The part of a granule that lies in one tile.
  struct Piece {
    Panel panel;
    int64_t row;  // of the tile
  };

  Status Load(const WeightUnit& unit, int64_t k, bool first_time);
  // Calls body(Piece) for the rows [k, k_end) tile by tile.
  template <typename Body>
  Status ForPieces(const WeightUnit& unit, int64_t k, int64_t k_end, bool first_time, const Body& body);
  Status ChooseGranule(const WeightUnit& unit, int64_t index);
  Status PreferNegative(const WeightUnit& unit, int64_t k, int64_t k_end, size_t at);
  void NoteInfinities(int64_t row, int64_t rows);
  void WidenForInfinities();
  void MakeCodes(const WeightUnit& unit, int64_t k, int64_t k_end);
  Status WriteCodes(const WeightUnit& unit, int64_t k, int64_t k_end);
  Status WriteRuns(const WeightUnit& unit, int64_t k, int64_t k_end);
  Status WriteParameters(const WeightUnit& unit);
  Status WriteScales(int64_t row, int64_t rows, int64_t column, int64_t columns, int64_t row_length,
                     const float* values);
  int64_t Granules(const WeightUnit& unit) const;

  WeightRun& run_;
  const WeightPlan& plan_;
  WeightTile tile_;
  // By granule and column.
  std::vector<float> scale_;
  std::vector<int32_t> zero_;
  std::vector<float> limit_;
  // By column, of the granule at hand.
  std::vector<float> min_, max_, negative_scale_;
  std::vector<double> error_, negative_error_;
  std::vector<uint8_t> infinite_;  // bit 0: positive seen, bit 1: negative; empty when there are none
  std::vector<int32_t> stored_zero_;
  std::vector<uint8_t> codes_, turned_;
  std::vector<float> turned_scale_;
  std::vector<std::byte> bytes_;
};

}  // namespace quant
