// One HTML page that needs no other file: what counts first, then the sections, then what the report rests on.
#include <algorithm>

#include "libquant/base/sha256.h"
#include "libquant/base/version.h"
#include "libquant/report/html_plot.h"
#include "libquant/report/html_table.h"
#include "libquant/report/html_text.h"
#include "libquant/report/plain_text.h"
#include "libquant/report/report.h"

namespace quant {
namespace {

// The files of libquant/report/page/.
constexpr std::string_view kStyle =
#include "page_report.css.inc"
    ;
constexpr std::string_view kScript =
#include "page_report.js.inc"
    ;

constexpr size_t kFewSections = 3;  // that need no list of contents

std::string Number(double value) { return ReadableNumber(value, 6); }

std::string Line(std::string_view text) { return HtmlText(PlainLine(text)); }

// Nothing is fetched, and no script runs but the page's own (its element holds kScript and nothing else), whatever
// names from files may say.
std::string Policy() {
  Sha256 hash;
  hash.Add(kScript);
  return fmt::format("default-src 'none'; style-src 'unsafe-inline'; img-src data:; script-src 'sha256-{}'",
                     Base64OfHex(hash.Hex()));
}

std::string HeadHtml(const Report& report) {
  std::string out = "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n";
  out += "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n";
  out += "<meta name=\"color-scheme\" content=\"light dark\">\n";
  out += fmt::format("<meta http-equiv=\"Content-Security-Policy\" content=\"{}\">\n", Policy());
  out += fmt::format("<meta name=\"generator\" content=\"nibble {}\">\n", NibbleVersion());
  out += "<link rel=\"icon\" href=\"data:,\">\n";
  out += fmt::format("<title>nibble {}: {}</title>\n", Line(report.tool), Line(report.title));
  return out + "<style>\n" + std::string(kStyle) + "</style>\n</head>\n";
}

std::string Plural(size_t count, std::string_view one) {
  return fmt::format("{} {}{}", count, one, count == 1 ? "" : "s");
}

std::string VerdictHtml(const Report& report) {
  if (report.gates.empty() && report.cases.empty()) return "";
  const auto unmet = static_cast<size_t>(
      std::count_if(report.gates.begin(), report.gates.end(), [](const GateVerdict& v) { return !v.met; }));
  const auto failed = static_cast<size_t>(
      std::count_if(report.cases.begin(), report.cases.end(), [](const ReportCase& c) { return !c.passed; }));
  std::string said;
  const auto say = [&](size_t bad, size_t all, std::string_view kind, std::string_view good_word,
                       std::string_view bad_word) {
    if (all == 0) return;
    said += said.empty() ? "" : ", ";
    said += bad == 0 ? fmt::format("{} {}", Plural(all, kind), good_word)
                     : fmt::format("{} of {} {}", bad, Plural(all, kind), bad_word);
  };
  say(unmet, report.gates.size(), "gate", "met", "not met");
  say(failed, report.cases.size(), "check", "passed", "failed");
  std::string out = fmt::format("<div class=\"verdict {}\" role=\"status\">\n<p><strong>{}</strong> {}</p>\n",
                                report.passed() ? "good" : "bad", report.passed() ? "✓ Passed" : "✗ Failed", said);
  if (!report.passed()) {
    out += "<ul>\n";
    for (const GateVerdict& v : report.gates) {
      if (!v.met) out += fmt::format("<li><code>{}</code>: found {}</li>\n", Line(v.gate.text), Number(v.value));
    }
    for (const ReportCase& c : report.cases) {
      if (c.passed) continue;
      out += fmt::format("<li>{} <code>{}</code>: {}</li>\n", Line(c.group), Line(c.name), Line(c.message));
    }
    out += "</ul>\n";
  }
  return out + "</div>\n";
}

std::string FactsHtml(const Report& report) {
  if (report.facts.empty()) return "";
  std::string out = "<dl class=\"facts\">\n";
  for (const auto& [label, value] : report.facts) {
    out += fmt::format("<div><dt>{}</dt><dd>{}</dd></div>\n", Line(label), HtmlText(value));
  }
  return out + "</dl>\n";
}

std::string BlockHtml(const ReportBlock& block) {
  if (const auto* paragraph = std::get_if<std::string>(&block)) {
    return paragraph->empty() ? "" : "<p class=\"text\">" + HtmlText(*paragraph) + "</p>\n";
  }
  if (const auto* table = std::get_if<ReportTable>(&block)) return TableHtml(*table);
  if (const auto* plot = std::get_if<ReportPlot>(&block)) return PlotHtml(*plot);
  return HistogramsHtml(std::get<std::vector<ReportHistogram>>(block));
}

ReportTable PairsTable(std::string first, std::string second,
                       const std::vector<std::pair<std::string, std::string>>& pairs) {
  ReportTable table{{std::move(first), std::move(second)}, {}};
  for (const auto& [key, value] : pairs) table.rows.push_back({key, value});
  return table;
}

// What the page adds to the tool's own sections.
std::vector<ReportSection> LeadingSections(const Report& report) {
  std::vector<ReportSection> out;
  if (!report.gates.empty()) {
    ReportTable table{{"gate", "limit", "found", "verdict"}, {}};
    for (const bool met : {false, true}) {
      for (const GateVerdict& v : report.gates) {
        if (v.met != met) continue;
        table.rows.push_back({v.gate.text, ReportCell(Number(v.gate.limit), v.gate.limit),
                              ReportCell(Number(v.value), v.value), met ? "✓ met" : "✗ not met"});
      }
    }
    out.push_back({"Gates", {std::move(table)}});
  }
  if (!report.cases.empty()) {
    ReportTable table{{"kind", "name", "verdict", "what was found"}, {}};
    for (const bool passed : {false, true}) {
      for (const ReportCase& c : report.cases) {
        if (c.passed == passed) table.rows.push_back({c.group, c.name, passed ? "✓ passed" : "✗ failed", c.message});
      }
    }
    out.push_back({"Checks", {std::move(table)}});
  }
  return out;
}

ReportSection Provenance(const Report& report) {
  ReportSection out{"Files, options, measures", {}};
  if (!report.files.empty()) {
    ReportTable table{{"file", "path", "bytes", "SHA-256"}, {}};
    for (const ReportFile& file : report.files) {
      const auto bytes = static_cast<double>(file.bytes);
      table.rows.push_back({file.role, file.path, ReportCell(Number(bytes), bytes), file.sha256});
    }
    out.blocks.emplace_back(std::move(table));
  }
  if (!report.config.empty()) out.blocks.emplace_back(PairsTable("option", "in force", report.config));
  if (!report.measures.empty()) {
    ReportTable table{{"measure", "worst value"}, {}};
    for (const auto& [name, value] : report.measures) table.rows.push_back({name, ReportCell(Number(value), value)});
    out.blocks.emplace_back(std::move(table));
  }
  return out;
}

std::string SectionHtml(const ReportSection& section, size_t index) {
  // Without a heading it is no section of the outline.
  const char* element = section.title.empty() ? "div" : "section";
  std::string out = fmt::format("<{} id=\"part-{}\" class=\"part\">\n", element, index);
  if (!section.title.empty()) out += "<h2>" + Line(section.title) + "</h2>\n";
  for (const ReportBlock& block : section.blocks) out += BlockHtml(block);
  return out + fmt::format("</{}>\n", element);
}

std::string ContentsHtml(const std::vector<ReportSection>& sections) {
  if (sections.size() <= kFewSections) return "";
  std::string out = "<nav aria-label=\"Contents\"><ul>\n";
  for (size_t i = 0; i < sections.size(); ++i) {
    if (sections[i].title.empty()) continue;
    out += fmt::format("<li><a href=\"#part-{}\">{}</a></li>\n", i, Line(sections[i].title));
  }
  return out + "</ul></nav>\n";
}

}  // namespace

std::string ReportHtml(const Report& report) {
  std::vector<ReportSection> sections = LeadingSections(report);
  sections.insert(sections.end(), report.sections.begin(), report.sections.end());
  std::erase_if(sections, [](const ReportSection& s) { return s.blocks.empty(); });
  if (ReportSection last = Provenance(report); !last.blocks.empty()) sections.push_back(std::move(last));
  std::string out = HeadHtml(report) + "<body>\n<header>\n";
  const std::string title = report.title.empty() ? "nibble " + report.tool : report.title;
  out +=
      fmt::format("<p class=\"tool\">nibble {}</p>\n<h1>{}</h1>\n</header>\n<main>\n", Line(report.tool), Line(title));
  out += VerdictHtml(report) + FactsHtml(report) + ContentsHtml(sections);
  for (size_t i = 0; i < sections.size(); ++i) out += SectionHtml(sections[i], i);
  out +=
      fmt::format("</main>\n<footer>Written by nibble {}. The same inputs and options give the same bytes.</footer>\n",
                  NibbleVersion());
  return out + "<script>" + std::string(kScript) + "</script>\n</body>\n</html>\n";
}

}  // namespace quant
