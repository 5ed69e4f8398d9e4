#include "tools/quantize_report.h"

#include <algorithm>
#include <map>

#include "tools/argument_groups.h"
#include "tools/units.h"

namespace quant {
namespace {

std::string_view NameOf(VerdictKind kind) {
  switch (kind) {
    case VerdictKind::kQuantized:
      return "quantized";
    case VerdictKind::kSkipped:
      return "skipped";
    case VerdictKind::kUnsupported:
      break;
  }
  return "unsupported";
}

ReportTable VerdictTable(const QuantizePlan& plan) {
  const bool ruled =
      std::any_of(plan.verdicts.begin(), plan.verdicts.end(), [](const auto& v) { return !v.rule.empty(); });
  ReportTable table{{"verdict", "weight", "operator", "dims", "form or reason"}, {}};
  if (ruled) table.columns.emplace_back("rule");
  for (const WeightVerdict& v : plan.verdicts) {
    std::vector<ReportCell> row = {std::string(NameOf(v.kind)), v.weight, v.op_type, ToString(v.dims), v.reason};
    if (ruled) row.emplace_back(v.rule);
    table.rows.push_back(std::move(row));
  }
  return table;
}

// Each warning once, with the weights it is about counted.
std::vector<std::string> Warnings(const QuantizePlan& plan) {
  std::vector<std::string> order;
  std::map<std::string, std::pair<int64_t, std::string>> seen;
  for (const WeightVerdict& v : plan.verdicts) {
    if (v.warning.empty()) continue;
    const std::string key = v.op_type + ": " + v.warning;
    auto& [count, first] = seen[key];
    if (count++ == 0) {
      first = v.weight;
      order.push_back(key);
    }
  }
  std::vector<std::string> lines;
  for (const std::string& key : order) {
    const auto& [count, first] = seen[key];
    lines.push_back(
        fmt::format("note: {} ({})", key, count == 1 ? first : fmt::format("{} and {} more", first, count - 1)));
  }
  return lines;
}

std::string Totals(const QuantizePlan& plan) {
  int64_t quantized = 0;
  for (const WeightVerdict& v : plan.verdicts) quantized += v.kind == VerdictKind::kQuantized;
  std::string text = fmt::format("{} of {} quantized: {:.1f} % of {} elements", quantized, plan.verdicts.size(),
                                 plan.coverage() * 100, Grouped(plan.weight_elements()));
  if (quantized > 0) text += fmt::format(", {:.2f} bits each", plan.bits_per_weight());
  return text;
}

// Of a whole run's options, or of what a rule changes.
Json FormatJson(const WeightFormat& f) {
  Json out = Json::Object().Set("weights", f.weights);
  out.Set("group_size", f.granularity == Granularity::kGroup ? Json(f.group_size) : Json(NameOf(f.granularity)));
  out.Set("scheme", NameOf(f.scheme));
  return out.Set("scale_type", f.scale_type == DType::kUndefined ? Json("activation") : Json(NameOf(f.scale_type)));
}

Json OptionsJson(const QuantizeOptions& o) {
  Json out = FormatJson(o.format).Set("emit", NameOf(o.emit));
  if (o.emit == Emit::kNBits) out.Set("accuracy_level", o.accuracy_level);
  out.Set("keep", o.keep == Keep::kHalf ? "fp16" : "fp32");
  out.Set("clamp_non_finite", o.non_finite == NonFinite::kClamp);
  out.Set("skip", o.skip).Set("skip_op", o.skip_op).Set("only", o.only).Set("include_op", o.include_op);
  Json rules = Json::Array();
  for (const WeightRule& rule : o.rules) {
    Json row = Json::Object().Set("where", rule.where);
    if (!rule.match.empty()) row.Set("match", rule.match);
    if (!rule.op.empty()) row.Set("op", rule.op);
    if (rule.skip) row.Set("skip", true);
    for (const auto& [key, value] : rule.format) row.Set(key, value);
    rules.Append(row);
  }
  if (!o.rules.empty()) out.Set("rules", rules);
  return out.Set("target", o.target.name);
}

Json VerdictsJson(const QuantizePlan& plan) {
  Json out = Json::Array();
  for (const WeightVerdict& v : plan.verdicts) {
    Json row = Json::Object().Set("weight", v.weight).Set("verdict", NameOf(v.kind)).Set("reason", v.reason);
    row.Set("op_type", v.op_type).Set("node", v.node).Set("readers", static_cast<int64_t>(v.readers.size()));
    row.Set("dims", v.dims).Set("elements", v.elements);
    if (!v.rule.empty()) row.Set("rule", v.rule);
    if (v.kind == VerdictKind::kQuantized) {
      row.Set("bits", v.bits);
      row.Set("format", v.spec.format->name).Set("granularity", NameOf(v.spec.granularity));
      if (v.spec.granularity == Granularity::kGroup) row.Set("group_size", v.spec.group_size);
    }
    if (!v.warning.empty()) row.Set("warning", v.warning);
    out.Append(row);
  }
  return out;
}

}  // namespace

std::string_view NameOf(Granularity granularity) {
  return granularity == Granularity::kGroup ? "group" : granularity == Granularity::kChannel ? "channel" : "tensor";
}
std::string_view NameOf(Scheme scheme) { return scheme == Scheme::kSymmetric ? "symmetric" : "asymmetric"; }

double QuantizeReport::SizeRatio() const {
  const int64_t bytes = written ? written->model_bytes + written->data_bytes : estimated_bytes;
  return static_cast<double>(bytes) / static_cast<double>(source_bytes);
}

std::string QuantizeReport::Title() const { return output ? fmt::format("{} to {}", model, *output) : model; }

std::string QuantizeReport::SizeText() const {
  const std::string percent = fmt::format("{:.1f} %", SizeRatio() * 100);
  if (!written) {
    return fmt::format("{} -> about {} ({}); plan only, nothing written", Bytes(source_bytes), Bytes(estimated_bytes),
                       percent);
  }
  const std::string data =
      written->data_bytes > 0 ? fmt::format(" and {}.data {}", *output, Bytes(written->data_bytes)) : "";
  return fmt::format("{} -> {}{} ({})", Bytes(source_bytes), Bytes(written->model_bytes), data, percent);
}

void QuantizeReport::AddTo(Report& report) const {
  ReportSection weights{"Weights", {}, true};
  if (!plan.verdicts.empty()) weights.blocks.emplace_back(VerdictTable(plan));
  for (std::string& line : Warnings(plan)) weights.blocks.emplace_back(std::move(line));
  if (!weights.blocks.empty()) report.sections.push_back(std::move(weights));
  report.facts.emplace_back("weights", Totals(plan));
  if (plan.small_constants > 0) {
    report.facts.emplace_back(
        "float constants of rank 0 or 1",
        fmt::format("{} with {} elements stay as they are", plan.small_constants, Grouped(plan.small_elements)));
  }
  if (options.keep == Keep::kHalf && plan.coverage() < 1) {
    report.facts.emplace_back("weights that stay float", "stored as float16, with a Cast behind each");
  }
  if (opset_after > opset_before)
    report.facts.emplace_back("opset", fmt::format("{} -> {}", opset_before, opset_after));
  report.facts.emplace_back("file", SizeText());
  report.measures = {
      {"coverage", plan.coverage()}, {"bits_per_weight", plan.bits_per_weight()}, {"size.ratio", SizeRatio()}};
  report.data = ToJson();
}

Json QuantizeReport::ToJson() const {
  Json out = Json::Object().Set("model", model).Set("output", output).Set("options", OptionsJson(options));
  out.Set("written", written.has_value());
  out.Set("coverage", plan.coverage()).Set("bits_per_weight", plan.bits_per_weight());
  out.Set("weight_elements", plan.weight_elements()).Set("quantized_elements", plan.quantized_elements());
  out.Set("small_constants", plan.small_constants).Set("small_elements", plan.small_elements);
  out.Set("source_bytes", source_bytes).Set("estimated_bytes", estimated_bytes);
  if (written) out.Set("model_bytes", written->model_bytes).Set("data_bytes", written->data_bytes);
  out.Set("size_ratio", SizeRatio());
  if (opset_after > 0) out.Set("opset_before", opset_before).Set("opset_after", opset_after);
  return out.Set("verdicts", VerdictsJson(plan));
}

}  // namespace quant
