// What a sweep tries: formats x group sizes x schemes x sets of weights that stay float, from flags or a YAML file in
// the quantizer's words. The axes hold lists, `skip-sets` maps names to patterns, all other keys hold for every
// configuration:
//
//   weights: [int4, int8]
//   group-size: [32, 128, channel]
//   scheme: [symmetric, asymmetric]
//   skip-sets:
//     none: []
//     head: [lm_head]
//   emit: nbits
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "libquant/base/status.h"
#include "libquant/config/quantize_options.h"

namespace quant {

struct SkipSet {
  std::string name;
  std::vector<std::string> patterns;  // as in QuantizeOptions::skip
};

struct SweepGrid {
  // In an order that does not depend on how they were given, each once; empty: the default.
  std::vector<std::string> weights, group_sizes, schemes;
  std::vector<SkipSet> skip_sets;  // as given
  QuantizeOptions base;
};

// The axes: weights, group-size, scheme.
bool IsSweepAxis(std::string_view key);
// Adds a word to an axis. UsageError as from SetQuantizeOption.
Status AddSweepWord(SweepGrid& grid, std::string_view key, const std::string& word);
// UsageError for a name that is given twice or that a line of results could not hold.
Status AddSkipSet(SweepGrid& grid, SkipSet set);
// Sorts, and puts the defaults where nothing was given: int4 and int8; 32, 64, 128, 256, channel, tensor; both schemes;
// nothing skipped.
void FinishSweepGrid(SweepGrid& grid);

// Adds what the file says: an axis that it names holds its words only. DataError and UsageError as from
// ReadQuantizeFile.
Status ReadSweepFile(const std::string& path, SweepGrid& grid);
Status ReadSweepText(const std::string& text, const std::string& name, SweepGrid& grid);

}  // namespace quant
