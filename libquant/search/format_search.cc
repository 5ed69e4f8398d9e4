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

// Corrections of estimates keep to this range: beyond it differences of measurements say little.
constexpr double kMostCorrection = 1000;

bool LessNoise(const TriedChoice& a, const TriedChoice& b) {
  return a.outcome.noise != b.outcome.noise ? a.outcome.noise < b.outcome.noise : a.bits < b.bits;
}

bool FewerBits(const TriedChoice& a, const TriedChoice& b) {
  return a.bits != b.bits ? a.bits < b.bits : a.outcome.noise < b.outcome.noise;
}

size_t SmallestOf(const ChoiceItem& item) {
  const auto& all = item.alternatives;
  const auto it = std::min_element(all.begin(), all.end(), [](const Alternative& a, const Alternative& b) {
    return a.bits != b.bits ? a.bits < b.bits : a.noise < b.noise;
  });
  return static_cast<size_t>(it - all.begin());
}

size_t QuietestOf(const ChoiceItem& item) {
  const auto& all = item.alternatives;
  const auto it = std::min_element(all.begin(), all.end(), [](const Alternative& a, const Alternative& b) {
    return a.noise != b.noise ? a.noise < b.noise : a.bits < b.bits;
  });
  return static_cast<size_t>(it - all.begin());
}

// What to exchange an alternative for, to see what it adds: the quietest, or of that the next one. Itself when there is
// none.
size_t NearestInNoise(const ChoiceItem& item, size_t of) {
  size_t out = QuietestOf(item);
  if (item.alternatives[of].noise > item.alternatives[out].noise) return out;
  out = of;
  for (size_t a = 0; a < item.alternatives.size(); ++a) {
    const double noise = item.alternatives[a].noise;
    if (noise <= item.alternatives[of].noise || !std::isfinite(noise)) continue;
    if (out == of || noise < item.alternatives[out].noise) out = a;
  }
  return out;
}

Choice Each(const std::vector<ChoiceItem>& items, size_t (*of)(const ChoiceItem&)) {
  Choice out;
  for (const ChoiceItem& item : items) out.push_back(of(item));
  return out;
}

// What both searches share: choices are measured once, and rounds refine the best of them.
class Search {
 public:
  Search(const std::vector<ChoiceItem>& items, const SearchSettings& settings)
      : items_(items), corrected_(items), settings_(settings) {}
  virtual ~Search() = default;

 protected:
  virtual StatusOr<bool> Fits(const TriedChoice& tried) const = 0;
  virtual bool Better(const TriedChoice& a, const TriedChoice& b) const = 0;
  // Measures what estimates favour.
  virtual Status TryEstimates(const std::string& origin) = 0;
  virtual std::vector<Choice> Changes(const TriedChoice& best, size_t count) const = 0;

  StatusOr<size_t> Measure(const std::string& origin, const Choice& choice) {
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
    ASSIGN_OR_RETURN(tried.fits, Fits(tried));
    tried_.push_back(std::move(tried));
    Advance();
    return tried_.size() - 1;
  }

  Status MeasureRivals() {
    for (size_t i = 0; i < settings_.rivals.size(); ++i) {
      RETURN_IF_ERROR(Measure(settings_.rival_names[i], settings_.rivals[i]).status());
    }
    return OkStatus();
  }

  // Of those that fit; of equals the earlier.
  std::optional<size_t> Best() const {
    std::optional<size_t> best;
    for (size_t i = 0; i < tried_.size(); ++i) {
      if (tried_[i].fits && (!best || Better(tried_[i], tried_[*best]))) best = i;
    }
    return best;
  }

  Status Refine() {
    for (int64_t round = 1; round <= settings_.rounds; ++round) {
      const std::optional<size_t> best = Best();
      if (!best) return OkStatus();
      const std::string origin = fmt::format("round {}", round);
      RETURN_IF_ERROR(Correct(tried_[*best].choice));
      RETURN_IF_ERROR(TryEstimates(origin));
      RETURN_IF_ERROR(TryChanges(origin));
      if (Best() == best) return OkStatus();
    }
    return OkStatus();
  }

  SearchResult Finish(size_t best) {
    const bool found = tried_[best].fits;
    return {std::move(tried_), best, found};
  }

  const std::vector<ChoiceItem>& items_;
  std::vector<ChoiceItem> corrected_;  // noises as they are in the company of the best choice
  const SearchSettings& settings_;
  std::vector<TriedChoice> tried_;

 private:
  void Advance() {
    ++runs_;
    const auto rounds = settings_.rounds * (settings_.changes + static_cast<int64_t>(items_.size()) + 2);
    const int64_t expected = static_cast<int64_t>(settings_.rivals.size()) + rounds + 2;
    if (settings_.progress) settings_.progress(runs_, std::max(runs_, expected));
  }

  StatusOr<double> Probe(const Choice& choice) {
    Advance();
    if (settings_.probe) return settings_.probe(choice);
    ASSIGN_OR_RETURN(const Outcome outcome, settings_.measure(choice));
    return outcome.noise;
  }

  Status Correct(const Choice& best) {
    ASSIGN_OR_RETURN(const double whole, Probe(best));
    for (size_t i = 0; i < items_.size(); ++i) {
      const std::vector<Alternative>& alternatives = items_[i].alternatives;
      Choice other = best;
      other[i] = NearestInNoise(items_[i], best[i]);
      const double alone = alternatives[other[i]].noise - alternatives[best[i]].noise;
      if (alone == 0) continue;
      ASSIGN_OR_RETURN(const double noise, Probe(other));
      const double factor = (noise - whole) / alone;
      if (!std::isfinite(factor)) continue;
      const double kept = std::clamp(factor, 1 / kMostCorrection, kMostCorrection);
      for (size_t a = 0; a < alternatives.size(); ++a)
        corrected_[i].alternatives[a].noise = alternatives[a].noise * kept;
    }
    return OkStatus();
  }

  Status TryChanges(const std::string& origin) {
    const std::optional<size_t> best = Best();
    int64_t left = settings_.changes;
    // Those measured before may come first: ask for as many more.
    const size_t count = static_cast<size_t>(settings_.changes) + tried_.size();
    for (const Choice& change : Changes(tried_[*best], count)) {
      const bool known =
          std::any_of(tried_.begin(), tried_.end(), [&](const TriedChoice& t) { return t.choice == change; });
      if (known) continue;
      if (left-- == 0) break;
      RETURN_IF_ERROR(Measure(origin, change).status());
    }
    return OkStatus();
  }

  int64_t runs_ = 0;
};

class WithinSize : public Search {
 public:
  WithinSize(const std::vector<ChoiceItem>& items, const SizeLimit& limit, const SearchSettings& settings)
      : Search(items, settings), limit_(limit), bits_(limit.bits) {}

  StatusOr<SearchResult> Run() {
    RETURN_IF_ERROR(TryEstimates("estimate"));
    RETURN_IF_ERROR(MeasureRivals());
    ASSIGN_OR_RETURN(const size_t smallest,
                     Best() ? StatusOr<size_t>(*Best()) : Measure("smallest", Each(items_, SmallestOf)));
    if (!Best()) return Finish(smallest);
    RETURN_IF_ERROR(Refine());
    return Finish(*Best());
  }

 private:
  StatusOr<bool> Fits(const TriedChoice& t) const override {
    return t.bits <= limit_.bits && t.outcome.bytes <= limit_.bytes && std::isfinite(t.outcome.noise);
  }
  bool Better(const TriedChoice& a, const TriedChoice& b) const override { return LessNoise(a, b); }

  // Files hold more than weights: bits that they leave are found by trying.
  Status TryEstimates(const std::string& origin) override {
    for (int i = 0; i < kShrinks; ++i) {
      const std::optional<Choice> choice = LeastNoise(corrected_, bits_);
      if (!choice) break;
      ASSIGN_OR_RETURN(const size_t at, Measure(origin, *choice));
      const int64_t over = tried_[at].outcome.bytes - limit_.bytes;
      if (over <= 0) break;
      bits_ = std::min(bits_, tried_[at].bits) - over * 8;
    }
    return OkStatus();
  }

  std::vector<Choice> Changes(const TriedChoice& best, size_t count) const override {
    const double noise = NoiseOf(corrected_, best.choice);
    return Neighbours(corrected_, best.choice, std::max(bits_, best.bits), noise * kSlack, Order::kLeastNoise, count);
  }

  SizeLimit limit_;
  int64_t bits_;
};

class MeetingConditions : public Search {
 public:
  MeetingConditions(const std::vector<ChoiceItem>& items, const std::vector<Gate>& conditions,
                    const SearchSettings& settings)
      : Search(items, settings), conditions_(conditions) {}

  StatusOr<SearchResult> Run() {
    ASSIGN_OR_RETURN(const size_t quietest, Measure("least noise", Each(items_, QuietestOf)));
    RETURN_IF_ERROR(Measure("smallest", Each(items_, SmallestOf)).status());
    RETURN_IF_ERROR(MeasureRivals());
    if (tried_[quietest].fits) RETURN_IF_ERROR(TryEstimates("estimate"));
    if (!Best()) return Finish(quietest);
    RETURN_IF_ERROR(Refine());
    return Finish(*Best());
  }

 private:
  StatusOr<bool> Fits(const TriedChoice& t) const override {
    ASSIGN_OR_RETURN(const std::vector<GateVerdict> verdicts, JudgeGates(conditions_, t.outcome.measures));
    return std::isfinite(t.outcome.noise) &&
           std::all_of(verdicts.begin(), verdicts.end(), [](const GateVerdict& v) { return v.met; });
  }
  bool Better(const TriedChoice& a, const TriedChoice& b) const override { return FewerBits(a, b); }

  // Where along the noise allowed the conditions cease to hold: the range is halved between what met them and what did
  // not.
  Status TryEstimates(const std::string& origin) override {
    double low = INFINITY;
    double high = 0;
    for (const ChoiceItem& item : corrected_) {
      double most = 0;
      for (const Alternative& a : item.alternatives) {
        if (a.noise > 0) low = std::min(low, a.noise);
        if (std::isfinite(a.noise)) most = std::max(most, a.noise);
      }
      high += most;
    }
    double next = FirstGuess(low, high);
    for (int i = 0; i < kHalvings && low * kClose < high; ++i) {
      const std::optional<Choice> choice = FewestBits(corrected_, next);
      bool met = choice.has_value();
      if (choice) {
        ASSIGN_OR_RETURN(const size_t at, Measure(origin, *choice));
        met = tried_[at].fits;
      }
      (met ? low : high) = next;
      next = std::sqrt(low) * std::sqrt(high);
    }
    return OkStatus();
  }

  double FirstGuess(double low, double high) const {
    for (const Gate& gate : conditions_) {
      if (gate.metric == "sqnr" && low < high) return std::clamp(std::pow(10, -gate.limit / 10), low, high);
    }
    return std::sqrt(low) * std::sqrt(high);
  }

  std::vector<Choice> Changes(const TriedChoice& best, size_t count) const override {
    const double noise = NoiseOf(corrected_, best.choice);
    return Neighbours(corrected_, best.choice, best.bits - 1, noise * kSlack, Order::kFewestBits, count);
  }

  const std::vector<Gate>& conditions_;
};

}  // namespace

StatusOr<SearchResult> SearchWithin(const std::vector<ChoiceItem>& items, const SizeLimit& limit,
                                    const SearchSettings& settings) {
  return WithinSize(items, limit, settings).Run();
}

StatusOr<SearchResult> SearchMeeting(const std::vector<ChoiceItem>& items, const std::vector<Gate>& conditions,
                                     const SearchSettings& settings) {
  return MeetingConditions(items, conditions, settings).Run();
}

}  // namespace quant
