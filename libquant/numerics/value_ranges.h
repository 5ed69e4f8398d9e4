// The ranges, and means, that a model's values take over samples, by name: what calibration finds and what the
// placement of activations' quantizers needs. Plain data: who measured it, and how, is not told.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace quant {

// One value's range in the values' own unit. `min` <= `max`, both finite; 0 need not lie between them.
struct ValueRange {
  float min = 0;
  float max = 0;
  // Largest magnitude by channel, along the axis asked for; empty when none was asked for.
  std::vector<float> channel_absmax = {};
};

using ValueRanges = std::map<std::string, ValueRange, std::less<>>;

// A value whose range is needed.
struct RangeWanted {
  std::string name;
  // The axis whose channels are wanted on their own, counted from the end (-1 is the last), as the rank may not be
  // known; null: only the whole.
  std::optional<int64_t> channel_axis = std::nullopt;
};

// Means by channel of values, by name.
using ChannelMeans = std::map<std::string, std::vector<double>, std::less<>>;

}  // namespace quant
