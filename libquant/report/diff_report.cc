#include "libquant/report/diff_report.h"

#include <algorithm>
#include <cmath>

#include "libquant/report/table.h"

namespace quant {
namespace {

constexpr size_t kNameWidth = 27;  // tables fit 100 columns
constexpr size_t kLayersShown = 20;
constexpr double kInfinity = std::numeric_limits<double>::infinity();

ReportCell Short(double value) { return {fmt::format("{:.4g}", value), value}; }
ReportCell Short(const std::optional<double>& value) { return value ? Short(*value) : ReportCell(""); }
ReportCell Decibels(double value) { return {fmt::format("{:.2f}", value), value}; }
ReportCell Percent(const std::optional<double>& part) {
  return part ? ReportCell(fmt::format("{:.2f} %", *part * 100), *part) : ReportCell("");
}

double SizeRatio(const DiffReport& report) {
  return static_cast<double>(*report.candidate_bytes) /
         static_cast<double>(std::max<int64_t>(*report.reference_bytes, 1));
}

bool HasSizes(const DiffReport& report) { return report.reference_bytes && report.candidate_bytes; }

ReportTable OutputTable(const DiffReport& diff) {
  ReportTable table{{"output", "max abs", "mean abs", "rmse", "rel rms", "cosine", "SQNR dB", "top-1"}, {}};
  for (const DiffOutput& output : diff.outputs) {
    const OutputMetrics& m = output.metrics;
    table.rows.push_back({Shortened(output.name, kNameWidth), Short(m.max_abs()), Short(m.mean_abs()), Short(m.rmse()),
                          Short(m.relative_rms()), ReportCell(fmt::format("{:.6f}", m.cosine()), m.cosine()),
                          Decibels(m.sqnr_db()), Percent(m.top1())});
  }
  return table;
}

// What the first table has no room for.
ReportTable MoreOfOutputs(const DiffReport& diff) {
  ReportTable table{{"output", "PSNR dB", "max ulp", "KL nats", "top-5", "saturated", "needed rtol", "needed atol"},
                    {}};
  for (const DiffOutput& output : diff.outputs) {
    const OutputMetrics& m = output.metrics;
    table.rows.push_back({Shortened(output.name, kNameWidth), Decibels(m.psnr_db()), Short(m.max_ulp()), Short(m.kl()),
                          Percent(m.top5()), Percent(m.saturated()), Short(m.needed_rtol()), Short(m.needed_atol())});
  }
  return table;
}

double AtPart(const std::vector<double>& sorted, double part) {
  return sorted[static_cast<size_t>(part * static_cast<double>(sorted.size() - 1))];
}

ReportTable SampleTable(const DiffReport& diff) {
  ReportTable table{{"SQNR dB by sample", "least", "5 %", "25 %", "median", "75 %", "worst sample"}, {}};
  for (const DiffOutput& output : diff.outputs) {
    std::vector<double> sorted = output.sqnr_by_sample;
    if (sorted.size() < 2) continue;
    const auto worst = std::min_element(sorted.begin(), sorted.end()) - sorted.begin();
    std::sort(sorted.begin(), sorted.end());
    table.rows.push_back({Shortened(output.name, kNameWidth), Decibels(sorted[0]), Decibels(AtPart(sorted, 0.05)),
                          Decibels(AtPart(sorted, 0.25)), Decibels(AtPart(sorted, 0.5)), Decibels(AtPart(sorted, 0.75)),
                          ReportCell(fmt::format("{}", worst), static_cast<double>(worst))});
  }
  return table;
}

std::vector<ReportCell> LayerRow(size_t place, const DiffLayer& layer) {
  const OutputMetrics& m = layer.metrics;
  return {ReportCell(fmt::format("{}", place), static_cast<double>(place)),
          Shortened(layer.name, kNameWidth),
          layer.op_type,
          Decibels(m.sqnr_db()),
          Short(m.relative_rms()),
          Short(m.max_abs()),
          ReportCell(fmt::format("{:.6f}", m.cosine()), m.cosine())};
}

const std::vector<std::string>& LayerColumns() {
  static const std::vector<std::string> columns = {"#", "value", "operator", "SQNR dB", "rel rms", "max abs", "cosine"};
  return columns;
}

std::string CountText(const LayerDiff& layers) {
  return fmt::format(
      "{} of the {} float values of the reference have the same name in the candidate and are compared; "
      "the others are inside of its fused operators.",
      layers.layers.size(), layers.reference_values);
}

std::string FirstBelowText(const LayerDiff& layers, double line) {
  const DiffLayer* first = FirstBelow(layers, line);
  if (first == nullptr) return fmt::format("no layer is below {} dB", line);
  return fmt::format("{} ({}), {:.2f} dB", first->name, first->op_type, first->metrics.sqnr_db());
}

// On the terminal the worst layers only.
void AddLayers(const LayerDiff& layers, double line, Report& report) {
  std::vector<size_t> order(layers.layers.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return layers.layers[a].metrics.sqnr_db() < layers.layers[b].metrics.sqnr_db();
  });
  ReportTable worst{LayerColumns(), {}, kLayersShown};
  for (size_t i : order) worst.rows.push_back(LayerRow(i, layers.layers[i]));
  ReportPlot plot{"SQNR by layer, along the graph", "layer", "SQNR dB", false, false, {{"SQNR", {}, true}}, {}};
  for (size_t i = 0; i < layers.layers.size(); ++i) {
    const DiffLayer& layer = layers.layers[i];
    plot.series[0].points.push_back(
        {static_cast<double>(i), layer.metrics.sqnr_db(), layer.name + " (" + layer.op_type + ")"});
  }
  plot.marks.emplace_back(line, fmt::format("{} dB", line));
  ReportSection along{"Layers along the graph", {CountText(layers), std::move(plot)}, false};
  report.sections.push_back(std::move(along));
  report.sections.push_back({"Layers, worst first", {std::move(worst)}, true});
  if (!layers.worst.empty()) {
    std::vector<ReportHistogram> histograms;
    for (const LayerHistograms& layer : layers.worst) {
      histograms.push_back(layer.values);
      histograms.push_back(layer.errors);
    }
    report.sections.push_back({"Histograms of the worst layers", {std::move(histograms)}, false});
  }
  if (!layers.saturated.empty()) {
    ReportTable table{{"integers of the candidate", "at an end of the range"}, {}, kLayersShown};
    for (const auto& [name, part] : layers.saturated)
      table.rows.push_back({Shortened(name, kNameWidth), Percent(part)});
    report.sections.push_back({"Saturation", {std::move(table)}, true});
  }
  report.facts.emplace_back("layers compared", fmt::format("{} of {}", layers.layers.size(), layers.reference_values));
  report.facts.emplace_back(fmt::format("first layer below {} dB", line), FirstBelowText(layers, line));
}

void AddTask(const DiffReport& diff, Report& report) {
  if (diff.task) {
    const TaskDiff& t = *diff.task;
    report.facts.emplace_back(fmt::format("accuracy on {} labels", t.labels),
                              fmt::format("{:.2f} % before, {:.2f} % after, drop {:.2f} points",
                                          t.reference.accuracy * 100, t.candidate.accuracy * 100, t.drop_points()));
    ReportTable table{{t.output, "reference", "candidate"}, {}};
    const auto row = [&](const char* name, double a, double b) {
      table.rows.push_back({name, ReportCell(fmt::format("{:.4f}", a), a), ReportCell(fmt::format("{:.4f}", b), b)});
    };
    row("accuracy = micro precision, recall, F1", t.reference.accuracy, t.candidate.accuracy);
    row("macro precision", t.reference.macro_precision, t.candidate.macro_precision);
    row("macro recall", t.reference.macro_recall, t.candidate.macro_recall);
    row("macro F1", t.reference.macro_f1, t.candidate.macro_f1);
    report.sections.push_back({"Classes", {std::move(table)}, true});
  }
  if (diff.numbers) {
    const NumberDiff& n = *diff.numbers;
    report.facts.emplace_back(fmt::format("mean squared error of {}", n.output),
                              fmt::format("{:.6g} before, {:.6g} after", n.reference, n.candidate));
  }
}

// An output passes unless it is NaN or infinite where the other is not.
void AddCases(const DiffReport& diff, Report& report) {
  for (const DiffOutput& output : diff.outputs) {
    const OutputMetrics& m = output.metrics;
    ReportCase one{"output", output.name, m.non_finite() == 0, ""};
    one.message = one.passed ? fmt::format("SQNR {:.2f} dB, largest error {:.4g}", m.sqnr_db(), m.max_abs())
                             : fmt::format("{} elements are NaN or infinite in one model only", m.non_finite());
    report.cases.push_back(std::move(one));
  }
}

}  // namespace

Measures MeasuresOf(const DiffReport& report) {
  Measures out;
  // NaN is worst of all and stays.
  const auto worse = [&](const std::string& name, std::optional<double> value, bool low_is_bad) {
    if (!value) return;
    const auto it = std::find_if(out.begin(), out.end(), [&](const auto& m) { return m.first == name; });
    if (it == out.end()) {
      out.emplace_back(name, *value);
    } else if (std::isnan(*value) || (low_is_bad ? *value < it->second : *value > it->second)) {
      it->second = *value;
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
    worse("psnr", m.psnr_db(), true);
    worse("max_ulp", m.max_ulp(), false);
    worse("kl", m.kl(), false);
    worse("non_finite", static_cast<double>(m.non_finite()), false);
    worse("saturated", m.saturated(), false);
    worse("top1", m.top1(), true);
    worse("top5", m.top5(), true);
  }
  if (report.layers) {
    worse("layer.sqnr", kInfinity, true);
    for (const DiffLayer& layer : report.layers->layers) worse("layer.sqnr", layer.metrics.sqnr_db(), true);
    for (const auto& [name, part] : report.layers->saturated) worse("saturated", part, false);
  }
  if (report.task) {
    const TaskDiff& t = *report.task;
    out.emplace_back("accuracy", t.candidate.accuracy);
    out.emplace_back("accuracy.drop", t.drop_points());
    out.emplace_back("f1", t.candidate.macro_f1);
    out.emplace_back("f1.drop", (t.reference.macro_f1 - t.candidate.macro_f1) * 100);
  }
  if (report.numbers) {
    const NumberDiff& n = *report.numbers;
    out.emplace_back("mse", n.candidate);
    out.emplace_back("mse.ratio", n.candidate == n.reference ? 1 : n.candidate / n.reference);
  }
  if (HasSizes(report)) out.emplace_back("size.ratio", SizeRatio(report));
  return out;
}

int64_t WorstSample(const DiffReport& report) {
  int64_t worst = -1;
  double least = kInfinity;
  for (const DiffOutput& output : report.outputs) {
    for (size_t i = 0; i < output.sqnr_by_sample.size(); ++i) {
      if (worst >= 0 && !(output.sqnr_by_sample[i] < least)) continue;
      least = output.sqnr_by_sample[i];
      worst = static_cast<int64_t>(i);
    }
  }
  return worst;
}

const DiffLayer* FirstBelow(const LayerDiff& layers, double line) {
  const auto it = std::find_if(layers.layers.begin(), layers.layers.end(),
                               [&](const DiffLayer& layer) { return layer.metrics.sqnr_db() < line; });
  return it == layers.layers.end() ? nullptr : &*it;
}

void AddDiff(const DiffReport& diff, Report& report) {
  ReportSection outputs{"Outputs", {OutputTable(diff), MoreOfOutputs(diff)}, true};
  ReportTable by_sample = SampleTable(diff);
  if (!by_sample.rows.empty()) outputs.blocks.emplace_back(std::move(by_sample));
  report.sections.push_back(std::move(outputs));
  report.facts.emplace_back("samples", fmt::format("{}", diff.samples));
  for (const DiffOutput& output : diff.outputs) {
    const int64_t count = output.metrics.non_finite();
    if (count == 0) continue;
    report.facts.emplace_back(
        fmt::format("output {}", output.name),
        fmt::format("{} element{} NaN or infinite in one model only", count, count == 1 ? " is" : "s are"));
  }
  AddTask(diff, report);
  if (HasSizes(diff)) {
    report.facts.emplace_back("size", fmt::format("{} bytes before, {} bytes after ({:.1f} %)", *diff.reference_bytes,
                                                  *diff.candidate_bytes, SizeRatio(diff) * 100));
  }
  if (diff.layers) AddLayers(*diff.layers, diff.line, report);
  AddCases(diff, report);
  for (auto& measure : MeasuresOf(diff)) report.measures.push_back(std::move(measure));
}

}  // namespace quant
