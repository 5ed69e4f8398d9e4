#include "tests/catch.h"
#include "tests/report/sample_report.h"

namespace quant {
namespace {

TEST_CASE("a case for each gate and each thing judged") {
  const std::string text = ReportJunit(RichReport());
  CHECK(text.find("<testsuites name=\"nibble\" tests=\"3\" failures=\"1\" errors=\"0\" skipped=\"0\" time=\"0\">") !=
        std::string::npos);
  CHECK(text.find("<testcase classname=\"nibble.diff.gate\" name=\"sqnr&gt;=30\" time=\"0\">") == std::string::npos);
  CHECK(text.find("classname=\"nibble.diff.gate\" name=\"sqnr>=30\"") != std::string::npos);
  CHECK(text.find("<failure message=\"sqnr is 27.61\" type=\"gate\">sqnr is 27.61</failure>") != std::string::npos);
  CHECK(text.find("<system-out>SQNR 31.9 dB</system-out>") != std::string::npos);
  CHECK(text.find("<property name=\"file.candidate.sha256\" value=\"" + std::string(64, 'b')) != std::string::npos);
}

TEST_CASE("no byte of a name is one that XML knows not") {
  const std::string text = ReportJunit(HostileReport());
  for (const char c : text) CHECK((static_cast<unsigned char>(c) >= 0x20 || c == '\n') == true);
  CHECK(text.find("<img") == std::string::npos);
  CHECK(text.find("�") != std::string::npos);
}

}  // namespace
}  // namespace quant
