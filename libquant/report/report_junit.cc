// JUnit XML, as CI systems read it: one case for each gate and each thing judged.
#include <algorithm>
#include <pugixml.hpp>
#include <sstream>

#include "libquant/report/report.h"

namespace quant {
namespace {

// XML knows no control characters but these.
std::string Legal(std::string_view text) {
  std::string out(text);
  std::replace_if(
      out.begin(), out.end(), [](char c) { return static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\t'; },
      '?');
  return out;
}

void AddCase(pugi::xml_node suite, const std::string& group, const ReportCase& one) {
  pugi::xml_node node = suite.append_child("testcase");
  node.append_attribute("classname") = Legal(group).c_str();
  node.append_attribute("name") = Legal(one.name).c_str();
  if (one.passed) {
    if (!one.message.empty()) node.append_child("system-out").text() = Legal(one.message).c_str();
    return;
  }
  node.append_child("failure").append_attribute("message") = Legal(one.message).c_str();
}

std::vector<ReportCase> Cases(const Report& report) {
  std::vector<ReportCase> out;
  for (const GateVerdict& v : report.gates) {
    out.push_back({"gate", v.gate.text, v.met, fmt::format("{} is {:.6g}", v.gate.metric, v.value)});
  }
  out.insert(out.end(), report.cases.begin(), report.cases.end());
  return out;
}

}  // namespace

std::string ReportJunit(const Report& report) {
  const std::vector<ReportCase> cases = Cases(report);
  const auto failures = std::count_if(cases.begin(), cases.end(), [](const ReportCase& c) { return !c.passed; });
  pugi::xml_document document;
  pugi::xml_node suites = document.append_child("testsuites");
  pugi::xml_node suite = suites.append_child("testsuite");
  suite.append_attribute("name") = Legal("nibble " + report.tool + ": " + report.title).c_str();
  suite.append_attribute("tests") = cases.size();
  suite.append_attribute("failures") = failures;
  pugi::xml_node properties = suite.append_child("properties");
  const auto property = [&](const std::string& name, const std::string& value) {
    pugi::xml_node node = properties.append_child("property");
    node.append_attribute("name") = Legal(name).c_str();
    node.append_attribute("value") = Legal(value).c_str();
  };
  for (const auto& [key, value] : report.config) property(key, value);
  for (const ReportFile& file : report.files) property(file.role, file.path + " sha256:" + file.sha256);
  for (const ReportCase& one : cases) AddCase(suite, "nibble." + report.tool + "." + one.group, one);
  std::ostringstream out;
  document.save(out, "  ");
  return out.str();
}

}  // namespace quant
