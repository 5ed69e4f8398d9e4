#include "tools/auto_report.h"

#include <algorithm>
#include <cmath>

#include "libquant/search/sensitivity.h"
#include "tools/units.h"

namespace quant {
namespace {

constexpr size_t kShownTries = 12;
constexpr int kBarWidth = 24;
constexpr double kMostDecibels = 200;  // where nothing is lost a plot ends

std::string Decibels(double noise) { return fmt::format("{:.1f}", DecibelsOf(noise)); }

double BitsEach(int64_t bits, int64_t elements) {
  return elements == 0 ? 0 : static_cast<double>(bits) / static_cast<double>(elements);
}

// "41.2 (5.00)": what is lost when this weight alone is so stored, and the size.
ReportCell AlternativeCell(const WeightUnit& unit, const ChoiceItem& item, size_t candidate) {
  const std::optional<size_t> a = unit.alternatives[candidate];
  if (!a) return "-";
  if (unit.candidates[*a] != candidate) return "= " + item.alternatives[*a].label;
  const Alternative& alternative = item.alternatives[*a];
  return {fmt::format("{} ({:.2f})", Decibels(alternative.noise), BitsEach(alternative.bits, unit.elements)),
          alternative.noise};
}

void AddCandidateColumns(const WeightFormats& formats, ReportTable& table) {
  for (const CandidateFormat& c : formats.candidates()) {
    if (!c.is_float) table.columns.push_back(c.label);
  }
}

void AddCandidateCells(const WeightFormats& formats, size_t unit, std::vector<ReportCell>& row) {
  for (size_t c = 0; c < formats.candidates().size(); ++c) {
    if (formats.candidates()[c].is_float) continue;
    row.push_back(AlternativeCell(formats.units()[unit], formats.items()[unit], c));
  }
}

constexpr const char* kCells =
    "For each candidate: SQNR in dB of the worst output when this weight alone is stored so (in brackets: bits per "
    "element). =: the same form as that one; -: no such form.";

ReportTable ChoiceTable(const FormatChoice& choice) {
  ReportTable table{{"weight", "elements", "chosen"}, {}};
  AddCandidateColumns(choice.formats, table);
  for (size_t i = 0; i < choice.formats.units().size(); ++i) {
    const ChoiceItem& item = choice.formats.items()[i];
    const int64_t elements = choice.formats.units()[i].elements;
    std::vector<ReportCell> row = {item.name, ReportCell(Grouped(elements), static_cast<double>(elements)),
                                   item.alternatives[choice.best().choice[i]].label};
    AddCandidateCells(choice.formats, i, row);
    table.rows.push_back(std::move(row));
  }
  return table;
}

// What was measured as a whole, the chosen one first, then what came nearest.
ReportTable TriedTable(const FormatChoice& choice) {
  const std::vector<TriedChoice>& tried = choice.result.tried;
  std::vector<size_t> order;
  for (size_t i = 0; i < tried.size(); ++i) {
    if (i != choice.result.best) order.push_back(i);
  }
  const bool by_size = choice.goal.starts_with("--auto");
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    if (tried[a].fits != tried[b].fits) return tried[a].fits;
    return by_size ? tried[a].bits < tried[b].bits : tried[a].outcome.noise < tried[b].outcome.noise;
  });
  order.insert(order.begin(), choice.result.best);
  ReportTable table{{"choice", "bits per weight", "bytes", "SQNR dB estimated", "SQNR dB measured", "verdict"}, {}};
  table.shown = kShownTries;
  for (const size_t i : order) {
    const TriedChoice& t = tried[i];
    const double bits = BitsEach(t.bits, choice.formats.elements());
    const char* verdict = i == choice.result.best ? (t.fits ? "chosen" : "nearest") : nullptr;
    if (verdict == nullptr) verdict = t.fits ? (by_size ? "larger" : "more noise") : by_size ? "not met" : "too large";
    table.rows.push_back({t.origin, ReportCell(fmt::format("{:.3f}", bits), bits),
                          ReportCell(Grouped(t.outcome.bytes), static_cast<double>(t.outcome.bytes)),
                          ReportCell(Decibels(t.estimate), DecibelsOf(t.estimate)),
                          ReportCell(Decibels(t.outcome.noise), DecibelsOf(t.outcome.noise)), verdict});
  }
  return table;
}

Json AlternativesJson(const ChoiceItem& item) {
  Json out = Json::Array();
  for (const Alternative& a : item.alternatives) {
    out.Append(Json::Object().Set("format", a.label).Set("bits", a.bits).Set("sqnr_db", DecibelsOf(a.noise)));
  }
  return out;
}

Json UnitJson(const WeightUnit& unit, const ChoiceItem& item) {
  Json out = Json::Object().Set("weights", unit.weights).Set("op_type", unit.op_type).Set("node", unit.node);
  return out.Set("elements", unit.elements).Set("alternatives", AlternativesJson(item));
}

Json ChoiceJson(const FormatChoice& choice) {
  Json weights = Json::Array();
  for (size_t i = 0; i < choice.formats.units().size(); ++i) {
    const ChoiceItem& item = choice.formats.items()[i];
    weights.Append(
        UnitJson(choice.formats.units()[i], item).Set("chosen", item.alternatives[choice.best().choice[i]].label));
  }
  Json tried = Json::Array();
  for (const TriedChoice& t : choice.result.tried) {
    Json row = Json::Object().Set("choice", t.origin).Set("bits", t.bits).Set("bytes", t.outcome.bytes);
    row.Set("estimated_sqnr_db", DecibelsOf(t.estimate)).Set("sqnr_db", DecibelsOf(t.outcome.noise));
    Json labels = Json::Array();
    for (size_t i = 0; i < t.choice.size(); ++i) {
      labels.Append(choice.formats.items()[i].alternatives[t.choice[i]].label);
    }
    tried.Append(row.Set("fits", t.fits).Set("formats", labels));
  }
  Json out = Json::Object().Set("goal", choice.goal).Set("found", choice.result.found);
  out.Set("bits_per_weight", BitsEach(choice.best().bits, choice.formats.elements()));
  out.Set("bytes", choice.best().outcome.bytes).Set("estimated_sqnr_db", DecibelsOf(choice.best().estimate));
  out.Set("sqnr_db", DecibelsOf(choice.best().outcome.noise)).Set("best", static_cast<int64_t>(choice.result.best));
  return out.Set("weights", weights).Set("tried", tried);
}

// Noise of a weight's smallest form.
double SmallestNoise(const ChoiceItem& item) {
  return std::min_element(item.alternatives.begin(), item.alternatives.end(),
                          [](const Alternative& a, const Alternative& b) { return a.bits < b.bits; })
      ->noise;
}

ReportTable RankTable(const WeightFormats& formats) {
  ReportTable table{{"rank", "weight", "operator", "dims", "share of noise"}, {}};
  AddCandidateColumns(formats, table);
  double most = 0;
  for (const ChoiceItem& item : formats.items()) {
    if (std::isfinite(SmallestNoise(item))) most = std::max(most, SmallestNoise(item));
  }
  size_t rank = 0;
  for (const size_t i : RankBySensitivity(formats.items())) {
    const ChoiceItem& item = formats.items()[i];
    const WeightUnit& unit = formats.units()[i];
    const double noise = SmallestNoise(item);
    const double part = !std::isfinite(noise) ? 1 : most > 0 ? noise / most : 0;
    const auto width = static_cast<size_t>(std::ceil(part * kBarWidth));
    ++rank;
    std::vector<ReportCell> row = {ReportCell(std::to_string(rank), static_cast<double>(rank)), item.name, unit.op_type,
                                   ToString(unit.dims), ReportCell(std::string(width, '#'), part)};
    AddCandidateCells(formats, i, row);
    table.rows.push_back(std::move(row));
  }
  return table;
}

ReportPlot AlongGraph(const WeightFormats& formats) {
  ReportPlot plot{"SQNR with one weight quantized, along the graph",
                  "weight, in order of first use",
                  "SQNR dB",
                  false,
                  false,
                  {},
                  {}};
  for (size_t c = 0; c < formats.candidates().size(); ++c) {
    if (formats.candidates()[c].is_float) continue;
    PlotSeries series{formats.candidates()[c].label, {}, true};
    for (size_t i = 0; i < formats.units().size(); ++i) {
      const std::optional<size_t> a = formats.units()[i].alternatives[c];
      if (!a) continue;
      const double decibels = DecibelsOf(formats.items()[i].alternatives[*a].noise);
      series.points.push_back({static_cast<double>(i), std::min(decibels, kMostDecibels), formats.items()[i].name});
    }
    if (!series.points.empty()) plot.series.push_back(std::move(series));
  }
  return plot;
}

}  // namespace

void AddChoice(const FormatChoice& choice, Report& report) {
  const TriedChoice& best = choice.best();
  ReportSection choices{"Choices", {}, true};
  if (!choice.formats.units().empty()) {
    choices.blocks.emplace_back(ChoiceTable(choice));
    choices.blocks.emplace_back(kCells);
  } else {
    choices.blocks.emplace_back("no weight that there is a choice for");
  }
  report.sections.push_back(std::move(choices));
  report.sections.push_back({"Measured as a whole", {TriedTable(choice)}, true});
  report.facts.emplace_back(
      choice.goal,
      fmt::format("{}{:.3f} bits per weight, {} bytes, SQNR {} dB (the sum of single weights: {} dB)",
                  choice.result.found ? "" : "not reached; nearest: ", BitsEach(best.bits, choice.formats.elements()),
                  Grouped(best.outcome.bytes), Decibels(best.outcome.noise), Decibels(best.estimate)));
  report.data.Set("search", ChoiceJson(choice));
}

void AddSensitivity(const WeightFormats& formats, double base_noise, Report& report) {
  ReportSection ranking{"Weights by sensitivity", {}, true};
  if (formats.units().empty()) {
    ranking.blocks.emplace_back("no weight that there is a choice for");
  } else {
    ranking.blocks.emplace_back(RankTable(formats));
    ranking.blocks.emplace_back(std::string(kCells) +
                                " #: noise of the smallest form over that of the most sensitive weight.");
    report.sections.push_back({"Along the graph", {AlongGraph(formats)}, false});
  }
  report.sections.insert(report.sections.begin(), std::move(ranking));
  report.facts.emplace_back("weights",
                            fmt::format("{} with {} elements", formats.units().size(), Grouped(formats.elements())));
  if (base_noise > 0) report.facts.emplace_back("SQNR dB with all of them float", Decibels(base_noise));
  Json weights = Json::Array();
  for (const size_t i : RankBySensitivity(formats.items())) {
    weights.Append(UnitJson(formats.units()[i], formats.items()[i]).Set("place", static_cast<int64_t>(i)));
  }
  report.data.Set("base_sqnr_db", DecibelsOf(base_noise)).Set("weights", weights);
}

}  // namespace quant
