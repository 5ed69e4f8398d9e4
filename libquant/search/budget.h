// How large a model may become, as a user says it.
#pragma once

#include <cstdint>
#include <string>

#include "libquant/base/status.h"
#include "libquant/search/format_search.h"
#include "libquant/search/weight_formats.h"

namespace quant {

struct Budget {
  enum class Unit { kBitsPerWeight, kPart, kBytes } unit = Unit::kBytes;
  double amount = 0;  // a part is 0 to 1
  std::string text;   // as given
};

// "4.5bpw": bits of each weight that there is a choice for. "30%": of the model's files today. "400000", "400K",
// "1.5M", "2G": bytes of the files, in steps of 1024. UsageError for anything else.
StatusOr<Budget> ParseBudget(const std::string& text);

SizeLimit LimitFor(const Budget& budget, const WeightFormats& formats, int64_t source_bytes);

}  // namespace quant
