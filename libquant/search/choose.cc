#include "libquant/search/choose.h"

#include <algorithm>
#include <cmath>

namespace quant {
namespace {

// Stands for an infinite noise, so that sums and differences stay numbers.
constexpr double kEndless = 1e30;
constexpr int kMostSweeps = 50;
// An exchange has to gain more than rounding could make up.
constexpr double kLeastGain = 1e-12;

// Both questions are one: the least of one quantity within a limit on the other.
struct Option {
  double objective = 0;
  double cost = 0;
};
using Options = std::vector<std::vector<Option>>;

double Bounded(double noise) { return std::isfinite(noise) ? std::min(noise, kEndless) : kEndless; }

Options OptionsOf(const std::vector<ChoiceItem>& items, bool least_noise) {
  Options out;
  for (const ChoiceItem& item : items) {
    std::vector<Option>& row = out.emplace_back();
    for (const Alternative& a : item.alternatives) {
      const auto bits = static_cast<double>(a.bits);
      row.push_back(least_noise ? Option{Bounded(a.noise), bits} : Option{bits, Bounded(a.noise)});
    }
  }
  return out;
}

double CostOf(const Options& options, const Choice& choice) {
  double sum = 0;
  for (size_t i = 0; i < choice.size(); ++i) sum += options[i][choice[i]].cost;
  return sum;
}

class Chooser {
 public:
  Chooser(const Options& options, double limit) : options_(options), limit_(limit) {}

  std::optional<Choice> Choose() {
    choice_.clear();
    for (const auto& row : options_) {
      const auto cheapest = std::min_element(row.begin(), row.end(), [](const Option& a, const Option& b) {
        return a.cost != b.cost ? a.cost < b.cost : a.objective < b.objective;
      });
      choice_.push_back(static_cast<size_t>(cheapest - row.begin()));
    }
    if (CostOf(options_, choice_) > limit_) return std::nullopt;
    while (BestStep()) {
    }
    for (int sweep = 0; sweep < kMostSweeps; ++sweep) {
      if (!Exchange()) break;
      while (BestStep()) {
      }
    }
    return choice_;
  }

 private:
  const Option& At(size_t item) const { return options_[item][choice_[item]]; }

  // The change of one item that gains most for what it costs, among those that fit.
  bool BestStep() {
    const double left = limit_ - CostOf(options_, choice_);
    double best = 0;
    std::optional<std::pair<size_t, size_t>> step;
    for (size_t i = 0; i < options_.size(); ++i) {
      for (size_t a = 0; a < options_[i].size(); ++a) {
        const double gain = At(i).objective - options_[i][a].objective;
        const double cost = options_[i][a].cost - At(i).cost;
        if (gain <= kLeastGain * std::abs(At(i).objective) || cost > left) continue;
        const double value = cost <= 0 ? INFINITY : gain / cost;
        if (value > best) {
          best = value;
          step = {i, a};
        }
      }
    }
    if (!step) return false;
    choice_[step->first] = step->second;
    return true;
  }

  // For each item the partner whose change with it gains most.
  bool Exchange() {
    bool any = false;
    for (size_t i = 0; i < options_.size(); ++i) {
      for (size_t a = 0; a < options_[i].size(); ++a) any |= a != choice_[i] && ExchangeWith(i, a);
    }
    return any;
  }

  bool ExchangeWith(size_t i, size_t a) {
    const double left = limit_ - CostOf(options_, choice_);
    const double gain_i = At(i).objective - options_[i][a].objective;
    const double cost_i = options_[i][a].cost - At(i).cost;
    double best = kLeastGain * (std::abs(At(i).objective) + std::abs(options_[i][a].objective));
    std::optional<std::pair<size_t, size_t>> partner;
    for (size_t j = 0; j < options_.size(); ++j) {
      if (j == i) continue;
      for (size_t b = 0; b < options_[j].size(); ++b) {
        const double gain = gain_i + At(j).objective - options_[j][b].objective;
        if (gain <= best || cost_i + options_[j][b].cost - At(j).cost > left) continue;
        best = gain;
        partner = {j, b};
      }
    }
    if (!partner) return false;
    choice_[i] = a;
    choice_[partner->first] = partner->second;
    return true;
  }

  const Options& options_;
  double limit_;
  Choice choice_;
};

struct MoveLimits {
  int64_t bits = 0;
  double noise = 0;
  Order order = Order::kLeastNoise;
  size_t count = 0;
};

// Changes of one or two items of a choice.
class Moves {
 public:
  Moves(const std::vector<ChoiceItem>& items, const Choice& from, const MoveLimits& limits)
      : items_(items), from_(from), limits_(limits), bits_(BitsOf(items, from)), noise_(NoiseOf(items, from)) {}

  // Item i gets alternative a, alone and with every change of a later item.
  void AddAll(size_t i, size_t a) {
    if (!Usable(i, a)) return;
    Add({bits_ + Bits(i, a), noise_ + Noise(i, a), i, a, i, a});
    for (size_t j = i + 1; j < items_.size(); ++j) {
      for (size_t b = 0; b < items_[j].alternatives.size(); ++b) {
        if (!Usable(j, b)) continue;
        Add({bits_ + Bits(i, a) + Bits(j, b), noise_ + Noise(i, a) + Noise(j, b), i, a, j, b});
      }
    }
  }

  // Forgets those that come too late in the order, once there are more than `most`.
  void Trim(size_t most) {
    if (moves_.size() <= most && most > limits_.count) return;
    std::stable_sort(moves_.begin(), moves_.end(), [&](const Move& x, const Move& y) {
      const bool by_noise = limits_.order == Order::kLeastNoise;
      if (by_noise) return x.noise != y.noise ? x.noise < y.noise : x.bits < y.bits;
      return x.bits != y.bits ? x.bits < y.bits : x.noise < y.noise;
    });
    if (moves_.size() > limits_.count) moves_.resize(limits_.count);
  }

  std::vector<Choice> Choices() const {
    std::vector<Choice> out;
    for (const Move& move : moves_) {
      Choice& choice = out.emplace_back(from_);
      choice[move.i] = move.a;
      choice[move.j] = move.b;
    }
    return out;
  }

 private:
  struct Move {
    int64_t bits;
    double noise;
    size_t i, a, j, b;  // j == i: one item alone
  };

  bool Usable(size_t i, size_t a) const { return a != from_[i] && std::isfinite(items_[i].alternatives[a].noise); }
  int64_t Bits(size_t i, size_t a) const {
    return items_[i].alternatives[a].bits - items_[i].alternatives[from_[i]].bits;
  }
  double Noise(size_t i, size_t a) const {
    return items_[i].alternatives[a].noise - items_[i].alternatives[from_[i]].noise;
  }
  void Add(const Move& move) {
    if (move.bits <= limits_.bits && move.noise <= limits_.noise) moves_.push_back(move);
  }

  const std::vector<ChoiceItem>& items_;
  const Choice& from_;
  MoveLimits limits_;
  int64_t bits_;
  double noise_;
  std::vector<Move> moves_;
};

}  // namespace

int64_t BitsOf(const std::vector<ChoiceItem>& items, const Choice& choice) {
  int64_t sum = 0;
  for (size_t i = 0; i < items.size(); ++i) sum += items[i].alternatives[choice[i]].bits;
  return sum;
}

double NoiseOf(const std::vector<ChoiceItem>& items, const Choice& choice) {
  double sum = 0;
  for (size_t i = 0; i < items.size(); ++i) sum += items[i].alternatives[choice[i]].noise;
  return sum;
}

std::optional<Choice> LeastNoise(const std::vector<ChoiceItem>& items, int64_t max_bits) {
  const Options options = OptionsOf(items, true);
  return Chooser(options, static_cast<double>(max_bits)).Choose();
}

std::optional<Choice> FewestBits(const std::vector<ChoiceItem>& items, double max_noise) {
  const Options options = OptionsOf(items, false);
  return Chooser(options, max_noise).Choose();
}

std::vector<Choice> Neighbours(const std::vector<ChoiceItem>& items, const Choice& from, int64_t max_bits,
                               double max_noise, Order order, size_t count) {
  Moves moves(items, from, {max_bits, max_noise, order, count});
  for (size_t i = 0; i < items.size(); ++i) {
    for (size_t a = 0; a < items[i].alternatives.size(); ++a) moves.AddAll(i, a);
    moves.Trim(4 * count + 1000);
  }
  moves.Trim(count);
  return moves.Choices();
}

}  // namespace quant
