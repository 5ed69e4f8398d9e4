// Names of dimensions that are arithmetic over other names, as exporters write them: "past_sequence_length + 1",
// "2*s0", "(s0//2)". Of + - * / // and parentheses over names and integers; a name may hold letters, digits, '_', '.',
// ':' and, where no space is around it, '-'.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "libquant/base/status.h"

namespace quant {

// The names in it; empty when it is a name itself, or no arithmetic of this kind.
std::vector<std::string> PartsOfDimName(std::string_view name);

// Its number when `number_of` knows all parts; nullopt when it is no arithmetic or a part is unknown. UsageError when
// the number overflows, a division by `/` leaves a rest, or a divisor is 0; `//` rounds down.
StatusOr<std::optional<int64_t>> ComputeDimName(
    std::string_view name, const std::function<std::optional<int64_t>(const std::string&)>& number_of);

}  // namespace quant
