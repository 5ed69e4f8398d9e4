// The measured part of choosing formats: what the estimates favour is run as a whole, beside the uniform choices, and
// then improved by changes that are measured themselves. Nothing here knows of models: `measure` does.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "libquant/base/status.h"
#include "libquant/report/gate.h"
#include "libquant/search/choose.h"

namespace quant {

// Of a choice as a whole.
struct Outcome {
  double noise = 0;  // as Alternative::noise, of all items together; infinite or NaN: not usable
  Measures measures;
  int64_t bytes = 0;  // of the model's files
};

// The most that a choice may take.
struct SizeLimit {
  int64_t bits = std::numeric_limits<int64_t>::max();   // of the items
  int64_t bytes = std::numeric_limits<int64_t>::max();  // of the files
};

struct SearchSettings {
  std::function<StatusOr<Outcome>(const Choice&)> measure;
  // Noise alone, on as few samples as the items' were measured on; null: `measure` gives it.
  std::function<StatusOr<double>(const Choice&)> probe = nullptr;
  double base_noise = 0;  // with every item at its least noise
  // A round measures what each item adds to the best choice so far, in its company instead of alone, chooses anew by
  // that, and measures the most promising changes of one or two items. It ends when a round brings nothing.
  int64_t rounds = 2;
  int64_t changes = 8;
  std::vector<Choice> rivals;  // measured too, to be beaten
  std::vector<std::string> rival_names;
  std::function<void(int64_t done, int64_t all)> progress = nullptr;
};

struct TriedChoice {
  std::string origin;  // "estimate", "round 1", the rival's name
  Choice choice;
  int64_t bits = 0;
  double estimate = 0;  // of the noise
  Outcome outcome;
  bool fits = false;  // within the size, or meeting the conditions
};

struct SearchResult {
  std::vector<TriedChoice> tried;  // as they were measured
  size_t best = 0;                 // in tried: of those that fit, else the nearest to it
  bool found = false;              // the best fits
};

// The least noise within the size. When not even the smallest choice fits, that is the best.
StatusOr<SearchResult> SearchWithin(const std::vector<ChoiceItem>& items, const SizeLimit& limit,
                                    const SearchSettings& settings);

// The fewest bits that meet all conditions. When even the choice of least noise does not, that is the best.
StatusOr<SearchResult> SearchMeeting(const std::vector<ChoiceItem>& items, const std::vector<Gate>& conditions,
                                     const SearchSettings& settings);

}  // namespace quant
