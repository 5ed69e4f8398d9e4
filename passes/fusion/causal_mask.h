// What masks of attention hide, as far as a graph proves it.
#pragma once

#include <optional>

#include "libquant/ir/graph.h"

namespace quant {

// Where queries and keys have their lengths: queries are the last of the keys when there is a past.
struct AttentionLengths {
  Dim queries, keys;
  ValueId key = kNoValue;  // a value with the keys at axis `key_axis`
  size_t key_axis = 2;
  ValueId past = kNoValue;  // one with the keys of the past at `past_axis`, if there is one
  size_t past_axis = 2;
};

// True when bools [.., queries, keys] say which keys a query sees, itself and those before; false when they say which
// come after it and are hidden; nullopt for anything else. Known are: a constant triangle, one that is cut out of a
// larger constant by Slices, and a comparison of Ranges.
std::optional<bool> CausalBools(const Graph& graph, ValueId bools, const AttentionLengths& lengths);

// Every element is finite: found from constants, Where, Casts and arithmetic. A float that a caller gives is not.
bool IsFinite(const Graph& graph, ValueId value);

}  // namespace quant
