// How attention's queries, keys and values are cut into heads, and how keys and values of the past come before them.
#pragma once

#include <optional>
#include <vector>

#include "libquant/ir/graph.h"

namespace quant {

// What is transposed from [batch, length, heads, size] to [batch, heads, length, size]; kNoValue when that is not how
// the value is made.
ValueId BeforeHeadSwap(const Graph& graph, ValueId value);

// Keys or values [batch, heads, length, size]: those of the past, if any, before the new ones.
struct JoinedHeads {
  ValueId past = kNoValue, fresh = kNoValue;
  NodeId concat = kNoNode;  // of the two
};
JoinedHeads SplitPast(const Graph& graph, ValueId value);

// A value that is one entry of another one's axis 0, that axis gone: by Gather, Split or Slice.
struct Entry {
  ValueId of = kNoValue;
  int64_t index = 0;
};
std::optional<Entry> EntryOf(const Graph& graph, ValueId value);

// Whether nothing is left that reads the value when `parts` go, however far it is read on. Outputs of the nodes
// `replaced` are read from elsewhere by then.
bool Vanishes(const Graph& graph, ValueId value, const std::vector<NodeId>& parts,
              const std::vector<NodeId>& replaced = {});

}  // namespace quant
