#include <cmath>
#include <nlohmann/json.hpp>

#include "libquant/report/diff_report.h"

namespace quant {
namespace {

using Json = nlohmann::ordered_json;

Json Number(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  return value;
}

Json OutputJson(const DiffOutput& output) {
  const OutputMetrics& m = output.metrics;
  Json row;
  row["name"] = output.name;
  row["dtype"] = std::string(NameOf(output.dtype));
  row["elements"] = m.elements();
  row["max_abs"] = Number(m.max_abs());
  row["mean_abs"] = Number(m.mean_abs());
  row["rmse"] = Number(m.rmse());
  row["relative_rms"] = Number(m.relative_rms());
  row["cosine"] = Number(m.cosine());
  row["sqnr_db"] = Number(m.sqnr_db());
  row["top1"] = m.top1() ? Number(*m.top1()) : Json();
  row["non_finite"] = m.non_finite();
  return row;
}

}  // namespace

std::string DiffJson(const DiffReport& report) {
  Json out;
  out["schema_version"] = 1;
  if (!report.reference.empty()) out["reference"] = report.reference;
  if (!report.candidate.empty()) out["candidate"] = report.candidate;
  if (report.reference_bytes) out["reference_bytes"] = *report.reference_bytes;
  if (report.candidate_bytes) out["candidate_bytes"] = *report.candidate_bytes;
  out["samples"] = report.samples;
  out["outputs"] = Json::array();
  for (const DiffOutput& output : report.outputs) out["outputs"].push_back(OutputJson(output));
  out["worst"] = Json::object();
  for (const auto& [name, value] : MeasuresOf(report)) out["worst"][name] = Number(value);
  if (report.accuracy) {
    const Accuracy& a = *report.accuracy;
    out["accuracy"] = {{"output", a.output},
                       {"labels", a.labels},
                       {"reference", Number(a.reference)},
                       {"candidate", Number(a.candidate)},
                       {"drop_points", Number(a.drop_points())}};
  }
  for (const GateVerdict& v : report.gates) {
    out["gates"].push_back(
        {{"text", v.gate.text}, {"metric", v.gate.metric}, {"value", Number(v.value)}, {"met", v.met}});
  }
  // Names come from files and may be no UTF-8: such bytes are replaced.
  return out.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace quant
