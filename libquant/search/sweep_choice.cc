// Which rows of a sweep to look at, and which to take.
#include <algorithm>
#include <cmath>

#include "libquant/search/sweep.h"

namespace quant {
namespace {

constexpr double kUsualDrop = 1, kUsualSqnr = 20;

double Value(const SweepRow& row, const char* measure) { return row.Measure(measure).value_or(std::nan("")); }

// A NaN is within no limit.
bool Within(const SweepRow& row, const SweepLimits& limits, bool size, bool error) {
  if (!row.failed.empty()) return false;
  bool good = true;
  if (size && limits.max_size_ratio) good = good && Value(row, "size.ratio") <= *limits.max_size_ratio;
  if (size && limits.max_bytes) good = good && row.bytes <= *limits.max_bytes;
  if (error && limits.max_drop) good = good && Value(row, "accuracy.drop") <= *limits.max_drop;
  if (error && limits.min_sqnr) good = good && Value(row, "sqnr") >= *limits.min_sqnr;
  return good;
}

std::string LimitsText(const SweepLimits& limits) {
  std::vector<std::string> parts;
  if (limits.max_size_ratio)
    parts.push_back(fmt::format("at most {:g} % of the float bytes", *limits.max_size_ratio * 100));
  if (limits.max_bytes) parts.push_back(fmt::format("at most {} bytes", *limits.max_bytes));
  if (limits.max_drop) {
    parts.push_back(fmt::format("a drop of at most {:g} point{}", *limits.max_drop, *limits.max_drop == 1 ? "" : "s"));
  }
  if (limits.min_sqnr) parts.push_back(fmt::format("an SQNR of at least {:g} dB", *limits.min_sqnr));
  std::string out;
  for (size_t i = 0; i < parts.size(); ++i) {
    out += (i == 0 ? "" : i + 1 == parts.size() ? " and " : ", ") + parts[i];
  }
  return out;
}

std::string RowText(const SweepRow& row) {
  std::string out =
      fmt::format("{:.1f} % of the float bytes, SQNR {:.2f} dB", Value(row, "size.ratio") * 100, Value(row, "sqnr"));
  if (const auto drop = row.Measure("accuracy.drop")) out += fmt::format(", drop {:.2f} points", *drop);
  return out;
}

bool Smaller(const SweepRow& a, const SweepRow& b) {
  if (a.bytes != b.bytes) return a.bytes < b.bytes;
  return Value(a, "sqnr") > Value(b, "sqnr");
}
bool MoreExact(const SweepRow& a, const SweepRow& b) {
  const double x = Value(a, "sqnr"), y = Value(b, "sqnr");
  if (std::isnan(x) || std::isnan(y)) return !std::isnan(x);
  return x != y ? x > y : a.bytes < b.bytes;
}

std::optional<size_t> Best(const std::vector<SweepRow>& rows, const std::vector<size_t>& among,
                           bool (*better)(const SweepRow&, const SweepRow&)) {
  std::optional<size_t> best;
  for (const size_t i : among) {
    if (!best || better(rows[i], rows[*best])) best = i;
  }
  return best;
}

// What comes nearest when nothing is within the limits.
std::string Nearest(const std::vector<SweepRow>& rows, const SweepLimits& limits) {
  std::vector<size_t> measured, small;
  for (size_t i = 0; i < rows.size(); ++i) {
    if (rows[i].failed.empty()) measured.push_back(i);
    if (Within(rows[i], limits, true, false)) small.push_back(i);
  }
  if (measured.empty()) return "nothing was measured";
  if (small.empty()) {
    const SweepRow& row = rows[*Best(rows, measured, Smaller)];
    return fmt::format("the smallest is {} ({})", row.name, RowText(row));
  }
  const SweepRow& row = rows[*Best(rows, small, MoreExact)];
  return fmt::format("the most exact{} is {} ({})", limits.size() ? " within the size" : "", row.name, RowText(row));
}

}  // namespace

std::vector<size_t> ParetoFront(const std::vector<SweepRow>& rows, const std::string& measure) {
  std::vector<size_t> order;
  for (size_t i = 0; i < rows.size(); ++i) {
    const auto value = rows[i].Measure(measure);
    if (rows[i].failed.empty() && value && !std::isnan(*value)) order.push_back(i);
  }
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    if (rows[a].bytes != rows[b].bytes) return rows[a].bytes < rows[b].bytes;
    return *rows[a].Measure(measure) > *rows[b].Measure(measure);
  });
  std::vector<size_t> front;
  for (const size_t i : order) {
    if (front.empty() || *rows[i].Measure(measure) > *rows[front.back()].Measure(measure)) front.push_back(i);
  }
  return front;
}

Recommendation Recommend(const std::vector<SweepRow>& rows, const SweepLimits& limits) {
  SweepLimits held = limits;
  const bool labelled = std::any_of(rows.begin(), rows.end(), [](const auto& r) { return r.Measure("accuracy.drop"); });
  if (!limits.any()) {
    (labelled ? held.max_drop : held.min_sqnr) = labelled ? kUsualDrop : kUsualSqnr;
  }
  std::vector<size_t> fitting;
  for (size_t i = 0; i < rows.size(); ++i) {
    if (Within(rows[i], held, true, true)) fitting.push_back(i);
  }
  const std::string given = limits.any() ? "" : " (no limit was given; this one is usual)";
  if (fitting.empty()) {
    return {std::nullopt,
            fmt::format("none of {} has {}{}; {}", rows.size(), LimitsText(held), given, Nearest(rows, held))};
  }
  const bool by_size = held.error();
  const size_t best = *Best(rows, fitting, by_size ? Smaller : MoreExact);
  const std::string of = fitting.size() == 1
                             ? "the only one"
                             : fmt::format("{} of the {}", by_size ? "the smallest" : "the most exact", fitting.size());
  return {best, fmt::format("{}: {} with {}{}: {}", rows[best].name, of, LimitsText(held), given, RowText(rows[best]))};
}

}  // namespace quant
