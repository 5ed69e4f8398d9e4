// The measured search, on models of error whose best choices are known.
#include "libquant/search/format_search.h"

#include <cmath>

#include "tests/catch.h"

namespace quant {
namespace {

ChoiceItem Layer(const std::string& name, int64_t elements, double sensitivity) {
  ChoiceItem item{name, {}};
  for (const int64_t bits : {4, 8}) {
    item.alternatives.push_back({std::to_string(bits), bits * elements, sensitivity * std::pow(4.0, -bits)});
  }
  item.alternatives.push_back({"float", 32 * elements, 0});
  return item;
}

std::vector<ChoiceItem> FourLayers() {
  return {Layer("a", 100, 1), Layer("b", 100, 40), Layer("c", 200, 3), Layer("d", 50, 0.1)};
}

// Errors add up, but that of `b` is `factor` times what it was alone.
SearchSettings Settings(const std::vector<ChoiceItem>& items, double factor, int& runs) {
  SearchSettings settings;
  settings.measure = [&items, factor, &runs](const Choice& choice) -> StatusOr<Outcome> {
    ++runs;
    Outcome out;
    for (size_t i = 0; i < items.size(); ++i) {
      out.noise += items[i].alternatives[choice[i]].noise * (items[i].name == "b" ? factor : 1);
    }
    out.bytes = BitsOf(items, choice) / 8 + 40;
    out.measures = {{"sqnr", -10 * std::log10(out.noise)}};
    return out;
  };
  return settings;
}

Gate Condition(const std::string& text) {
  const auto gate = ParseGate(text);
  REQUIRE(gate.ok());
  return *gate;
}

SearchResult Must(const StatusOr<SearchResult>& result) {
  INFO(Message(result.status()));
  REQUIRE(result.ok());
  return *result;
}

TEST_CASE("within a size, what was estimated is measured and kept when estimates are right") {
  const auto items = FourLayers();
  int runs = 0;
  const SearchResult result = Must(SearchWithin(items, {450 * 5, 1 << 20}, Settings(items, 1, runs)));
  REQUIRE(result.found);
  CHECK(result.tried[result.best].choice == Choice{0, 1, 0, 0});
  CHECK(result.tried[0].estimate == Approx(result.tried[0].outcome.noise));
}

TEST_CASE("changes that are measured mend what estimates get wrong") {
  const auto items = FourLayers();
  int runs = 0;
  // Alone b seemed to matter most; together with the others it does not.
  const SearchResult result = Must(SearchWithin(items, {450 * 5, 1 << 20}, Settings(items, 1e-3, runs)));
  REQUIRE(result.found);
  CHECK(result.tried[0].choice == Choice{0, 1, 0, 0});
  CHECK(result.tried[result.best].choice[1] == 0);
  CHECK(result.tried[result.best].outcome.noise < result.tried[0].outcome.noise);
}

TEST_CASE("a rival that is better is taken") {
  const auto items = FourLayers();
  int runs = 0;
  SearchSettings settings = Settings(items, 1e-3, runs);
  settings.rounds = 0;
  settings.rivals = {{1, 0, 0, 0}};
  settings.rival_names = {"mine"};
  const SearchResult result = Must(SearchWithin(items, {450 * 5, 1 << 20}, settings));
  CHECK(result.tried[result.best].origin == "mine");
}

TEST_CASE("a size in bytes counts what files hold beside weights") {
  const auto items = FourLayers();
  int runs = 0;
  for (const int64_t bytes : {265, 280, 300, 400}) {
    const SearchResult result = Must(SearchWithin(items, {bytes * 8, bytes}, Settings(items, 1, runs)));
    REQUIRE(result.found);
    CHECK(result.tried[result.best].outcome.bytes <= bytes);
    CHECK(result.tried[result.best].outcome.bytes > bytes - 60);
  }
}

TEST_CASE("a size that nothing fits leaves the smallest choice as the nearest") {
  const auto items = FourLayers();
  int runs = 0;
  for (const SizeLimit limit : {SizeLimit{100, 1 << 20}, SizeLimit{1 << 20, 100}, SizeLimit{-5, -5}}) {
    const SearchResult result = Must(SearchWithin(items, limit, Settings(items, 1, runs)));
    CHECK(!result.found);
    CHECK(result.tried[result.best].choice == Choice{0, 0, 0, 0});
  }
}

TEST_CASE("a size with room for all leaves everything float") {
  const auto items = FourLayers();
  int runs = 0;
  const SearchResult result = Must(SearchWithin(items, {450 * 32, 1 << 20}, Settings(items, 1, runs)));
  REQUIRE(result.found);
  CHECK(result.tried[result.best].choice == Choice{2, 2, 2, 2});
}

TEST_CASE("the smallest choice that meets a condition, though estimates are off") {
  const auto items = FourLayers();
  for (const double factor : {1.0, 0.01, 20.0}) {
    for (const char* text : {"sqnr>=10", "sqnr>=20", "sqnr>=30", "sqnr>=40"}) {
      INFO(text << " " << factor);
      int runs = 0;
      const Gate gate = Condition(text);
      const SearchResult result = Must(SearchMeeting(items, {gate}, Settings(items, factor, runs)));
      REQUIRE(result.found);
      // Against every choice there is.
      int64_t least = INT64_MAX;
      SearchSettings all = Settings(items, factor, runs);
      for (size_t i = 0; i < 81; ++i) {
        const Choice choice = {i % 3, i / 3 % 3, i / 9 % 3, i / 27};
        const auto outcome = all.measure(choice);
        if (outcome->measures[0].second >= gate.limit) least = std::min(least, BitsOf(items, choice));
      }
      const TriedChoice& best = result.tried[result.best];
      CHECK(best.fits);
      CHECK(best.outcome.measures[0].second >= gate.limit);
      CHECK(best.bits <= least * 1.15);
    }
  }
}

TEST_CASE("a condition that nothing meets, and one that everything does") {
  auto items = FourLayers();
  int runs = 0;
  for (ChoiceItem& item : items) item.alternatives.pop_back();
  SearchResult result = Must(SearchMeeting(items, {Condition("sqnr>=90")}, Settings(items, 1, runs)));
  CHECK(!result.found);
  CHECK(result.tried[result.best].choice == Choice{1, 1, 1, 1});
  result = Must(SearchMeeting(items, {Condition("sqnr>=-50")}, Settings(items, 1, runs)));
  CHECK(result.found);
  CHECK(result.tried[result.best].choice == Choice{0, 0, 0, 0});
}

TEST_CASE("answers that are no numbers fit nothing") {
  auto items = FourLayers();
  items[0].alternatives[0].noise = INFINITY;
  SearchSettings settings;
  settings.measure = [](const Choice& choice) -> StatusOr<Outcome> {
    const bool bad = choice[0] == 0;
    return Outcome{bad ? std::nan("") : 0.1, {{"sqnr", bad ? std::nan("") : 10}}, 10};
  };
  const SearchResult within = Must(SearchWithin(items, {1800, 1 << 20}, settings));
  CHECK(!within.found);
  const SearchResult more = Must(SearchWithin(items, {2200, 1 << 20}, settings));
  REQUIRE(more.found);
  CHECK(more.tried[more.best].choice[0] == 1);
  const SearchResult meeting = Must(SearchMeeting(items, {Condition("sqnr>=5")}, settings));
  REQUIRE(meeting.found);
  CHECK(meeting.tried[meeting.best].choice[0] != 0);
}

TEST_CASE("what can't be measured ends the search with its error") {
  const auto items = FourLayers();
  SearchSettings settings;
  settings.measure = [](const Choice&) -> StatusOr<Outcome> { return DataError("no such thing"); };
  CHECK(Message(SearchWithin(items, {1 << 20, 1 << 20}, settings).status()) == "no such thing");
  int runs = 0;
  CHECK(ExitCode(SearchMeeting(items, {Condition("top1>=0.5")}, Settings(items, 1, runs)).status()) == 2);
}

TEST_CASE("without items the model as it is is measured") {
  int runs = 0;
  const std::vector<ChoiceItem> none;
  CHECK(Must(SearchWithin(none, {0, 100}, Settings(none, 1, runs))).found);
  CHECK(Must(SearchMeeting(none, {Condition("sqnr>=30")}, Settings(none, 1, runs))).found);
}

}  // namespace
}  // namespace quant
