#include "tools/plan_report.h"

#include <fmt/format.h>

#include "libquant/report/table.h"
#include "tools/units.h"

namespace quant {
namespace {

ReportCell Size(int64_t bytes) { return {DecimalBytes(bytes), static_cast<double>(bytes)}; }
ReportCell OrDash(const std::optional<int64_t>& bytes) { return bytes ? Size(*bytes) : ReportCell("-"); }

std::string_view TextOf(PlanReport::CacheSource source) {
  return source == PlanReport::CacheSource::kFlags   ? "flags"
         : source == PlanReport::CacheSource::kGraph ? "graph"
                                                     : "none";
}

std::string CacheText(const PlanReport& r) {
  if (r.cache_source == PlanReport::CacheSource::kNone) {
    return r.model ? "none in the graph" : "not counted: --layers, --hidden and --sequence give it";
  }
  const std::string from = r.cache_source == PlanReport::CacheSource::kFlags
                               ? "from flags"
                               : fmt::format("from {} tensors of the graph", r.cache_tensors);
  return fmt::format("{}, {}: {} token{} of {} = {} bytes ({})", from, r.cache_type, Grouped(r.cache.length),
                     r.cache.length == 1 ? "" : "s", Bytes(r.cache.bytes_per_token), Grouped(r.cache.bytes),
                     Bytes(r.cache.bytes));
}

std::string ActivationText(const PlanReport& r) {
  if (!r.activations) return "not counted: they need a model";
  const ActivationMemory& a = *r.activations;
  std::string out = DecimalBytes(a.peak_bytes);
  if (!r.peak_node.empty()) out += fmt::format(" at most, at {}", Shortened(r.peak_node, 60));
  if (a.unknown_values > 0) out += fmt::format("; {} values of unknown shape are not counted", a.unknown_values);
  return out;
}

std::string DimsText(const std::map<std::string, int64_t>& dims) {
  std::string out;
  for (const auto& [name, number] : dims) out += fmt::format("{}{} = {}", out.empty() ? "" : ", ", name, number);
  return out;
}

ReportTable PrecisionTable(const PlanReport& r) {
  std::vector<std::string> headings = {"precision",   "weights", "KV cache",
                                       "activations", "total",   fmt::format("with {:g} %", r.margin_percent)};
  for (const Device& d : r.devices) headings.push_back(d.name);
  headings.emplace_back("expected loss*");
  ReportTable table{headings, {}};
  for (const Precision& p : r.precisions) {
    std::vector<ReportCell> row = {p.name,
                                   Size(p.weight_bytes),
                                   OrDash(p.cache_bytes),
                                   OrDash(p.activation_bytes),
                                   Size(p.total_bytes),
                                   Size(p.with_margin)};
    for (const Device& d : r.devices) row.emplace_back(std::string(TextOf(FitOf(p.with_margin, d))));
    row.emplace_back(std::string(TextOf(p.loss)));
    table.rows.push_back(std::move(row));
  }
  return table;
}

// What each precision needs, and what devices have.
ReportPlot MemoryPlot(const PlanReport& r) {
  ReportPlot plot;
  plot.title = "Memory with the margin, by precision";
  plot.x_title = "precision";
  plot.y_title = "bytes";
  plot.log_y = true;
  plot.series.push_back({"needed", {}, true});
  for (size_t i = 0; i < r.precisions.size(); ++i) {
    const Precision& p = r.precisions[i];
    plot.series[0].points.push_back({static_cast<double>(i), static_cast<double>(p.with_margin), p.name});
  }
  for (const Device& d : r.devices) plot.marks.emplace_back(static_cast<double>(d.memory), d.name);
  return plot;
}

Json CacheJson(const PlanReport& r) {
  Json out = Json::Object().Set("source", TextOf(r.cache_source));
  if (r.cache_source == PlanReport::CacheSource::kNone) return out;
  return out.Set("type", r.cache_type)
      .Set("tensors", static_cast<int64_t>(r.cache_tensors))
      .Set("length", r.cache.length)
      .Set("bytes_per_token", r.cache.bytes_per_token)
      .Set("bytes", r.cache.bytes)
      .Set("dims_taken_as_1", r.cache.opened);
}

Json PrecisionsJson(const PlanReport& r) {
  Json out = Json::Array();
  for (const Precision& p : r.precisions) {
    Json fits = Json::Object();
    for (const Device& d : r.devices) fits.Set(d.name, TextOf(FitOf(p.with_margin, d)));
    out.Append(Json::Object()
                   .Set("precision", p.name)
                   .Set("weight_bytes", p.weight_bytes)
                   .Set("cache_bytes", p.cache_bytes)
                   .Set("activation_bytes", p.activation_bytes)
                   .Set("total_bytes", p.total_bytes)
                   .Set("with_margin_bytes", p.with_margin)
                   .Set("fits", fits)
                   .Set("expected_loss", TextOf(p.loss)));
  }
  return out;
}

Json DevicesJson(const PlanReport& r) {
  Json out = Json::Array();
  for (size_t i = 0; i < r.devices.size(); ++i) {
    const Device& d = r.devices[i];
    const Choice& c = r.choices[i];
    out.Append(Json::Object()
                   .Set("name", d.name)
                   .Set("about", d.about)
                   .Set("memory_bytes", d.memory)
                   .Set("memory_at_best_bytes", d.memory_at_best)
                   .Set("choice", c.precision ? Json(r.precisions[*c.precision].name) : Json())
                   .Set("fit", TextOf(c.fit))
                   .Set("reason", Explain(c, r.precisions, d)));
  }
  return out;
}

}  // namespace

void PlanReport::AddTo(Report& report) const {
  report.title = model ? fmt::format("{}, {} parameters", *model, Grouped(parameters))
                       : fmt::format("{} parameters", Grouped(parameters));
  ReportSection sizes{"", {}, true};
  sizes.blocks.emplace_back("KV cache: " + CacheText(*this));
  sizes.blocks.emplace_back("activations: " + ActivationText(*this));
  if (!dims.empty()) sizes.blocks.emplace_back("dimensions: " + DimsText(dims));
  report.sections.push_back(std::move(sizes));
  report.sections.push_back(
      {"Memory",
       {PrecisionTable(*this), "* published rules of thumb, not measured on this model: `nibble diff` measures"},
       true});
  report.sections.push_back({"What is needed and what there is", {MemoryPlot(*this)}, false});
  ReportSection about{"Devices", {}, true};
  for (const Device& d : devices) about.blocks.emplace_back(fmt::format("{}: {}", d.name, d.about));
  report.sections.push_back(std::move(about));
  for (size_t i = 0; i < devices.size(); ++i) {
    report.facts.emplace_back(devices[i].name, Explain(choices[i], precisions, devices[i]));
    report.cases.push_back(
        {"device", devices[i].name, choices[i].fit != Fit::kNo, Explain(choices[i], precisions, devices[i])});
  }
  for (const std::string& note : notes) report.facts.emplace_back("note", note);
  report.data = ToJson();
}

Json PlanReport::ToJson() const {
  Json out = Json::Object().Set("model", model).Set("parameters", parameters);
  out.Set("margin_percent", margin_percent).Set("cache", CacheJson(*this));
  if (activations) {
    out.Set("activations", Json::Object()
                               .Set("peak_bytes", activations->peak_bytes)
                               .Set("at", peak_node)
                               .Set("dims_taken_as_1", activations->open_dims)
                               .Set("values_not_counted", activations->unknown_values));
  }
  Json numbers = Json::Object();
  for (const auto& [name, number] : dims) numbers.Set(name, number);
  out.Set("dims", numbers).Set("precisions", PrecisionsJson(*this));
  out.Set("expected_loss_is", "a published rule of thumb, not measured");
  return out.Set("devices", DevicesJson(*this)).Set("notes", notes);
}

}  // namespace quant
