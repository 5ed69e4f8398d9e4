#include "libquant/search/sensitivity.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace quant {

double NoiseFrom(const Measures& measures) {
  const auto it = std::find_if(measures.begin(), measures.end(), [](const auto& m) { return m.first == "sqnr"; });
  if (it == measures.end()) return 0;  // no output has numbers to be off by
  const double noise = std::pow(10, -it->second / 10);
  return std::isnan(noise) ? INFINITY : noise;
}

double DecibelsOf(double noise) { return -10 * std::log10(noise); }

StatusOr<double> MeasureSensitivity(WeightFormats& formats, const SensitivityOptions& options) {
  int64_t all = formats.changes_others() ? 1 : 0;
  for (const WeightUnit& unit : formats.units()) {
    for (const size_t c : unit.candidates) all += formats.candidates()[c].is_float ? 0 : 1;
  }
  int64_t done = 0;
  const auto measure = [&](int64_t unit, size_t alternative) -> StatusOr<double> {
    ASSIGN_OR_RETURN(const double noise, options.measure(formats.OptionsForOne(unit, alternative)));
    if (options.progress) options.progress(++done, all);
    return noise;
  };
  double base = 0;
  if (formats.changes_others()) {
    ASSIGN_OR_RETURN(base, measure(-1, 0));
  }
  for (size_t i = 0; i < formats.units().size(); ++i) {
    for (size_t a = 0; a < formats.items()[i].alternatives.size(); ++a) {
      Alternative& alternative = formats.items()[i].alternatives[a];
      alternative.noise = 0;
      if (formats.candidates()[formats.units()[i].candidates[a]].is_float) continue;
      ASSIGN_OR_RETURN(const double noise, measure(static_cast<int64_t>(i), a));
      alternative.noise = std::isfinite(base) ? std::max(0.0, noise - base) : noise;
    }
  }
  return base;
}

std::vector<size_t> RankBySensitivity(const std::vector<ChoiceItem>& items) {
  const auto worst = [&](size_t i) {
    const auto& alternatives = items[i].alternatives;
    return std::min_element(alternatives.begin(), alternatives.end(),
                            [](const Alternative& a, const Alternative& b) {
                              return a.bits != b.bits ? a.bits < b.bits : a.noise > b.noise;
                            })
        ->noise;
  };
  std::vector<size_t> order(items.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return worst(a) > worst(b); });
  return order;
}

}  // namespace quant
