// Markdown for a comment on a pull request, as GitHub and GitLab show it: verdict and gates first, long parts folded,
// tables short. A comment holds 65,536 characters; longer reports are written again with shorter tables.
#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>

#include "libquant/base/version.h"
#include "libquant/report/html_text.h"
#include "libquant/report/plain_text.h"
#include "libquant/report/report.h"

namespace quant {
namespace {

constexpr size_t kMostBytes = 60000;
constexpr std::array<size_t, 5> kRows = {25, 10, 5, 2, 0};  // of a table, tried in turn
constexpr size_t kCellWidth = 80;
constexpr size_t kFoldedFrom = 12;  // lines from which a section is folded
constexpr size_t kWorstPoints = 5;

bool IsWord(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0; }

// Whether a renderer would mention a person or link an issue, a label, a milestone: "@name", "#12", "%9". That happens
// after Markdown is done and spares nothing but code.
bool Refers(std::string_view line) {
  for (size_t i = 0; i + 1 < line.size(); ++i) {
    if (std::string_view("@#!~$&%").find(line[i]) != std::string_view::npos &&
        (IsWord(line[i + 1]) || line[i + 1] == '"')) {
      return true;
    }
  }
  return false;
}

// Whether the character at i could begin markup, end a cell or make a link.
bool IsMarkup(std::string_view line, size_t i) {
  if (std::string_view("\\`*[]<>|#~&@$").find(line[i]) != std::string_view::npos) return true;
  const bool word_before = i > 0 && IsWord(line[i - 1]);
  const bool word_after = i + 1 < line.size() && IsWord(line[i + 1]);
  if (line[i] == '_') return !(word_before && word_after);
  return line[i] == ':' && i + 1 < line.size() && line[i + 1] != ' ';
}

// One line. Names come from files: they show as they are, whatever they hold. Entities are plain to all renderers; a
// backslash is not within HTML.
std::string Escaped(std::string_view text, size_t width = 4000) {
  const std::string line = ElidedLine(text, width);
  std::string out;
  for (size_t i = 0; i < line.size(); ++i) {
    out += IsMarkup(line, i) ? fmt::format("&#{};", static_cast<int>(line[i])) : std::string(1, line[i]);
  }
  return Refers(line) ? "<code>" + out + "</code>" : out;
}

std::string Row(const std::vector<std::string>& cells) {
  std::string out = "|";
  for (const std::string& cell : cells) out += " " + cell + " |";
  return out + "\n";
}

std::string TableMarkdown(const ReportTable& table, size_t most) {
  if (table.rows.empty()) return "none\n";
  const size_t shown = std::min({table.rows.size(), table.shown, most});
  if (shown == 0) return fmt::format("a table of {} rows is left out here\n", table.rows.size());
  std::vector<std::string> heads, rules;
  for (size_t i = 0; i < table.columns.size(); ++i) {
    heads.push_back(Escaped(table.columns[i], kCellWidth));
    const bool numbers =
        std::any_of(table.rows.begin(), table.rows.end(), [&](const auto& r) { return i < r.size() && r[i].number; });
    rules.emplace_back(numbers ? "--:" : "---");
  }
  std::string out = Row(heads) + Row(rules);
  for (size_t i = 0; i < shown; ++i) {
    std::vector<std::string> cells;
    for (const ReportCell& cell : table.rows[i]) cells.push_back(Escaped(cell.text, kCellWidth));
    out += Row(cells);
  }
  if (shown < table.rows.size()) out += fmt::format("\n... and {} more\n", table.rows.size() - shown);
  return out;
}

// The points furthest down (or NaN) of all series: a plot can't be drawn here.
std::string PlotMarkdown(const ReportPlot& plot, size_t most) {
  struct Entry {
    const PlotSeries* series;
    const PlotPoint* point;
  };
  std::vector<Entry> entries;
  for (const PlotSeries& series : plot.series) {
    for (const PlotPoint& point : series.points) entries.push_back({&series, &point});
  }
  const auto order = [](const Entry& e) { return std::isnan(e.point->y) ? -HUGE_VAL : e.point->y; };
  std::stable_sort(entries.begin(), entries.end(), [&](const Entry& a, const Entry& b) { return order(a) < order(b); });
  const size_t shown = std::min({entries.size(), most, kWorstPoints});
  ReportTable table{{plot.x_title, "series", plot.y_title}, {}};
  for (size_t i = 0; i < shown; ++i) {
    const PlotPoint& point = *entries[i].point;
    const std::string where = point.label.empty() ? ReadableNumber(point.x) : point.label;
    table.rows.push_back({where, entries[i].series->name, ReportCell(ReadableNumber(point.y, 5), point.y)});
  }
  if (shown == 0) return fmt::format("{}: a plot of {} points is left out here\n", Escaped(plot.title), entries.size());
  const std::string heading =
      shown < entries.size() ? fmt::format("{}: the {} lowest of {} points", Escaped(plot.title), shown, entries.size())
                             : Escaped(plot.title);
  return heading + "\n\n" + TableMarkdown(table, shown);
}

std::string HistogramsMarkdown(const std::vector<ReportHistogram>& histograms) {
  return histograms.empty() ? "" : fmt::format("{} histograms are in the HTML report\n", histograms.size());
}

std::string BlockMarkdown(const ReportBlock& block, size_t most) {
  if (const auto* paragraph = std::get_if<std::string>(&block)) return Escaped(*paragraph) + "\n";
  if (const auto* table = std::get_if<ReportTable>(&block)) return TableMarkdown(*table, most);
  if (const auto* plot = std::get_if<ReportPlot>(&block)) return PlotMarkdown(*plot, most);
  return HistogramsMarkdown(std::get<std::vector<ReportHistogram>>(block));
}

// Folded when it is long.
std::string Section(const std::string& title, const std::string& text, bool fold) {
  if (text.empty()) return "";
  if (!fold) return (title.empty() ? "" : "#### " + Escaped(title) + "\n\n") + text;
  return fmt::format("<details><summary>{}</summary>\n\n{}</details>\n\n", title.empty() ? "more" : Escaped(title),
                     text);
}

std::string SectionMarkdown(const ReportSection& section, size_t most) {
  std::string text;
  for (const ReportBlock& block : section.blocks) {
    const std::string part = BlockMarkdown(block, most);
    if (!part.empty() && part != "\n") text += part + "\n";
  }
  return Section(section.title, text,
                 std::count(text.begin(), text.end(), '\n') >= static_cast<ptrdiff_t>(kFoldedFrom));
}

std::string JudgedTable(const Report& report, size_t most) {
  ReportTable table{{"judged", "found", "verdict"}, {}};
  for (const bool good : {false, true}) {
    const char* met = good ? "✅ met" : "❌ NOT MET";
    for (const GateVerdict& v : report.gates) {
      if (v.met == good) table.rows.push_back({"gate " + v.gate.text, ReadableNumber(v.value), met});
    }
    for (const ReportCase& c : report.cases) {
      if (c.passed == good) table.rows.push_back({c.group + " " + c.name, c.message, good ? "✅ passed" : "❌ FAILED"});
    }
  }
  return table.rows.empty() ? "" : TableMarkdown(table, std::max<size_t>(most, 10)) + "\n";
}

std::string Provenance(const Report& report, size_t most) {
  std::string text;
  ReportTable files{{"file", "path", "bytes", "SHA-256"}, {}};
  for (const ReportFile& file : report.files) {
    const auto bytes = static_cast<double>(file.bytes);
    files.rows.push_back({file.role, file.path, ReportCell(ReadableNumber(bytes), bytes), file.sha256});
  }
  ReportTable options{{"option", "in force"}, {}};
  for (const auto& [key, value] : report.config) options.rows.push_back({key, value});
  for (const ReportTable* table : {&files, &options}) {
    if (!table->rows.empty()) text += TableMarkdown(*table, std::max<size_t>(most, 10)) + "\n";
  }
  text += fmt::format("nibble {}\n\n", NibbleVersion());
  return Section("Files and options", text, true);
}

std::string Written(const Report& report, size_t most) {
  const bool judged = !report.gates.empty() || !report.cases.empty();
  std::string out = fmt::format("### {}nibble {}: {}\n\n",
                                !judged           ? ""
                                : report.passed() ? "✅ "
                                                  : "❌ ",
                                Escaped(report.tool), Escaped(report.title, kCellWidth * 2));
  out += JudgedTable(report, most);
  for (const auto& [label, value] : report.facts) {
    out += fmt::format("- **{}**: {}\n", Escaped(label, kCellWidth), Escaped(value, kCellWidth * 2));
  }
  if (!report.facts.empty()) out += "\n";
  for (const ReportSection& section : report.sections) out += SectionMarkdown(section, most);
  return out + Provenance(report, most);
}

}  // namespace

std::string ReportMarkdown(const Report& report) {
  std::string out;
  for (const size_t most : kRows) {
    out = Written(report, most);
    if (out.size() <= kMostBytes) {
      if (most != kRows[0]) out += "Shortened to fit a comment: the HTML and JSON reports hold everything.\n";
      return out;
    }
  }
  // Hundreds of sections: the head has verdict, gates and facts. No line is cut through.
  out.resize(out.rfind('\n', kMostBytes) + 1);
  const auto open = [&] {
    size_t count = 0;
    for (size_t at = out.find("<details>"); at != std::string::npos; at = out.find("<details>", at + 1)) ++count;
    for (size_t at = out.find("</details>"); at != std::string::npos; at = out.find("</details>", at + 1)) --count;
    return count > 0;
  };
  if (open()) out += "\n</details>\n\n";
  return out + "Cut off to fit a comment: the HTML and JSON reports hold everything.\n";
}

}  // namespace quant
