// Reports for the tests of the renderings: one with every kind of block and with names that try to break out, one as
// large as reports get.
#pragma once

#include <cmath>
#include <limits>
#include <string>

#include "libquant/report/report.h"

namespace quant {

// Quotes, tags, Markdown, control characters, bytes that are no UTF-8.
inline const std::string& HostileName() {
  static const std::string name =
      "</script><img src=x onerror=\"alert('1')\">|`*[x](y)`\\ &amp; \x01\x7F\xFF\xC0\x80 é\t\u202E]]>";
  return name;
}

inline std::string LayerName(size_t i) {
  return "/model/encoder/layers." + std::to_string(i / 8) + "/self_attention/projection_" + std::to_string(i % 8) +
         "/MatMul_output_" + std::to_string(i);
}

// Falls along the graph, with a wave; every fiftieth is untouched.
inline double LayerSqnr(size_t i, size_t phase) {
  if (i % 50 == 7) return std::numeric_limits<double>::infinity();
  const auto x = static_cast<double>(i);
  return 46 - 9 * std::sqrt(x / 60) + 4 * std::sin(x / 5 + static_cast<double>(phase)) - static_cast<double>(3 * phase);
}

inline ReportPlot LayerPlot(size_t layers) {
  ReportPlot plot{"SQNR by layer", "layer, in graph order", "SQNR (dB)", false, false, {}, {{30, "gate: sqnr>=30"}}};
  for (size_t phase = 0; phase < 2; ++phase) {
    PlotSeries series{phase == 0 ? "from the start" : "this layer alone", {}, true};
    for (size_t i = 0; i < layers; ++i) {
      series.points.push_back({static_cast<double>(i), LayerSqnr(i, phase), LayerName(i)});
    }
    plot.series.push_back(std::move(series));
  }
  return plot;
}

inline ReportTable LayerTable(size_t layers) {
  ReportTable table{{"layer", "operator", "elements", "SQNR dB", "range before", "range after"}, {}};
  for (size_t i = 0; i < layers; ++i) {
    const double sqnr = LayerSqnr(i, 0);
    const auto elements = static_cast<double>(4096 + 97 * (i * i % 53));
    table.rows.push_back({LayerName(i), i % 3 == 0 ? "Conv" : "MatMul",
                          ReportCell(fmt::format("{:.0f}", elements), elements),
                          ReportCell(fmt::format("{:.2f}", sqnr), sqnr), "-1.25 to 3.75", "-1.2 to 3.7"});
  }
  return table;
}

inline ReportHistogram WeightHistogram(size_t index) {
  ReportHistogram out{LayerName(index), -0.75, 0.75, {{"reference", {}}, {"candidate", {}}}};
  for (int bin = 0; bin < 48; ++bin) {
    const double x = (bin - 23.5) / 9;
    const auto count = static_cast<int64_t>(9000 * std::exp(-x * x * (1 + 0.2 * static_cast<double>(index))));
    out.counts[0].second.push_back(count);
    out.counts[1].second.push_back(bin % 3 == 1 ? count * 3 : 0);
  }
  return out;
}

inline ReportSection TradeOffs() {
  ReportPlot plot{"Size against accuracy", "size (bytes)", "relative rms", true, true, {}, {}};
  const char* formats[] = {"int8", "int4", "int3"};
  for (size_t f = 0; f < 3; ++f) {
    PlotSeries series{formats[f], {}, f != 2};
    for (int group = 0; group < 5; ++group) {
      const double size = 4e6 / std::pow(2.0, static_cast<double>(f)) * (1 + 0.3 / (group + 1));
      const double error = f == 2 && group == 4 ? 0 : 0.002 * std::pow(8.0, static_cast<double>(f)) * (1 + 0.5 * group);
      series.points.push_back({size, error, fmt::format("{}, groups of {}", formats[f], 16 << group)});
    }
    plot.series.push_back(std::move(series));
  }
  return {"Trade-offs", {"Each point is one configuration, run on all samples.", std::move(plot)}};
}

inline GateVerdict Verdict(const std::string& text, double value) {
  GateVerdict out;
  out.gate = *ParseGate(text);
  out.value = value;
  out.met = out.gate.comparison == Comparison::kAtLeast ? value >= out.gate.limit : value <= out.gate.limit;
  return out;
}

inline Report BasicReport() {
  Report report;
  report.tool = "diff";
  report.title = "recognizer_int4.onnx against recognizer.onnx";
  report.files = {{"reference", "models/recognizer.onnx", 10857958, std::string(64, 'a')},
                  {"candidate", "out/recognizer_int4.onnx", 2391044, std::string(64, 'b')}};
  report.config = {{"data", "samples.npz"}, {"gate", "sqnr>=30, size.ratio<=0.25"}, {"threads", "2"}};
  report.facts = {{"size", "10.4 → 2.3 MiB (22 %)"},
                  {"worst SQNR", "27.61 dB"},
                  {"weights quantized", "97.2 %"},
                  {"samples", "20"}};
  report.measures = {{"sqnr", 27.61}, {"cosine", 0.99913}, {"size.ratio", 0.2202}};
  report.gates = {Verdict("size.ratio<=0.25", 0.2202), Verdict("sqnr>=30", 27.61)};
  report.cases = {{"output", "softmax_2.tmp_0", true, "SQNR 31.9 dB"}};
  return report;
}

inline ReportSection Coverage() {
  ReportTable table{{"why", "weights", "elements", "part"}, {}};
  const auto add = [&](const char* why, double weights, double elements, double part) {
    table.rows.push_back({why, ReportCell(fmt::format("{:.0f}", weights), weights),
                          ReportCell(fmt::format("{:.0f}", elements), elements),
                          ReportCell(fmt::format("{:.1f} %", part), part)});
  };
  add("quantized to int4 in groups of 32", 84, 2609152, 97.2);
  add("left float: fewer than 1,024 elements", 41, 21504, 0.8);
  add("left float: --skip 'head'", 1, 53760, 2.0);
  return {"Coverage of weights",
          {"Every weight has a verdict. What stays float costs size, not accuracy.", std::move(table)}};
}

inline Report RichReport() {
  Report report = BasicReport();
  report.sections.push_back(Coverage());
  report.sections.push_back(
      {"Layers", {"Both models run the same samples; layers are matched by name.", LayerPlot(160), LayerTable(400)}});
  std::vector<ReportHistogram> histograms;
  for (size_t i = 0; i < 6; ++i) histograms.push_back(WeightHistogram(i));
  report.sections.push_back({"Values of the worst layers", {std::move(histograms)}});
  report.sections.push_back(TradeOffs());
  return report;
}

// Every text a name that tries to break out.
inline Report HostileReport() {
  const std::string& name = HostileName();
  const double inf = std::numeric_limits<double>::infinity();
  const double nan = std::numeric_limits<double>::quiet_NaN();
  Report report;
  report.tool = name;
  report.title = name;
  report.files = {{name, name, 1, name}};
  report.config = {{name, name}};
  report.facts = {{name, name}};
  report.measures = {{name, nan}};
  report.gates = {Verdict("sqnr>=30", 1)};
  report.gates[0].gate.text = name;
  report.gates[0].value = -inf;
  report.cases = {{name, name, false, name}};
  ReportPlot plot{name,         name,
                  name,         false,
                  true,         {{name, {{0, 1, name}, {1, inf, name}, {2, nan, name}, {3, -1, name}, {nan, 2, name}}}},
                  {{0.5, name}}};
  report.sections.push_back({name,
                             {name, ReportTable{{name}, {{name}, {ReportCell(name, nan)}}}, std::move(plot),
                              std::vector<ReportHistogram>{{name, 0, 1, {{name, {1, 2}}}}}}});
  report.sections.push_back({"Nothing", {ReportTable{{"a"}, {}}, ReportPlot(), std::vector<ReportHistogram>{}, ""}});
  return report;
}

inline Report LargeReport(size_t layers) {
  Report report = BasicReport();
  report.sections.push_back({"Layers", {LayerPlot(layers), LayerTable(layers)}});
  std::vector<ReportHistogram> histograms;
  for (size_t i = 0; i < 16; ++i) histograms.push_back(WeightHistogram(i));
  report.sections.push_back({"Values of the worst layers", {std::move(histograms)}});
  return report;
}

}  // namespace quant
