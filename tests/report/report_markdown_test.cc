#include "tests/catch.h"
#include "tests/report/sample_report.h"

namespace quant {
namespace {

constexpr size_t kComment = 60000;

TEST_CASE("the verdict and what failed come first") {
  const std::string text = ReportMarkdown(RichReport());
  CHECK(text.starts_with("### ❌ nibble diff: recognizer_int4.onnx against recognizer.onnx\n\n| judged |"));
  CHECK(text.find("❌ NOT MET") < text.find("✅ met"));
  CHECK(ReportMarkdown(Report()).find("❌") == std::string::npos);
}

TEST_CASE("a plot becomes its lowest points") {
  const std::string text = ReportMarkdown(RichReport());
  CHECK(text.find("SQNR by layer: the 5 lowest of 320 points") != std::string::npos);
  CHECK(text.find("| this layer alone | 25.057 |") != std::string::npos);
}

TEST_CASE("names show as they are") {
  Report report;
  report.tool = "diff";
  report.sections.push_back({"", {"a|b <b> `c` *d* _e_ f_g [h](i) &amp; \\ http://j", "see @someone and #12"}});
  const std::string text = ReportMarkdown(report);
  CHECK(
      text.find(
          "a&#124;b &#60;b&#62; &#96;c&#96; &#42;d&#42; &#95;e&#95; f_g &#91;h&#93;(i) &#38;amp; &#92; http&#58;//j") !=
      std::string::npos);
  CHECK(text.find("<code>see &#64;someone and &#35;12</code>") != std::string::npos);
}

TEST_CASE("a report of any size fits a comment and says what is missing") {
  Report many = BasicReport();
  for (int i = 0; i < 40; ++i) many.sections.push_back({"part " + std::to_string(i), {LayerTable(200)}});
  const std::string shortened = ReportMarkdown(many);
  CHECK(shortened.size() < kComment + 200);
  CHECK(shortened.find("more\n") != std::string::npos);
  CHECK(shortened.find("Shortened to fit a comment") != std::string::npos);
  CHECK(shortened.find("part 39") != std::string::npos);

  Report huge = BasicReport();
  for (int i = 0; i < 3000; ++i) huge.sections.push_back({"part " + std::to_string(i), {LayerTable(20)}});
  const std::string cut = ReportMarkdown(huge);
  CHECK(cut.size() < kComment + 200);
  CHECK(cut.find("Cut off to fit a comment") != std::string::npos);
  CHECK(cut.find("NOT MET") != std::string::npos);
}

}  // namespace
}  // namespace quant
