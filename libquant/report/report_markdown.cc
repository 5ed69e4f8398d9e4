// Markdown for a comment on a pull request: verdict and gates first, tables short.
#include <algorithm>

#include "libquant/report/report.h"

namespace quant {
namespace {

constexpr size_t kRows = 25;

// Names come from files: nothing in them may end a cell or begin markup.
std::string Escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      out += ' ';
      continue;
    }
    if (std::string_view("\\`*_{}[]<>|#!~&").find(c) != std::string_view::npos) out += '\\';
    out += c;
  }
  return out;
}

std::string Row(const std::vector<std::string>& cells) {
  std::string out = "|";
  for (const std::string& cell : cells) out += " " + cell + " |";
  return out + "\n";
}

std::string TableMarkdown(const ReportTable& table) {
  std::vector<std::string> heads, rules;
  for (size_t i = 0; i < table.columns.size(); ++i) {
    heads.push_back(Escaped(table.columns[i]));
    const bool numbers = std::any_of(table.rows.begin(), table.rows.end(), [&](const auto& r) { return r[i].number; });
    rules.emplace_back(numbers ? "--:" : "---");
  }
  std::string out = Row(heads) + Row(rules);
  const size_t shown = std::min({table.rows.size(), table.shown, kRows});
  for (size_t i = 0; i < shown; ++i) {
    std::vector<std::string> cells;
    for (const ReportCell& cell : table.rows[i]) cells.push_back(Escaped(cell.text));
    out += Row(cells);
  }
  if (shown < table.rows.size()) out += fmt::format("\n... and {} more\n", table.rows.size() - shown);
  return out;
}

std::string GateTable(const Report& report) {
  ReportTable table{{"gate", "found", ""}, {}};
  for (const GateVerdict& v : report.gates) {
    table.rows.push_back({v.gate.text, ReportCell(fmt::format("{:.6g}", v.value), v.value), v.met ? "met" : "NOT MET"});
  }
  return TableMarkdown(table) + "\n";
}

}  // namespace

std::string ReportMarkdown(const Report& report) {
  std::string out =
      fmt::format("### {} nibble {}: {}\n\n", report.passed() ? "✅" : "❌", report.tool, Escaped(report.title));
  for (const auto& [label, value] : report.facts) out += fmt::format("- **{}**: {}\n", Escaped(label), Escaped(value));
  if (!report.facts.empty()) out += "\n";
  if (!report.gates.empty()) out += GateTable(report);
  for (const ReportSection& section : report.sections) {
    std::string text;
    for (const ReportBlock& block : section.blocks) {
      if (const auto* paragraph = std::get_if<std::string>(&block)) text += Escaped(*paragraph) + "\n\n";
      if (const auto* table = std::get_if<ReportTable>(&block)) text += TableMarkdown(*table) + "\n";
    }
    if (text.empty()) continue;
    if (!section.title.empty())
      text = fmt::format("<details><summary>{}</summary>\n\n{}</details>\n\n", Escaped(section.title), text);
    out += text;
  }
  return out;
}

}  // namespace quant
