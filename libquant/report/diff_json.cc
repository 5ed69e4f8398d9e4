#include "libquant/report/diff_report.h"

namespace quant {
namespace {

void SetMetrics(const OutputMetrics& m, Json& row) {
  row.Set("elements", m.elements()).Set("max_abs", m.max_abs()).Set("mean_abs", m.mean_abs()).Set("rmse", m.rmse());
  row.Set("relative_rms", m.relative_rms()).Set("cosine", m.cosine()).Set("sqnr_db", m.sqnr_db());
  row.Set("psnr_db", m.psnr_db()).Set("max_ulp", m.max_ulp()).Set("kl", m.kl()).Set("top1", m.top1());
  row.Set("top5", m.top5()).Set("saturated", m.saturated()).Set("non_finite", m.non_finite());
  row.Set("needed_rtol", m.needed_rtol()).Set("needed_atol", m.needed_atol());
}

Json OutputJson(const DiffOutput& output) {
  Json row = Json::Object();
  row.Set("name", output.name).Set("dtype", NameOf(output.dtype));
  SetMetrics(output.metrics, row);
  return row.Set("sqnr_db_by_sample", output.sqnr_by_sample);
}

Json ScoresJson(const TaskScores& scores) {
  Json out = Json::Object();
  out.Set("accuracy", scores.accuracy).Set("macro_precision", scores.macro_precision);
  return out.Set("macro_recall", scores.macro_recall).Set("macro_f1", scores.macro_f1);
}

Json LayersJson(const LayerDiff& layers, double line) {
  Json list = Json::Array();
  for (const DiffLayer& layer : layers.layers) {
    Json row = Json::Object();
    row.Set("name", layer.name).Set("node", layer.node).Set("op_type", layer.op_type).Set("dtype", NameOf(layer.dtype));
    SetMetrics(layer.metrics, row);
    list.Append(row);
  }
  Json saturated = Json::Object();
  for (const auto& [name, part] : layers.saturated) saturated.Set(name, part);
  const DiffLayer* first = FirstBelow(layers, line);
  Json out = Json::Object();
  out.Set("reference_values", layers.reference_values).Set("line_db", line);
  out.Set("first_below", first == nullptr ? Json() : Json(first->name));
  return out.Set("values", list).Set("saturated", saturated);
}

}  // namespace

Json DiffJson(const DiffReport& report) {
  Json out = Json::Object();
  if (!report.reference.empty()) out.Set("reference", report.reference);
  if (!report.candidate.empty()) out.Set("candidate", report.candidate);
  if (!report.source.empty()) out.Set("source", report.source);
  if (report.reference_bytes) out.Set("reference_bytes", *report.reference_bytes);
  if (report.candidate_bytes) out.Set("candidate_bytes", *report.candidate_bytes);
  out.Set("samples", report.samples).Set("worst_sample", WorstSample(report));
  Json outputs = Json::Array();
  for (const DiffOutput& output : report.outputs) outputs.Append(OutputJson(output));
  out.Set("outputs", outputs);
  if (report.task) {
    const TaskDiff& t = *report.task;
    Json task = Json::Object();
    task.Set("output", t.output).Set("labels", t.labels).Set("reference", ScoresJson(t.reference));
    out.Set("task", task.Set("candidate", ScoresJson(t.candidate)).Set("drop_points", t.drop_points()));
  }
  if (report.numbers) {
    Json numbers = Json::Object();
    numbers.Set("output", report.numbers->output).Set("reference_mse", report.numbers->reference);
    out.Set("numbers", numbers.Set("candidate_mse", report.numbers->candidate));
  }
  if (report.layers) out.Set("layers", LayersJson(*report.layers, report.line));
  return out;
}

}  // namespace quant
