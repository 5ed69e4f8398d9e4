// One HTML page that needs no other file.
#include "libquant/report/report.h"

namespace quant {
namespace {

std::string Escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

std::string TableHtml(const ReportTable& table) {
  std::string out = "<table>\n<thead><tr>";
  for (const std::string& column : table.columns) out += "<th>" + Escaped(column) + "</th>";
  out += "</tr></thead>\n<tbody>\n";
  for (const auto& row : table.rows) {
    out += "<tr>";
    for (const ReportCell& cell : row) out += "<td>" + Escaped(cell.text) + "</td>";
    out += "</tr>\n";
  }
  return out + "</tbody></table>\n";
}

}  // namespace

std::string ReportHtml(const Report& report) {
  std::string out = "<!DOCTYPE html>\n<html lang=\"en\">\n<head><meta charset=\"utf-8\"><title>";
  out += Escaped(report.title) + "</title></head>\n<body>\n<h1>" + Escaped(report.title) + "</h1>\n";
  for (const ReportSection& section : report.sections) {
    if (!section.title.empty()) out += "<h2>" + Escaped(section.title) + "</h2>\n";
    for (const ReportBlock& block : section.blocks) {
      if (const auto* paragraph = std::get_if<std::string>(&block)) out += "<p>" + Escaped(*paragraph) + "</p>\n";
      if (const auto* table = std::get_if<ReportTable>(&block)) out += TableHtml(*table);
    }
  }
  return out + "</body>\n</html>\n";
}

}  // namespace quant
