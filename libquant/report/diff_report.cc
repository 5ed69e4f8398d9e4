#include "libquant/report/diff_report.h"

#include <algorithm>
#include <cmath>

#include "libquant/report/table.h"

namespace quant {
namespace {

constexpr size_t kNameWidth = 28;

std::string Short(double value) { return fmt::format("{:.4g}", value); }

double SizeRatio(const DiffReport& report) {
  return static_cast<double>(*report.candidate_bytes) /
         static_cast<double>(std::max<int64_t>(*report.reference_bytes, 1));
}

std::string OutputTable(const DiffReport& report) {
  Table table({"output", "max abs", "mean abs", "rmse", "rel rms", "cosine", "SQNR dB", "top-1"});
  for (const DiffOutput& output : report.outputs) {
    const OutputMetrics& m = output.metrics;
    const auto top1 = m.top1();
    table.AddRow({Shortened(output.name, kNameWidth), Short(m.max_abs()), Short(m.mean_abs()), Short(m.rmse()),
                  Short(m.relative_rms()), fmt::format("{:.6f}", m.cosine()), fmt::format("{:.2f}", m.sqnr_db()),
                  top1 ? fmt::format("{:.2f} %", *top1 * 100) : ""});
  }
  return table.Render();
}

}  // namespace

Measures MeasuresOf(const DiffReport& report) {
  Measures out;
  // NaN is worst of all and stays.
  const auto worse = [&](const std::string& name, double value, bool low_is_bad) {
    const auto it = std::find_if(out.begin(), out.end(), [&](const auto& m) { return m.first == name; });
    if (it == out.end()) {
      out.emplace_back(name, value);
    } else if (std::isnan(value) || (low_is_bad ? value < it->second : value > it->second)) {
      it->second = value;
    }
  };
  for (const DiffOutput& output : report.outputs) {
    const OutputMetrics& m = output.metrics;
    worse("sqnr", m.sqnr_db(), true);
    worse("cosine", m.cosine(), true);
    worse("relative_rms", m.relative_rms(), false);
    worse("rmse", m.rmse(), false);
    worse("max_abs", m.max_abs(), false);
    worse("mean_abs", m.mean_abs(), false);
    worse("non_finite", static_cast<double>(m.non_finite()), false);
    if (m.top1()) worse("top1", *m.top1(), true);
  }
  if (report.accuracy) {
    out.emplace_back("accuracy", report.accuracy->candidate);
    out.emplace_back("accuracy.drop", report.accuracy->drop_points());
  }
  if (report.reference_bytes && report.candidate_bytes) out.emplace_back("size.ratio", SizeRatio(report));
  return out;
}

std::string DiffText(const DiffReport& report) {
  std::string out = OutputTable(report);
  out += fmt::format("over {} sample{}\n", report.samples, report.samples == 1 ? "" : "s");
  for (const DiffOutput& output : report.outputs) {
    const int64_t count = output.metrics.non_finite();
    if (count == 0) continue;
    out += fmt::format("output {}: {} element{} NaN or infinite in one model only\n",
                       Shortened(output.name, kNameWidth), count, count == 1 ? " is" : "s are");
  }
  if (report.accuracy) {
    const Accuracy& a = *report.accuracy;
    out += fmt::format("accuracy on {} labels: {:.2f} % before, {:.2f} % after, drop {:.2f} points\n", a.labels,
                       a.reference * 100, a.candidate * 100, a.drop_points());
  }
  if (report.reference_bytes && report.candidate_bytes) {
    out += fmt::format("size: {} bytes before, {} bytes after ({:.1f} %)\n", *report.reference_bytes,
                       *report.candidate_bytes, SizeRatio(report) * 100);
  }
  for (const GateVerdict& v : report.gates) {
    out += fmt::format("gate {}: {} ({:.6g})\n", v.gate.text, v.met ? "met" : "NOT MET", v.value);
  }
  return out;
}

}  // namespace quant
