#include "libquant/report/diff_report.h"

#include <algorithm>
#include <cmath>

#include "libquant/report/table.h"
#include "tests/catch.h"

namespace quant {
namespace {

Tensor Floats(Dims dims, const std::vector<float>& values) {
  return Tensor::Of<float>(std::move(dims), std::span<const float>(values));
}

void Add(DiffReport& report, const std::string& name, const Tensor& reference, const Tensor& got) {
  DiffOutput& output = report.outputs.emplace_back();
  output.name = name;
  output.dtype = reference.dtype();
  REQUIRE(output.metrics.Add(reference, got).ok());
}

DiffReport TwoOutputs() {
  DiffReport report;
  report.samples = 2;
  Add(report, "logits", Floats({2, 2}, {1, 0, 0, 10}), Floats({2, 2}, {1, 0, 0, 9}));
  Add(report, "mask", Floats({2}, {1, 1}), Floats({2}, {1, 1}));
  return report;
}

double Find(const Measures& measures, const std::string& name) {
  for (const auto& [key, value] : measures) {
    if (key == name) return value;
  }
  FAIL("no " << name);
  return 0;
}

TEST_CASE("gates see the worst output") {
  DiffReport report = TwoOutputs();
  Measures m = MeasuresOf(report);
  CHECK(Find(m, "sqnr") == 10 * std::log10(101.0));
  CHECK(Find(m, "max_abs") == 1);
  CHECK(Find(m, "top1") == 1);
  CHECK(
      std::none_of(m.begin(), m.end(), [](const auto& x) { return x.first == "accuracy" || x.first == "size.ratio"; }));
  report.task = TaskDiff{"logits", 400, {0.98, 0.97, 0.96, 0.95}, {0.9725, 0.96, 0.95, 0.94}};
  report.reference_bytes = 1000;
  report.candidate_bytes = 250;
  Add(report, "broken", Floats({1}, {1}), Floats({1}, {std::nanf("")}));
  Add(report, "fine", Floats({1}, {1}), Floats({1}, {1}));
  m = MeasuresOf(report);
  CHECK(std::isnan(Find(m, "cosine")));
  CHECK(Find(m, "sqnr") == -std::numeric_limits<double>::infinity());
  CHECK(Find(m, "accuracy") == 0.9725);
  CHECK(std::abs(Find(m, "accuracy.drop") - 0.75) < 1e-9);
  CHECK(Find(m, "size.ratio") == 0.25);
}

TEST_CASE("the text is a table with what else is known below") {
  DiffReport report = TwoOutputs();
  report.task = TaskDiff{"logits", 400, {0.98, 0.97, 0.96, 0.95}, {0.9725, 0.96, 0.95, 0.94}};
  report.reference_bytes = 1000;
  report.candidate_bytes = 250;
  Report rendered;
  rendered.title = "b.onnx against a.onnx";
  AddDiff(report, rendered);
  rendered.gates = {{*ParseGate("sqnr>=30"), 20.04, false}};
  CHECK(ReportText(rendered) == R"(b.onnx against a.onnx

Outputs:
output  max abs  mean abs  rmse  rel rms    cosine  SQNR dB     top-1
------  -------  --------  ----  -------  --------  -------  --------
logits        1      0.25   0.5   0.0995  0.999940    20.04  100.00 %
mask          0         0     0        0  1.000000      inf

output  PSNR dB    max ulp   KL nats  needed rtol  needed atol
------  -------  ---------  --------  -----------  -----------
logits    26.02  1.049e+06  1.63e-05          0.1         0.99
mask        inf          0                      0            0

Classes:
logits                                  reference  candidate
--------------------------------------  ---------  ---------
accuracy = micro precision, recall, F1     0.9800     0.9725
macro precision                            0.9700     0.9600
macro recall                               0.9600     0.9500
macro F1                                   0.9500     0.9400

samples: 2
accuracy on 400 labels: 98.00 % before, 97.25 % after, drop 0.75 points
size: 1000 bytes before, 250 bytes after (25.0 %)
gate sqnr>=30: NOT MET (20.04)
)");
  CHECK_FALSE(rendered.passed());
}

TEST_CASE("the table stays within 100 columns whatever a name holds") {
  DiffReport report;
  report.samples = 1;
  const std::string name = "{\"name\": \"scores\",\n\t\"classes\": [" + std::string(500, 'x') + "]}";
  Add(report, name, Floats({1, 2}, {-1.23456e-30f, 1}), Floats({1, 2}, {1.23456e30f, -3e38f}));
  Report rendered;
  AddDiff(report, rendered);
  const std::string text = ReportText(rendered);
  size_t begin = 0;
  int lines = 0;
  while (begin < text.size()) {
    const size_t end = text.find('\n', begin);
    CHECK(end - begin <= 100);
    begin = end + 1;
    ++lines;
  }
  CHECK(lines == 10);
}

TEST_CASE("the JSON has fixed keys, and words for what JSON lacks") {
  DiffReport report;
  report.reference = "a.onnx";
  report.samples = 1;
  Add(report, "y\"\xff", Floats({1}, {2}), Floats({1}, {2}));
  CHECK(DiffJson(report).Text() == R"({
  "reference": "a.onnx",
  "samples": 1,
  "worst_sample": -1,
  "outputs": [
    {
      "name": "y\")"
                                   "\xEF\xBF\xBD"
                                   R"(",
      "dtype": "float32",
      "elements": 1,
      "max_abs": 0.0,
      "mean_abs": 0.0,
      "rmse": 0.0,
      "relative_rms": 0.0,
      "cosine": 1.0,
      "sqnr_db": "inf",
      "psnr_db": "inf",
      "max_ulp": 0.0,
      "kl": null,
      "top1": null,
      "top5": null,
      "saturated": null,
      "non_finite": 0,
      "needed_rtol": 0.0,
      "needed_atol": 0.0,
      "sqnr_db_by_sample": []
    }
  ]
}
)");
}

TEST_CASE("tables align numbers right and text left") {
  Table table({"name", "n", "note"});
  table.AddRow({"a", "12", "x"});
  table.AddRow({"\xC3\xA4\xC3\xB6", "-3.5", ""});
  table.AddRow({"c\nd", ""});
  CHECK(table.Render() ==
        "name     n  note\n"
        "----  ----  ----\n"
        "a       12  x\n"
        "\xC3\xA4\xC3\xB6    -3.5\n"
        "c?d\n");
}

TEST_CASE("long text gives way in the middle, by whole characters") {
  CHECK(Shortened("short", 5) == "short");
  CHECK(Shortened("0123456789", 7) == "01...89");
  CHECK(Shortened("0123456789", 8) == "012...89");
  CHECK(Shortened("\xC3\xA4\xC3\xA4\xC3\xA4\xC3\xA4\xC3\xA4\xC3\xA4", 5) == "\xC3\xA4...\xC3\xA4");
  CHECK(Shortened("abcdef", 2) == "..");
}

}  // namespace
}  // namespace quant
