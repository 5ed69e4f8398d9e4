// What a user may have meant by a name that there is not.
#pragma once

#include <string>
#include <vector>

namespace quant {

// The candidate nearest to `word`, as "; did you mean X?", or "" when none is near.
std::string NearestHint(const std::string& word, const std::vector<std::string>& candidates);

}  // namespace quant
