#include "libquant/base/nearest_hint.h"

#include <algorithm>
#include <numeric>

namespace quant {
namespace {

// Number of single-character edits between two words.
size_t EditDistance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 0; i < a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i + 1;
    for (size_t j = 0; j < b.size(); ++j) {
      const size_t replaced = diagonal + (a[i] != b[j]);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j + 1] + 1, row[j] + 1});
    }
  }
  return row.back();
}

}  // namespace

std::string NearestHint(const std::string& word, const std::vector<std::string>& candidates) {
  const std::string* best = nullptr;
  size_t least = word.size() / 3 + 2;
  for (const std::string& candidate : candidates) {
    const bool begins = word.size() >= 4 && candidate.compare(0, word.size(), word) == 0;
    const size_t distance = begins ? 0 : EditDistance(word, candidate);
    if (distance < least) {
      least = distance;
      best = &candidate;
    }
  }
  return best == nullptr ? "" : "; did you mean " + *best + "?";
}

}  // namespace quant
