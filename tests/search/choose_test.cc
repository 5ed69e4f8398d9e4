// Choosing by estimates: known optima, limits that nothing meets, infinite noise.
#include "libquant/search/choose.h"

#include <cmath>
#include <limits>

#include "tests/catch.h"

namespace quant {
namespace {

constexpr double kEndless = std::numeric_limits<double>::infinity();

// As quantization goes: four times the noise for each bit less.
ChoiceItem Layer(int64_t elements, double sensitivity) {
  ChoiceItem item;
  for (const int64_t bits : {2, 4, 8}) {
    item.alternatives.push_back({std::to_string(bits), bits * elements, sensitivity * std::pow(4.0, -bits)});
  }
  item.alternatives.push_back({"float", 32 * elements, 0});
  return item;
}

// By looking at every choice.
double TrueLeastNoise(const std::vector<ChoiceItem>& items, int64_t max_bits) {
  double best = kEndless;
  Choice choice(items.size(), 0);
  for (;;) {
    if (BitsOf(items, choice) <= max_bits) best = std::min(best, NoiseOf(items, choice));
    size_t i = 0;
    while (i < items.size() && ++choice[i] == items[i].alternatives.size()) choice[i++] = 0;
    if (i == items.size()) return best;
  }
}

TEST_CASE("bits go where they gain most") {
  const std::vector<ChoiceItem> items = {Layer(100, 1), Layer(100, 1000), Layer(100, 1)};
  const auto choice = LeastNoise(items, 100 * (4 + 8 + 4));
  REQUIRE(choice);
  CHECK(*choice == Choice{1, 2, 1});
}

TEST_CASE("the least noise is within a little of the true one, for any size") {
  const std::vector<ChoiceItem> items = {Layer(100, 3),  Layer(70, 11), Layer(250, 1),
                                         Layer(31, 200), Layer(90, 7),  Layer(180, 0.5)};
  for (int64_t bits = 2 * 721; bits < 33 * 721; bits += 331) {
    INFO(bits);
    const auto choice = LeastNoise(items, bits);
    REQUIRE(choice);
    CHECK(BitsOf(items, *choice) <= bits);
    CHECK(NoiseOf(items, *choice) <= 1.1 * TrueLeastNoise(items, bits));
    const auto back = FewestBits(items, NoiseOf(items, *choice));
    REQUIRE(back);
    CHECK(NoiseOf(items, *back) <= NoiseOf(items, *choice));
    CHECK(BitsOf(items, *back) <= 1.1 * static_cast<double>(BitsOf(items, *choice)));
  }
}

TEST_CASE("a limit that nothing meets has no choice") {
  const std::vector<ChoiceItem> items = {Layer(10, 1), Layer(10, 1)};
  CHECK(!LeastNoise(items, 39));
  CHECK(LeastNoise(items, 40) == Choice{0, 0});
  CHECK(!FewestBits(items, -1));
  CHECK(FewestBits(items, 0) == Choice{3, 3});
  CHECK(FewestBits(items, 1e9) == Choice{0, 0});
}

TEST_CASE("without items there is one choice, the empty one") {
  CHECK(LeastNoise({}, 0) == Choice{});
  CHECK(FewestBits({}, 0) == Choice{});
  CHECK(Neighbours({}, {}, 0, 0, Order::kLeastNoise, 5).empty());
}

TEST_CASE("what gives answers that are no numbers is chosen last") {
  std::vector<ChoiceItem> items = {Layer(10, 1), Layer(10, 1)};
  items[0].alternatives[0].noise = kEndless;
  items[0].alternatives[1].noise = std::nan("");
  CHECK(LeastNoise(items, 100) == Choice{2, 0});
  CHECK((*FewestBits(items, 1))[0] == 2);
  for (const Choice& choice : Neighbours(items, {2, 0}, 1000, 1e9, Order::kFewestBits, 50)) CHECK(choice[0] >= 2);
}

TEST_CASE("neighbours keep to both limits and come in order") {
  const std::vector<ChoiceItem> items = {Layer(10, 1), Layer(20, 5), Layer(5, 9)};
  const Choice from = {1, 1, 1};
  for (const Order order : {Order::kLeastNoise, Order::kFewestBits}) {
    const auto all = Neighbours(items, from, 300, 0.05, order, 1000);
    REQUIRE(all.size() > 3);
    for (size_t i = 0; i < all.size(); ++i) {
      CHECK(BitsOf(items, all[i]) <= 300);
      CHECK(NoiseOf(items, all[i]) <= 0.05 + 1e-12);
      CHECK(all[i] != from);
      if (i == 0) continue;
      CHECK((order == Order::kLeastNoise ? NoiseOf(items, all[i - 1]) <= NoiseOf(items, all[i]) + 1e-12
                                         : BitsOf(items, all[i - 1]) <= BitsOf(items, all[i])));
    }
    const auto few = Neighbours(items, from, 300, 0.05, order, 3);
    CHECK(few == std::vector<Choice>(all.begin(), all.begin() + 3));
  }
}

}  // namespace
}  // namespace quant
