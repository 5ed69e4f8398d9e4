#include "tests/catch.h"
#include "tests/report/sample_report.h"

namespace quant {
namespace {

size_t CountOf(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + part.size())) ++count;
  return count;
}

TEST_CASE("the same report gives the same bytes") {
  for (const ReportFormat format :
       {ReportFormat::kHtml, ReportFormat::kMarkdown, ReportFormat::kJunit, ReportFormat::kJson}) {
    CHECK(RenderReport(RichReport(), format) == RenderReport(RichReport(), format));
  }
}

TEST_CASE("no name breaks out of the page") {
  const std::string page = ReportHtml(HostileReport());
  CHECK(CountOf(page, "<script") == 1);
  CHECK(CountOf(page, "</script>") == 1);
  CHECK(CountOf(page, "<img") == 0);
  CHECK(CountOf(page, "onerror=\"") == 0);
  for (const char c : page) CHECK((static_cast<unsigned char>(c) >= 0x20 || c == '\n') == true);
  CHECK(page.find('\x7F') == std::string::npos);
  CHECK(page.find('\xFF') == std::string::npos);
}

TEST_CASE("pages stay small and need nothing else") {
  const std::string page = ReportHtml(LargeReport(1000));
  CHECK(page.size() < 700'000);
  CHECK(CountOf(page, "<tr>") > 1000);
  CHECK(CountOf(page, "<circle") <= 1000);
  CHECK(ReportHtml(RichReport()).size() < 250'000);
  for (const char* part : {"http:", "https:", "url(", "@import", "<link rel=\"stylesheet\"", "src="}) {
    INFO(part);
    CHECK(CountOf(page, part) == 0);
  }
}

TEST_CASE("plots of very many points keep their extremes") {
  Report report;
  ReportPlot plot{"p", "x", "y", false, false, {{"s", {}, true}}, {}};
  for (int i = 0; i < 100000; ++i)
    plot.series[0].points.push_back({static_cast<double>(i), i == 54321 ? -77.0 : 1.0, ""});
  report.sections.push_back({"s", {std::move(plot)}});
  const std::string page = ReportHtml(report);
  CHECK(page.size() < 300'000);
  CHECK(CountOf(page, "x 54,321: -77<") == 1);
}

TEST_CASE("what failed comes first") {
  const std::string page = ReportHtml(RichReport());
  const size_t verdict = page.find("class=\"verdict bad\"");
  REQUIRE(verdict != std::string::npos);
  CHECK(page.find("<code>sqnr&gt;=30</code>: found 27.61") > verdict);
  CHECK(page.find("<td>sqnr&gt;=30") < page.find("<td>size.ratio&lt;=0.25"));
  // Nothing was judged: there is no verdict.
  CHECK(ReportHtml(Report()).find("class=\"verdict") == std::string::npos);
}

TEST_CASE("cells carry the number behind a rounded text") {
  Report report;
  report.sections.push_back({"t",
                             {ReportTable{{"a", "b", "c", "d"},
                                          {{ReportCell("12.35", 12.3456), ReportCell("7", 7), "x",
                                            ReportCell("inf", std::numeric_limits<double>::infinity())}}}}});
  CHECK(ReportHtml(report).find("<td data-v=12.3456>12.35<td data-v>7<td>x<td data-v>inf</tr>") != std::string::npos);
}

TEST_CASE("every report carries version, options and hashes") {
  for (const ReportFormat format : {ReportFormat::kHtml, ReportFormat::kJunit, ReportFormat::kJson}) {
    const std::string text = RenderReport(RichReport(), format);
    for (const std::string& part :
         {std::string("0.1.0"), std::string(64, 'a'), std::string(64, 'b'), std::string("samples.npz")}) {
      INFO(part);
      CHECK(text.find(part) != std::string::npos);
    }
  }
  CHECK(ReportMarkdown(RichReport()).find(std::string(64, 'b')) != std::string::npos);
}

}  // namespace
}  // namespace quant
