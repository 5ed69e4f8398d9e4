#include "libquant/search/format_search.h"

#include <algorithm>
#include <cmath>

namespace quant {
namespace {

constexpr int kShrinks = 4;      // of the bits, when files turn out larger than told from their weights
constexpr int kHalvings = 10;    // of the range of noise that is searched
constexpr double kClose = 1.02;  // noises that count as the same: a tenth of a dB
// A change may look this much noisier than what it is to replace: estimates are no better.
constexpr double kSlack = 1.1;

// Measures choices once and keeps what came out.
class Bench {
 public:
  Bench(const std::vector<ChoiceItem>& items, const SearchSettings& settings, int64_t expected)
      : items_(items), settings_(settings), expected_(expected) {}

  StatusOr<size_t> Measure(const std::string& origin, const Choice& choice,
                           const std::function<StatusOr<bool>(const TriedChoice&)>& fits) {
    for (size_t i = 0; i < tried_.size(); ++i) {
      if (tried_[i].choice == choice) return i;
    }
    TriedChoice tried;
    tried.origin = origin;
    tried.choice = choice;
    tried.bits = BitsOf(items_, choice);
    tried.estimate = settings_.base_noise + NoiseOf(items_, choice);
    ASSIGN_OR_RETURN(tried.outcome, settings_.measure(choice));
    if (!std::isfinite(tried.outcome.noise)) tried.outcome.noise = INFINITY;
    ASSIGN_OR_RETURN(tried.fits, fits(tried));
    tried_.push_back(std::move(tried));
    const auto done = static_cast<int64_t>(tried_.size());
    if (settings_.progress) settings_.progress(done, std::max(done, expected_));
    return tried_.size() - 1;
  }

  bool Knows(const Choice& choice) const {
    return std::any_of(tried_.begin(), tried_.end(), [&](const TriedChoice& t) { return t.choice == choice; });
  }
  const TriedChoice& operator[](size_t i) const { return tried_[i]; }
  const std::vector<TriedChoice>& tried() const { return tried_; }
  std::vector<TriedChoice> Take() { return std::move(tried_); }

 private:
  const std::vector<ChoiceItem>& items_;
  const SearchSettings& settings_;
  int64_t expected_;
  std::vector<TriedChoice> tried_;
};

int64_t Expected(const SearchSettings& settings, int64_t more) {
  return static_cast<int64_t>(settings.rivals.size()) + settings.rounds * settings.changes + more;
}

// The better by `less` of those that fit; of equals the earlier.
std::optional<size_t> BestOf(const Bench& bench,
                             const std::function<bool(const TriedChoice&, const TriedChoice&)>& less) {
  std::optional<size_t> best;
  for (size_t i = 0; i < bench.tried().size(); ++i) {
    if (bench[i].fits && (!best || less(bench[i], bench[*best]))) best = i;
  }
  return best;
}

// What both searches end in: rounds of measured changes to the best so far, until one brings none.
struct Refinement {
  std::function<StatusOr<bool>(const TriedChoice&)> fits;
  std::function<bool(const TriedChoice&, const TriedChoice&)> less;
  std::function<std::vector<Choice>(const TriedChoice& best, size_t count)> changes;
};

Status Refine(const SearchSettings& settings, const Refinement& refinement, Bench& bench) {
  for (int64_t round = 1; round <= settings.rounds; ++round) {
    const std::optional<size_t> best = BestOf(bench, refinement.less);
    if (!best) return OkStatus();
    int64_t left = settings.changes;
    // Those measured before come first in the order again: ask for as many more.
    const size_t count = static_cast<size_t>(settings.changes) + bench.tried().size();
    const std::vector<Choice> changes = refinement.changes(bench[*best], count);
    for (const Choice& change : changes) {
      if (bench.Knows(change)) continue;
      if (left-- == 0) break;
      RETURN_IF_ERROR(bench.Measure(fmt::format("round {}", round), change, refinement.fits).status());
    }
    if (BestOf(bench, refinement.less) == best) return OkStatus();
  }
  return OkStatus();
}

Status MeasureRivals(const SearchSettings& settings, const std::function<StatusOr<bool>(const TriedChoice&)>& fits,
                     Bench& bench) {
  for (size_t i = 0; i < settings.rivals.size(); ++i) {
    RETURN_IF_ERROR(bench.Measure(settings.rival_names[i], settings.rivals[i], fits).status());
  }
  return OkStatus();
}

bool LessNoise(const TriedChoice& a, const TriedChoice& b) {
  return a.outcome.noise != b.outcome.noise ? a.outcome.noise < b.outcome.noise : a.bits < b.bits;
}

bool FewerBits(const TriedChoice& a, const TriedChoice& b) {
  return a.bits != b.bits ? a.bits < b.bits : a.outcome.noise < b.outcome.noise;
}

Choice EachWith(const std::vector<ChoiceItem>& items,
                const std::function<bool(const Alternative&, const Alternative&)>& less) {
  Choice out;
  for (const ChoiceItem& item : items) {
    const auto it = std::min_element(item.alternatives.begin(), item.alternatives.end(), less);
    out.push_back(static_cast<size_t>(it - item.alternatives.begin()));
  }
  return out;
}

Choice Smallest(const std::vector<ChoiceItem>& items) {
  return EachWith(items, [](const Alternative& a, const Alternative& b) {
    return a.bits != b.bits ? a.bits < b.bits : a.noise < b.noise;
  });
}

Choice Quietest(const std::vector<ChoiceItem>& items) {
  return EachWith(items, [](const Alternative& a, const Alternative& b) {
    return a.noise != b.noise ? a.noise < b.noise : a.bits < b.bits;
  });
}

}  // namespace

StatusOr<SearchResult> SearchWithin(const std::vector<ChoiceItem>& items, const SizeLimit& limit,
                                    const SearchSettings& settings) {
  Bench bench(items, settings, Expected(settings, 1));
  const auto fits = [&](const TriedChoice& t) -> StatusOr<bool> {
    return t.bits <= limit.bits && t.outcome.bytes <= limit.bytes && std::isfinite(t.outcome.noise);
  };
  int64_t bits = limit.bits;
  for (int i = 0; i < kShrinks; ++i) {
    const std::optional<Choice> choice = LeastNoise(items, bits);
    if (!choice) break;
    ASSIGN_OR_RETURN(const size_t at, bench.Measure("greedy", *choice, fits));
    const int64_t over = bench[at].outcome.bytes - limit.bytes;
    if (over <= 0) break;
    bits = std::min(bits, bench[at].bits) - over * 8;
  }
  RETURN_IF_ERROR(MeasureRivals(settings, fits, bench));
  if (!BestOf(bench, LessNoise)) {
    ASSIGN_OR_RETURN(const size_t smallest, bench.Measure("smallest", Smallest(items), fits));
    if (!bench[smallest].fits) return SearchResult{bench.Take(), smallest, false};
  }
  const auto changes = [&](const TriedChoice& best, size_t count) {
    return Neighbours(items, best.choice, std::max(bits, best.bits), best.estimate * kSlack, Order::kLeastNoise, count);
  };
  RETURN_IF_ERROR(Refine(settings, {fits, LessNoise, changes}, bench));
  const size_t best = *BestOf(bench, LessNoise);
  return SearchResult{bench.Take(), best, true};
}

namespace {

// Where along the noise allowed the conditions stop to hold: between the last that met them and the first that did not.
Status Halve(const std::vector<ChoiceItem>& items, const std::vector<Gate>& conditions,
             const std::function<StatusOr<bool>(const TriedChoice&)>& fits, Bench& bench) {
  double low = INFINITY;
  double high = 0;
  for (const ChoiceItem& item : items) {
    double most = 0;
    for (const Alternative& a : item.alternatives) {
      if (a.noise > 0) low = std::min(low, a.noise);
      if (std::isfinite(a.noise)) most = std::max(most, a.noise);
    }
    high += most;
  }
  const auto sqnr =
      std::find_if(conditions.begin(), conditions.end(), [](const Gate& g) { return g.metric == "sqnr"; });
  double next = std::sqrt(low) * std::sqrt(high);
  if (sqnr != conditions.end()) next = std::clamp(std::pow(10, -sqnr->limit / 10), low, high);
  for (int i = 0; i < kHalvings && low * kClose < high; ++i) {
    const std::optional<Choice> choice = FewestBits(items, next);
    bool met = choice.has_value();
    if (choice) {
      ASSIGN_OR_RETURN(const size_t at, bench.Measure("greedy", *choice, fits));
      met = bench[at].fits;
    }
    (met ? low : high) = next;
    next = std::sqrt(low) * std::sqrt(high);
  }
  return OkStatus();
}

}  // namespace

StatusOr<SearchResult> SearchMeeting(const std::vector<ChoiceItem>& items, const std::vector<Gate>& conditions,
                                     const SearchSettings& settings) {
  Bench bench(items, settings, Expected(settings, kHalvings + 2));
  const auto fits = [&](const TriedChoice& t) -> StatusOr<bool> {
    ASSIGN_OR_RETURN(const std::vector<GateVerdict> verdicts, JudgeGates(conditions, t.outcome.measures));
    return std::isfinite(t.outcome.noise) &&
           std::all_of(verdicts.begin(), verdicts.end(), [](const GateVerdict& v) { return v.met; });
  };
  ASSIGN_OR_RETURN(const size_t quietest, bench.Measure("least noise", Quietest(items), fits));
  RETURN_IF_ERROR(bench.Measure("smallest", Smallest(items), fits).status());
  RETURN_IF_ERROR(MeasureRivals(settings, fits, bench));
  if (bench[quietest].fits) RETURN_IF_ERROR(Halve(items, conditions, fits, bench));
  if (!BestOf(bench, FewerBits)) return SearchResult{bench.Take(), quietest, false};
  const auto changes = [&](const TriedChoice& best, size_t count) {
    return Neighbours(items, best.choice, best.bits - 1, best.estimate * kSlack, Order::kFewestBits, count);
  };
  RETURN_IF_ERROR(Refine(settings, {fits, FewerBits, changes}, bench));
  const size_t best = *BestOf(bench, FewerBits);
  return SearchResult{bench.Take(), best, true};
}

}  // namespace quant
