// JUnit XML, as CI systems read it: one case for each gate and each thing judged.
#include <algorithm>
#include <pugixml.hpp>
#include <sstream>

#include "libquant/base/version.h"
#include "libquant/report/plain_text.h"
#include "libquant/report/report.h"

namespace quant {
namespace {

void AddAttribute(pugi::xml_node node, const char* name, std::string_view value) {
  node.append_attribute(name) = PlainLine(value).c_str();
}

// Readers group by class name, split at dots: those within a part would make groups of their own.
std::string ClassName(const Report& report, std::string group) {
  std::string tool = report.tool;
  for (std::string* part : {&tool, &group}) std::replace(part->begin(), part->end(), '.', '_');
  return "nibble." + tool + "." + group;
}

void AddCase(pugi::xml_node suite, const Report& report, const ReportCase& one) {
  pugi::xml_node node = suite.append_child("testcase");
  AddAttribute(node, "classname", ClassName(report, one.group));
  AddAttribute(node, "name", one.name);
  // Some readers want a time; the true one would make every report different.
  AddAttribute(node, "time", "0");
  if (one.passed) {
    if (!one.message.empty()) node.append_child("system-out").text() = PlainText(one.message).c_str();
    return;
  }
  pugi::xml_node failure = node.append_child("failure");
  AddAttribute(failure, "message", one.message);
  AddAttribute(failure, "type", one.group);
  failure.text() = PlainText(one.message).c_str();
}

std::vector<ReportCase> Cases(const Report& report) {
  std::vector<ReportCase> out;
  for (const GateVerdict& v : report.gates) {
    out.push_back({"gate", v.gate.text, v.met, fmt::format("{} is {:.6g}", v.gate.metric, v.value)});
  }
  out.insert(out.end(), report.cases.begin(), report.cases.end());
  return out;
}

void AddCounts(pugi::xml_node node, const std::vector<ReportCase>& cases) {
  const auto failures = std::count_if(cases.begin(), cases.end(), [](const ReportCase& c) { return !c.passed; });
  AddAttribute(node, "tests", std::to_string(cases.size()));
  AddAttribute(node, "failures", std::to_string(failures));
  AddAttribute(node, "errors", "0");
  AddAttribute(node, "skipped", "0");
  AddAttribute(node, "time", "0");
}

void AddProperties(pugi::xml_node suite, const Report& report) {
  pugi::xml_node properties = suite.append_child("properties");
  const auto add = [&](std::string_view name, std::string_view value) {
    pugi::xml_node node = properties.append_child("property");
    AddAttribute(node, "name", name);
    AddAttribute(node, "value", value);
  };
  add("version", NibbleVersion());
  for (const auto& [key, value] : report.config) add("config." + key, value);
  for (const ReportFile& file : report.files) {
    add("file." + file.role, file.path);
    add("file." + file.role + ".bytes", std::to_string(file.bytes));
    add("file." + file.role + ".sha256", file.sha256);
  }
  for (const auto& [name, value] : report.measures) add("measure." + name, fmt::format("{:.9g}", value));
}

}  // namespace

std::string ReportJunit(const Report& report) {
  const std::vector<ReportCase> cases = Cases(report);
  const std::string name = "nibble " + report.tool + (report.title.empty() ? "" : ": " + report.title);
  pugi::xml_document document;
  pugi::xml_node declaration = document.append_child(pugi::node_declaration);
  AddAttribute(declaration, "version", "1.0");
  AddAttribute(declaration, "encoding", "UTF-8");
  pugi::xml_node suites = document.append_child("testsuites");
  AddAttribute(suites, "name", "nibble");
  AddCounts(suites, cases);
  pugi::xml_node suite = suites.append_child("testsuite");
  AddAttribute(suite, "name", name);
  AddCounts(suite, cases);
  AddProperties(suite, report);
  for (const ReportCase& one : cases) AddCase(suite, report, one);
  std::ostringstream out;
  document.save(out, "  ", pugi::format_default, pugi::encoding_utf8);
  return out.str();
}

}  // namespace quant
