// Choosing one alternative for each of several items, by sizes and by how much each is thought to add to the error of
// the whole: errors of different items are taken to be independent, so that their energies add up.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace quant {

struct Alternative {
  std::string label;  // "int4 group 32"
  int64_t bits = 0;
  // Energy of the error at the worst output over that of the reference, when this item alone is changed; infinite when
  // the answers are not finite.
  double noise = 0;
};

struct ChoiceItem {
  std::string name;
  std::vector<Alternative> alternatives;  // at least one
};

// Index of each item's alternative.
using Choice = std::vector<size_t>;

int64_t BitsOf(const std::vector<ChoiceItem>& items, const Choice& choice);
// The sum of what the parts are thought to add.
double NoiseOf(const std::vector<ChoiceItem>& items, const Choice& choice);

// The least noise within `max_bits`, the fewest bits within `max_noise`: greedily by gain for cost, then by exchanges
// of one or two items at a time until none helps. nullopt when even the cheapest choice is too large. The same choice
// for the same items; of equals the earlier alternative.
std::optional<Choice> LeastNoise(const std::vector<ChoiceItem>& items, int64_t max_bits);
std::optional<Choice> FewestBits(const std::vector<ChoiceItem>& items, double max_noise);

enum class Order { kLeastNoise, kFewestBits };

// Choices within both limits that differ from `from` in one or two items: the first `count` of them in that order.
std::vector<Choice> Neighbours(const std::vector<ChoiceItem>& items, const Choice& from, int64_t max_bits,
                               double max_noise, Order order, size_t count);

}  // namespace quant
