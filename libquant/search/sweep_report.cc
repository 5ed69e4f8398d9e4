#include "libquant/search/sweep_report.h"

#include <algorithm>
#include <map>

namespace quant {
namespace {

constexpr const char* kSqnr = "sqnr";
constexpr const char* kAccuracy = "accuracy";

ReportCell Number(const std::optional<double>& value, const char* form, double factor = 1) {
  if (!value) return "";
  return {fmt::format(fmt::runtime(form), *value * factor), *value};
}

std::vector<ReportCell> Cells(const SweepRow& row) {
  return {row.name,
          ReportCell(fmt::format("{}", row.bytes), static_cast<double>(row.bytes)),
          Number(row.Measure("size.ratio"), "{:.1f} %", 100),
          Number(row.bits_per_weight, "{:.2f}"),
          Number(row.coverage, "{:.1f} %", 100),
          Number(row.Measure(kSqnr), "{:.2f}"),
          Number(row.Measure(kAccuracy), "{:.2f} %", 100),
          Number(row.Measure("accuracy.drop"), "{:.2f}")};
}

std::vector<std::string> Columns(const char* last) {
  return {"configuration", "bytes", "of float", "bits", "coverage", "SQNR dB", "accuracy", "drop", last};
}

class Writer {
 public:
  Writer(const SweepResults& results, const SweepLimits& limits)
      : head_(results.head),
        rows_(results.rows),
        by_sqnr_(ParetoFront(results.rows, kSqnr)),
        by_accuracy_(ParetoFront(results.rows, kAccuracy)),
        choice_(Recommend(results.rows, limits)),
        limited_(limits.any()) {
    for (size_t i = 0; i < rows_.size(); ++i) row_of_[rows_[i].config] = i;
  }

  Report Write() const {
    Report out;
    out.tool = "sweep";
    out.title = head_.title;
    out.files = head_.files;
    out.config = head_.config;
    out.sections.push_back({"Pareto front", {FrontTable(), Plot(kSqnr, "SQNR dB", by_sqnr_, 1)}, true});
    if (!by_accuracy_.empty()) out.sections[0].blocks.emplace_back(Plot(kAccuracy, "accuracy %", by_accuracy_, 100));
    out.sections.push_back({"All configurations", {AllTable()}, true});
    AddFacts(out);
    AddCases(out);
    if (choice_.row) {
      const SweepRow& row = rows_[*choice_.row];
      out.measures = row.measures;
      out.measures.emplace_back("coverage", row.coverage);
      out.measures.emplace_back("bits_per_weight", row.bits_per_weight);
    }
    out.data = Data();
    return out;
  }

 private:
  static bool Holds(const std::vector<size_t>& front, size_t i) {
    return std::find(front.begin(), front.end(), i) != front.end();
  }

  // Smallest first, with which of the fronts a row is on.
  ReportTable FrontTable() const {
    ReportTable table{Columns("best by"), {}};
    std::vector<size_t> order = by_sqnr_;
    for (const size_t i : by_accuracy_) {
      if (!Holds(by_sqnr_, i)) order.push_back(i);
    }
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return rows_[a].bytes < rows_[b].bytes; });
    for (const size_t i : order) {
      std::vector<ReportCell> cells = Cells(rows_[i]);
      std::string best = Holds(by_sqnr_, i) ? "SQNR" : "";
      if (Holds(by_accuracy_, i)) best += best.empty() ? "accuracy" : ", accuracy";
      if (choice_.row == i) best += "; recommended";
      cells.emplace_back(best);
      table.rows.push_back(std::move(cells));
    }
    return table;
  }

  ReportTable AllTable() const {
    ReportTable table{Columns("note"), {}};
    for (size_t c = 0; c < head_.entries.size(); ++c) {
      const SweepEntry& entry = head_.entries[c];
      const auto found = row_of_.find(entry.same_as.value_or(c));
      std::vector<ReportCell> cells(table.columns.size(), "");
      std::string note = entry.refused;
      if (found != row_of_.end() && entry.refused.empty()) {
        const SweepRow& row = rows_[found->second];
        note = row.failed;
        if (row.failed.empty()) cells = Cells(row);
        cells.resize(table.columns.size(), "");
      }
      if (entry.same_as) note = "the same model as " + head_.entries[*entry.same_as].name;
      cells.front() = entry.name;
      cells.back() = note;
      table.rows.push_back(std::move(cells));
    }
    return table;
  }

  ReportPlot Plot(const char* measure, const char* axis, const std::vector<size_t>& front, double factor) const {
    ReportPlot plot;
    plot.title = fmt::format("Size and {}", measure == kSqnr ? "SQNR" : measure);
    plot.x_title = "bytes";
    plot.y_title = axis;
    PlotSeries best{"on the front", {}, true}, others{"others", {}, false};
    const auto point = [&](size_t i) {
      return PlotPoint{static_cast<double>(rows_[i].bytes), *rows_[i].Measure(measure) * factor, rows_[i].name};
    };
    for (const size_t i : front) best.points.push_back(point(i));
    for (size_t i = 0; i < rows_.size(); ++i) {
      if (!Holds(front, i) && rows_[i].Measure(measure)) others.points.push_back(point(i));
    }
    plot.series = {std::move(best), std::move(others)};
    if (measure == kAccuracy && ReferenceAccuracy()) plot.marks.emplace_back(*ReferenceAccuracy() * factor, "float");
    return plot;
  }

  std::optional<double> ReferenceAccuracy() const {
    for (const SweepRow& row : rows_) {
      if (row.reference_accuracy) return row.reference_accuracy;
    }
    return std::nullopt;
  }

  void AddFacts(Report& out) const {
    size_t same = 0, refused = 0, failed = 0;
    for (const SweepEntry& e : head_.entries) {
      same += e.same_as.has_value();
      refused += !e.refused.empty();
    }
    for (const SweepRow& row : rows_) failed += !row.failed.empty();
    std::string counts = fmt::format("{}: {} measured", head_.entries.size(), rows_.size() - failed);
    if (same > 0) counts += fmt::format(", {} the same model as another", same);
    if (refused > 0) counts += fmt::format(", {} refused", refused);
    if (failed > 0) counts += fmt::format(", {} failed", failed);
    out.facts.emplace_back("configurations", counts);
    out.facts.emplace_back("samples", fmt::format("{}", head_.samples));
    const auto accuracy = ReferenceAccuracy();
    out.facts.emplace_back("float model",
                           fmt::format("{} bytes{}", head_.float_bytes,
                                       accuracy ? fmt::format(", accuracy {:.2f} %", *accuracy * 100) : ""));
    out.facts.emplace_back("recommended", choice_.reason);
  }

  void AddCases(Report& out) const {
    for (const SweepRow& row : rows_) {
      ReportCase one{"configuration", row.name, true, row.failed};
      if (row.failed.empty()) {
        one.message = fmt::format("{} bytes, SQNR {:.2f} dB", row.bytes, row.Measure(kSqnr).value_or(0));
      }
      out.cases.push_back(std::move(one));
    }
    out.cases.push_back({"recommendation", "within the limits", choice_.row || !limited_, choice_.reason});
  }

  std::vector<std::string> Names(const std::vector<size_t>& front) const {
    std::vector<std::string> names;
    names.reserve(front.size());
    for (const size_t i : front) names.push_back(rows_[i].name);
    return names;
  }

  Json EntryJson(size_t c) const {
    const SweepEntry& entry = head_.entries[c];
    Json out = Json::Object().Set("name", entry.name);
    if (!entry.refused.empty()) return out.Set("refused", entry.refused);
    if (entry.same_as) return out.Set("same_as", head_.entries[*entry.same_as].name);
    const SweepRow& row = rows_[row_of_.at(c)];
    if (!row.failed.empty()) return out.Set("failed", row.failed);
    Json measures = Json::Object();
    for (const auto& [name, value] : row.measures) measures.Set(name, value);
    out.Set("bytes", row.bytes).Set("coverage", row.coverage).Set("bits_per_weight", row.bits_per_weight);
    return out.Set("measures", measures);
  }

  Json Data() const {
    Json configurations = Json::Array();
    for (size_t c = 0; c < head_.entries.size(); ++c) configurations.Append(EntryJson(c));
    Json out = Json::Object().Set("samples", head_.samples).Set("float_bytes", head_.float_bytes);
    if (ReferenceAccuracy()) out.Set("float_accuracy", *ReferenceAccuracy());
    out.Set("configurations", configurations);
    Json fronts = Json::Object().Set("sqnr", Names(by_sqnr_));
    if (!by_accuracy_.empty()) fronts.Set("accuracy", Names(by_accuracy_));
    out.Set("pareto", fronts);
    Json choice = Json::Object().Set("configuration", choice_.row ? Json(rows_[*choice_.row].name) : Json());
    return out.Set("recommended", choice.Set("reason", choice_.reason));
  }

  const SweepHead& head_;
  const std::vector<SweepRow>& rows_;
  std::vector<size_t> by_sqnr_, by_accuracy_;
  Recommendation choice_;
  bool limited_;
  std::map<size_t, size_t> row_of_;  // by configuration
};

}  // namespace

Report SweepReport(const SweepResults& results, const SweepLimits& limits) { return Writer(results, limits).Write(); }

Status CheckLimits(const SweepResults& results, const SweepLimits& limits) {
  const Recommendation choice = Recommend(results.rows, limits);
  return choice.row || !limits.any() ? OkStatus() : GateError("{}", choice.reason);
}

}  // namespace quant
