#include "libquant/ops/tail.h"

#include <limits>

namespace quant {

std::optional<Repetition> RepetitionOf(const Dims& operand, const Dims& dims) {
  if (operand.size() > dims.size()) return std::nullopt;
  const size_t lead = dims.size() - operand.size();
  Repetition out;
  enum { kBefore, kInside, kBehind } where = kBefore;  // walking from the last axis to the first
  for (size_t i = dims.size(); i-- > 0;) {
    if (dims[i] == 1) {
      if (i >= lead && operand[i - lead] != 1) return std::nullopt;
      continue;
    }
    const bool given = i >= lead && operand[i - lead] != 1;
    if (given && operand[i - lead] != dims[i]) return std::nullopt;
    if (!given && where == kBefore) out.inner *= dims[i];
    if (!given && where == kInside) where = kBehind;
    if (!given) continue;
    if (where == kBehind) return std::nullopt;
    where = kInside;
    out.count *= dims[i];
  }
  if (where == kBefore) out = {1, 1};
  if (out.count == 1) out.inner = std::numeric_limits<int64_t>::max();  // one entry for all, in a single run
  return out;
}

}  // namespace quant
