// sample_reports FOLDER: writes the tests' sample reports there in every format.
#include <fstream>
#include <iostream>
#include <utility>

#include "tests/report/sample_report.h"

int main(int argc, char** argv) {
  using namespace quant;
  if (argc != 2) {
    std::cerr << "usage: sample_reports FOLDER\n";
    return 2;
  }
  Report passed = RichReport();
  passed.gates = {passed.gates[0]};
  const std::pair<const char*, Report> reports[] = {{"rich", RichReport()},
                                                    {"passed", passed},
                                                    {"hostile", HostileReport()},
                                                    {"large", LargeReport(1000)},
                                                    {"empty", Report()}};
  const std::string folder = std::string(argv[1]) + "/";
  for (const auto& [name, report] : reports) {
    for (const char* ending : {".json", ".html", ".md", ".xml"}) {
      std::ofstream(folder + name + ending, std::ios::binary)
          << RenderReport(report, *ReportFormatOf(name + std::string(ending)));
    }
  }
  return 0;
}
