#include "libquant/report/report.h"

#include <algorithm>
#include <array>
#include <filesystem>

#include "libquant/base/sha256.h"
#include "libquant/base/version.h"
#include "libquant/report/table.h"

namespace quant {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kSchemaVersion = 2;

struct FormatRow {
  std::string_view ending;
  ReportFormat format;
};

constexpr std::array kFormats = {
    FormatRow{".json", ReportFormat::kJson},
    FormatRow{".html", ReportFormat::kHtml},
    FormatRow{".md", ReportFormat::kMarkdown},
    FormatRow{".xml", ReportFormat::kJunit},
};

// Columns that hold nothing in any row are left out.
std::string TableText(const ReportTable& table) {
  std::vector<size_t> columns;
  std::vector<std::string> headings;
  for (size_t c = 0; c < table.columns.size(); ++c) {
    if (std::all_of(table.rows.begin(), table.rows.end(), [&](const auto& row) { return row[c].text.empty(); }))
      continue;
    columns.push_back(c);
    headings.push_back(table.columns[c]);
  }
  Table out(headings);
  const size_t shown = std::min(table.shown, table.rows.size());
  for (size_t i = 0; i < shown; ++i) {
    std::vector<std::string> cells;
    for (const size_t c : columns) cells.push_back(table.rows[i][c].text);
    out.AddRow(std::move(cells));
  }
  std::string text = out.Render();
  if (shown < table.rows.size()) text += fmt::format("... and {} more\n", table.rows.size() - shown);
  return text;
}

std::string SectionText(const ReportSection& section) {
  std::string text;
  bool after_table = false;
  for (const ReportBlock& block : section.blocks) {
    const auto* paragraph = std::get_if<std::string>(&block);
    const auto* table = std::get_if<ReportTable>(&block);
    if (paragraph == nullptr && (table == nullptr || table->rows.empty())) continue;
    if (after_table) text += "\n";
    text += paragraph != nullptr ? *paragraph + "\n" : TableText(*table);
    after_table = table != nullptr;
  }
  if (text.empty()) return "";
  return (section.title.empty() ? "" : section.title + ":\n") + text + "\n";
}

Json Pairs(const std::vector<std::pair<std::string, std::string>>& pairs) {
  Json out = Json::Object();
  for (const auto& [key, value] : pairs) out.Set(key, value);
  return out;
}

Json GateJson(const GateVerdict& v) {
  Json out = Json::Object();
  out.Set("text", v.gate.text).Set("metric", v.gate.metric).Set("limit", v.gate.limit);
  return out.Set("value", v.value).Set("met", v.met);
}

}  // namespace

bool Report::passed() const {
  return std::all_of(gates.begin(), gates.end(), [](const GateVerdict& v) { return v.met; }) &&
         std::all_of(cases.begin(), cases.end(), [](const ReportCase& c) { return c.passed; });
}

StatusOr<ReportFormat> ReportFormatOf(const std::string& path) {
  for (const FormatRow& row : kFormats) {
    if (path.size() > row.ending.size() && path.ends_with(row.ending)) return row.format;
  }
  return UsageError(
      "{}: the form of a report is told by the file's name, which must end in .json, .html, .md or .xml "
      "(JUnit)",
      path);
}

std::string ReportText(const Report& report) {
  std::string out = report.title.empty() ? "" : report.title + "\n\n";
  for (const ReportSection& section : report.sections) {
    if (section.on_terminal) out += SectionText(section);
  }
  for (const auto& [label, value] : report.facts) out += fmt::format("{}: {}\n", label, value);
  for (const GateVerdict& v : report.gates) {
    out += fmt::format("gate {}: {} ({:.6g})\n", v.gate.text, v.met ? "met" : "NOT MET", v.value);
  }
  return out;
}

Json ReportJson(const Report& report) {
  Json out = Json::Object();
  out.Set("schema_version", kSchemaVersion).Set("tool", report.tool).Set("version", std::string(NibbleVersion()));
  out.Set("title", report.title);
  Json files = Json::Array();
  for (const ReportFile& file : report.files) {
    Json row = Json::Object();
    row.Set("role", file.role).Set("path", file.path);
    if (!file.sha256.empty()) row.Set("bytes", file.bytes).Set("sha256", file.sha256);
    files.Append(row);
  }
  out.Set("files", files).Set("config", Pairs(report.config)).Merge(report.data);
  Json measures = Json::Object();
  for (const auto& [name, value] : report.measures) measures.Set(name, value);
  Json gates = Json::Array();
  for (const GateVerdict& v : report.gates) gates.Append(GateJson(v));
  return out.Set("measures", measures).Set("gates", gates).Set("passed", report.passed());
}

std::string RenderReport(const Report& report, ReportFormat format) {
  switch (format) {
    case ReportFormat::kJson:
      return ReportJson(report).Text();
    case ReportFormat::kHtml:
      return ReportHtml(report);
    case ReportFormat::kMarkdown:
      return ReportMarkdown(report);
    case ReportFormat::kJunit:
      break;
  }
  return ReportJunit(report);
}

StatusOr<ReportFile> DescribeFile(std::string role, const std::string& path) {
  ReportFile out{std::move(role), path, 0, ""};
  Sha256 hash;
  std::error_code error;
  if (!fs::is_directory(path, error)) {
    ASSIGN_OR_RETURN(out.bytes, hash.AddFile(path));
    out.sha256 = hash.Hex();
    return out;
  }
  std::vector<fs::path> inside;
  fs::recursive_directory_iterator it(path, fs::directory_options::skip_permission_denied, error);
  for (; !error && it != fs::recursive_directory_iterator(); it.increment(error)) {
    if (it->is_regular_file(error)) inside.push_back(it->path());
  }
  std::sort(inside.begin(), inside.end());
  for (const fs::path& file : inside) {
    hash.Add(fs::relative(file, path).string());
    ASSIGN_OR_RETURN(const int64_t bytes, hash.AddFile(file.string()));
    out.bytes += bytes;
  }
  out.sha256 = hash.Hex();
  return out;
}

}  // namespace quant
