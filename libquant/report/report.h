// A report, said once: what was done with which files, what was measured, and the tables and plots to look at. Every
// format (terminal, JSON, HTML, Markdown, JUnit XML) is a rendering of this. Nothing here depends on the time or the
// machine, so that the same run gives the same bytes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "libquant/base/status.h"
#include "libquant/report/gate.h"
#include "libquant/report/json.h"

namespace quant {

// What a table shows, and the number behind it where there is one: sorting goes by that.
struct ReportCell {
  std::string text;
  std::optional<double> number;

  ReportCell(std::string shown, std::optional<double> value = std::nullopt) : text(std::move(shown)), number(value) {}
  ReportCell(const char* shown) : text(shown) {}
};

struct ReportTable {
  std::vector<std::string> columns;
  std::vector<std::vector<ReportCell>> rows;  // of as many cells as there are columns
  // Rows that the terminal and Markdown show; the rest is counted there. HTML shows all.
  size_t shown = 1000000;
};

struct PlotPoint {
  double x = 0;
  double y = 0;  // infinite ones are drawn at the edge
  std::string label;
};

struct PlotSeries {
  std::string name;
  std::vector<PlotPoint> points;
  bool joined = true;  // by lines, in the order given
};

// One chart. Points keep their order; labels are read out by tooltips.
struct ReportPlot {
  std::string title;
  std::string x_title, y_title;
  bool log_x = false, log_y = false;
  std::vector<PlotSeries> series;
  std::vector<std::pair<double, std::string>> marks;  // horizontal lines: y, what it stands for
};

// How many values lie in each of the bins of equal width that divide [low, high].
struct ReportHistogram {
  std::string title;
  double low = 0, high = 0;
  std::vector<std::pair<std::string, std::vector<int64_t>>> counts;  // by whose values: all of the same length
};

// A paragraph, a table, a plot, or small histograms side by side.
using ReportBlock = std::variant<std::string, ReportTable, ReportPlot, std::vector<ReportHistogram>>;

struct ReportSection {
  std::string title;  // may be empty
  std::vector<ReportBlock> blocks;
  bool on_terminal = true;  // else only files show it
};

struct ReportFile {
  std::string role;  // "reference", "candidate", "samples", "output" ...
  std::string path;
  int64_t bytes = 0;   // with sha256
  std::string sha256;  // empty: not hashed
};

// One thing that was judged and is not a gate: an output, say. JUnit shows each as a case.
struct ReportCase {
  std::string group;
  std::string name;
  bool passed = true;
  std::string message;  // why it did not pass, or what was measured
};

struct Report {
  std::string tool;                                         // "diff"
  std::string title;                                        // "small.onnx against model.onnx"
  std::vector<ReportFile> files;                            // read and written
  std::vector<std::pair<std::string, std::string>> config;  // the options as they were in force
  std::vector<std::pair<std::string, std::string>> facts;   // the few figures to see first
  std::vector<ReportSection> sections;
  Measures measures;
  std::vector<GateVerdict> gates;
  std::vector<ReportCase> cases;
  Json data = Json::Object();  // what the tool has to say to programs, beside the above

  bool passed() const;
};

enum class ReportFormat { kJson, kHtml, kMarkdown, kJunit };

// By the end of the file's name: .json, .html, .md, .xml. UsageError for any other.
StatusOr<ReportFormat> ReportFormatOf(const std::string& path);

// Sections in order, facts, gates; a table's columns fit to what they hold.
std::string ReportText(const Report& report);

// docs/report.md describes it: schema_version, tool, version, title, files, config, then the tool's own keys, then
// measures, gates, passed. JSON has no infinities and no NaN: they are the strings "inf", "-inf" and "nan".
Json ReportJson(const Report& report);

// The bytes of a report file.
std::string RenderReport(const Report& report, ReportFormat format);

// The renderings that RenderReport chooses from. HTML is one page that needs no other file.
std::string ReportHtml(const Report& report);
std::string ReportMarkdown(const Report& report);
std::string ReportJunit(const Report& report);

// The entry of a file: hashed as it is now. A folder's files are hashed together, by name.
StatusOr<ReportFile> DescribeFile(std::string role, const std::string& path);

}  // namespace quant
