#include <cstdio>
#include <filesystem>

#include "libquant/exec/session.h"
#include "libquant/model/check.h"
#include "libquant/model/dim_names.h"
#include "libquant/model/properties.h"
#include "libquant/model/read.h"
#include "libquant/model/text.h"
#include "libquant/report/table.h"
#include "passes/quant/weight_quant.h"
#include "tools/argument_groups.h"
#include "tools/model_summary.h"
#include "tools/quantize_report.h"
#include "tools/tool.h"
#include "tools/units.h"

namespace quant {
namespace {

constexpr size_t kNameWidth = 48;
constexpr size_t kValueWidth = 200;

// A setting that `inspect` tries on the model.
struct Offer {
  std::string title;
  QuantizeOptions options;
  QuantizePlan plan;
  std::string problem;  // why there is no plan
};

std::vector<Offer> MakeOffers(const Model& model) {
  std::vector<Offer> offers(2);
  offers[0].title = "int4, groups of 32";
  offers[1].title = "int8, per channel";
  offers[1].options.format.weights = "int8";
  offers[1].options.format.granularity = Granularity::kChannel;
  for (Offer& offer : offers) {
    StatusOr<QuantizePlan> plan = PlanWeights(model, offer.options);
    if (plan.ok()) {
      offer.plan = *std::move(plan);
    } else {
      offer.problem = Message(plan.status());
    }
  }
  return offers;
}

std::string ShapeText(const Value& value) {
  if (!value.shape) return "unknown";
  Shape shape = *value.shape;
  for (Dim& d : shape) {
    if (!HasMeaningfulName(d)) d.symbol.clear();
  }
  return ToString(shape);
}

std::string OpsetText(const Model& model) {
  std::string out;
  for (const OpsetImport& o : model.opsets) {
    out += fmt::format("{}{} {}", out.empty() ? "" : ", ", o.domain.empty() ? "ai.onnx" : o.domain, o.version);
  }
  return out;
}

std::string Fact(const std::string& name, const std::string& text) { return fmt::format("{:<14} {}\n", name, text); }

std::string Indented(const std::string& text) {
  std::string out;
  for (size_t i = 0; i < text.size();) {
    const size_t end = std::min(text.find('\n', i), text.size());
    out += "  " + text.substr(i, end - i) + "\n";
    i = end + 1;
  }
  return out;
}

// Everything `inspect` found out.
struct Findings {
  std::string path;
  const Model& model;
  ModelProperties properties;
  ModelSummary summary;
  std::vector<Offer> offers;
  std::string checker;  // its complaint, if any
  size_t top = 10;
};

std::vector<ValueId> FedInputs(const Graph& graph) {
  std::vector<ValueId> out;
  for (ValueId v : graph.main().inputs) {
    if (!graph.value(v).is_initializer) out.push_back(v);
  }
  return out;
}

// An external data file, seen from the model's folder.
std::string DataPath(const Model& model, size_t i) {
  namespace fs = std::filesystem;
  std::error_code error;
  const fs::path folder = fs::canonical(model.sources[0]->path(), error).parent_path();
  const fs::path path = fs::relative(model.sources[i]->path(), folder, error);
  return error || path.empty() ? model.sources[i]->path() : path.string();
}

std::string HeadText(const Findings& f) {
  const Model& model = f.model;
  std::string out = Fact("model", fmt::format("{}, {}", f.path, Bytes(SourceBytes(model))));
  if (!model.graph.main().name.empty()) out += Fact("graph", model.graph.main().name);
  out += Fact("version", fmt::format("IR {}; opset {}", model.ir_version, OpsetText(model)));
  const ModelProperties& p = f.properties;
  if (!p.producer_name.empty()) out += Fact("producer", fmt::format("{} {}", p.producer_name, p.producer_version));
  for (const auto& [key, value] : p.metadata)
    out += Fact("metadata", fmt::format("{} = {}", key, Shortened(value, kValueWidth)));
  for (size_t i = 1; i < model.sources.size(); ++i) {
    out += Fact("external data", DataPath(model, i) + ", " + Bytes(model.sources[i]->size()));
  }
  for (const Function& function : model.functions) {
    out += Fact("function",
                fmt::format("{}:{}, {} nodes", function.domain, function.name, function.body.AllNodes().size()));
  }
  if (!f.checker.empty()) out += Fact("not valid", f.checker);
  return out;
}

std::string ValuesText(const Graph& graph) {
  Table table({"", "name", "type", "shape"});
  for (ValueId v : FedInputs(graph)) {
    const Value& value = graph.value(v);
    table.AddRow({"input", value.name, std::string(NameOf(value.dtype)), ShapeText(value)});
  }
  for (ValueId v : graph.main().outputs) {
    const Value& value = graph.value(v);
    table.AddRow({"output", value.name, std::string(NameOf(value.dtype)), ShapeText(value)});
  }
  return table.Render();
}

std::string OperatorsText(const ModelSummary& s) {
  std::string out = fmt::format("Operators: {} nodes", Grouped(s.nodes));
  if (s.bodies > 0) out += fmt::format(", in bodies {} deep ({} bodies)", s.body_depth, s.bodies);
  Table table({"operator", "domain", "nodes", "runs here"});
  int64_t lacking = 0;
  for (const OperatorCount& op : s.operators) {
    table.AddRow({op.op_type, op.domain, Grouped(op.count), op.has_kernel ? "yes" : "no kernel"});
    lacking += !op.has_kernel;
  }
  out += "\n" + Indented(table.Render());
  if (lacking > 0) out += "  run and diff need every kernel; quantize without --data works without.\n";
  return out;
}

std::string WeightsText(const Findings& f) {
  const ModelSummary& s = f.summary;
  std::string out =
      fmt::format("Constants: {} tensors, {}", Grouped(static_cast<int64_t>(s.largest.size())), Bytes(s.weight_bytes));
  if (s.initializers_as_inputs > 0) out += fmt::format("; {} are graph inputs too", s.initializers_as_inputs);
  Table types({"type", "tensors", "elements", "bytes"});
  for (const WeightBytes& w : s.weights) {
    types.AddRow({std::string(NameOf(w.dtype)), Grouped(w.tensors), Grouped(w.elements), Grouped(w.bytes)});
  }
  out += "\n" + Indented(types.Render());
  Table largest({"largest", "type", "dims", "bytes"});
  for (size_t i = 0; i < std::min(f.top, s.largest.size()); ++i) {
    const Value& value = f.model.graph.value(s.largest[i]);
    largest.AddRow({Shortened(value.name, kNameWidth), std::string(NameOf(value.constant->dtype())),
                    ToString(value.constant->dims()), Grouped(value.constant->byte_size())});
  }
  if (f.top > 0 && !s.largest.empty()) out += "\n" + Indented(largest.Render());
  return out;
}

std::string OffersText(const Findings& f) {
  std::string out = "What quantize could do:\n";
  Table table({"weights", "quantized", "of weights", "bits each", "files about"});
  for (const Offer& offer : f.offers) {
    if (!offer.problem.empty()) {
      out += "  " + offer.title + ": " + offer.problem + "\n";
      continue;
    }
    table.AddRow({offer.title, Grouped(offer.plan.quantized_elements()),
                  fmt::format("{:.1f} %", offer.plan.coverage() * 100),
                  fmt::format("{:.2f}", offer.plan.bits_per_weight()),
                  Bytes(EstimateBytes(f.model, offer.plan, offer.options))});
  }
  return out + Indented(table.Render());
}

std::string MemoryText(const ModelSummary& s) {
  std::string out = fmt::format("Memory of a run: constants {}, activations about {}", Bytes(s.weight_bytes),
                                Bytes(s.activation_bytes));
  if (!s.dynamic_dims.empty()) {
    out += " when dynamic dimensions (";
    for (size_t i = 0; i < s.dynamic_dims.size(); ++i) out += (i == 0 ? "" : ", ") + s.dynamic_dims[i];
    out += ") are 1";
  }
  if (s.unknown_values > 0) out += fmt::format("; {} values of unknown shape not counted", s.unknown_values);
  return out + "\n";
}

std::string TextReport(const Findings& f) {
  return HeadText(f) + "\n" + ValuesText(f.model.graph) + "\n" + OperatorsText(f.summary) + "\n" + WeightsText(f) +
         "\n" + OffersText(f) + "\n" + MemoryText(f.summary);
}

Json ValueJson(const Value& value) {
  Json shape;
  if (value.shape) {
    shape = Json::Array();
    for (const Dim& d : *value.shape) {
      shape.Append(d.known() ? Json(d.value) : HasMeaningfulName(d) ? Json(d.symbol) : Json());
    }
  }
  return Json::Object().Set("name", value.name).Set("dtype", NameOf(value.dtype)).Set("shape", shape);
}

Json HeadJson(const Findings& f) {
  const Model& model = f.model;
  Json out = Json::Object();
  out.Set("schema_version", 1)
      .Set("model", f.path)
      .Set("bytes", SourceBytes(model))
      .Set("graph", model.graph.main().name);
  out.Set("ir_version", model.ir_version);
  Json opsets = Json::Object();
  for (const OpsetImport& o : model.opsets) opsets.Set(o.domain.empty() ? "ai.onnx" : o.domain, o.version);
  out.Set("opsets", opsets);
  const ModelProperties& p = f.properties;
  out.Set("producer", Json::Object().Set("name", p.producer_name).Set("version", p.producer_version));
  Json metadata = Json::Object();
  for (const auto& [key, value] : p.metadata) metadata.Set(key, value);
  out.Set("metadata", metadata);
  Json external = Json::Array();
  for (size_t i = 1; i < model.sources.size(); ++i) {
    external.Append(Json::Object().Set("path", DataPath(model, i)).Set("bytes", model.sources[i]->size()));
  }
  out.Set("external_data", external);
  Json functions = Json::Array();
  for (const Function& function : model.functions) {
    functions.Append(Json::Object()
                         .Set("domain", function.domain)
                         .Set("name", function.name)
                         .Set("nodes", static_cast<int64_t>(function.body.AllNodes().size())));
  }
  out.Set("functions", functions);
  out.Set("checker", f.checker.empty() ? Json() : Json(f.checker));
  return out;
}

Json WeightsJson(const Findings& f) {
  const ModelSummary& s = f.summary;
  Json types = Json::Array();
  for (const WeightBytes& w : s.weights) {
    types.Append(Json::Object()
                     .Set("dtype", NameOf(w.dtype))
                     .Set("tensors", w.tensors)
                     .Set("elements", w.elements)
                     .Set("bytes", w.bytes));
  }
  Json largest = Json::Array();
  for (size_t i = 0; i < std::min(f.top, s.largest.size()); ++i) {
    const Value& value = f.model.graph.value(s.largest[i]);
    largest.Append(Json::Object()
                       .Set("name", value.name)
                       .Set("dtype", NameOf(value.constant->dtype()))
                       .Set("dims", value.constant->dims())
                       .Set("bytes", value.constant->byte_size()));
  }
  return Json::Object()
      .Set("tensors", static_cast<int64_t>(s.largest.size()))
      .Set("bytes", s.weight_bytes)
      .Set("initializers_as_inputs", s.initializers_as_inputs)
      .Set("by_dtype", types)
      .Set("largest", largest);
}

Json OffersJson(const Findings& f) {
  Json out = Json::Array();
  for (const Offer& offer : f.offers) {
    Json row = Json::Object().Set("weights", offer.title);
    if (!offer.problem.empty()) {
      row.Set("problem", offer.problem);
    } else {
      row.Set("quantized_elements", offer.plan.quantized_elements())
          .Set("weight_elements", offer.plan.weight_elements())
          .Set("coverage", offer.plan.coverage())
          .Set("bits_per_weight", offer.plan.bits_per_weight())
          .Set("estimated_bytes", EstimateBytes(f.model, offer.plan, offer.options));
    }
    out.Append(row);
  }
  return out;
}

Json JsonReport(const Findings& f) {
  Json out = HeadJson(f);
  Json inputs = Json::Array();
  for (ValueId v : FedInputs(f.model.graph)) inputs.Append(ValueJson(f.model.graph.value(v)));
  Json outputs = Json::Array();
  for (ValueId v : f.model.graph.main().outputs) outputs.Append(ValueJson(f.model.graph.value(v)));
  Json operators = Json::Array();
  for (const OperatorCount& op : f.summary.operators) {
    operators.Append(Json::Object()
                         .Set("op_type", op.op_type)
                         .Set("domain", op.domain)
                         .Set("nodes", op.count)
                         .Set("has_kernel", op.has_kernel));
  }
  const ModelSummary& s = f.summary;
  out.Set("inputs", inputs).Set("outputs", outputs).Set("nodes", s.nodes).Set("bodies", s.bodies);
  out.Set("body_depth", s.body_depth).Set("operators", operators);
  out.Set("constants", WeightsJson(f)).Set("quantize", OffersJson(f));
  out.Set("memory", Json::Object()
                        .Set("constant_bytes", s.weight_bytes)
                        .Set("activation_bytes", s.activation_bytes)
                        .Set("dynamic_dims_taken_as_1", s.dynamic_dims)
                        .Set("values_not_counted", s.unknown_values));
  return out;
}

class InspectTool : public Tool {
 public:
  ToolInfo Info() const override {
    return {"inspect",
            "what a model holds, what could be quantized, and what a run takes",
            "Shows a model's inputs and outputs, versions, operators (and which have no kernel in the executor), "
            "constants, what quantize could do with its defaults, and memory. Reads no weight.",
            {"nibble inspect model.onnx", "nibble inspect model.onnx --top 30", "nibble inspect model.onnx --json",
             "nibble inspect model.onnx --text > model.txt"}};
  }

  void Declare(Args& args) override {
    args.Positional("MODEL", &path_, "the ONNX file");
    args.Group("Report");
    args.Value("--top", "N", &top_, "how many of the largest constants to list; default 10");
    args.Flag("--text", &text_, "print the model in ONNX's text syntax instead");
    common_.Declare(args);
  }

  Status Run(const Args& args) override {
    RETURN_IF_ERROR(common_.Apply());
    if (top_ < 0) return UsageError("--top takes 0 or more");
    if (text_) return PrintText(args);
    ASSIGN_OR_RETURN(Model model, ReadModel(path_));
    if (common_.report()) RETURN_IF_ERROR(CheckOutputs({*common_.report()}, {&model}, std::nullopt));
    const Status checked = CheckModel(model);
    RETURN_IF_ERROR(WithContext(InferShapes(model), path_));
    ASSIGN_OR_RETURN(ModelProperties properties, PropertiesOf(model));
    const Findings findings{path_,
                            model,
                            std::move(properties),
                            Summarize(model),
                            MakeOffers(model),
                            checked.ok() ? "" : Message(checked),
                            static_cast<size_t>(top_)};
    return common_.Emit(TextReport(findings), JsonReport(findings));
  }

 private:
  Status PrintText(const Args& args) const {
    for (const char* name : {"--json", "--report", "--top"}) {
      if (args.Given(name)) return UsageError("{} has no effect with --text", name);
    }
    ASSIGN_OR_RETURN(Model model, ReadModel(path_));
    ASSIGN_OR_RETURN(std::string text, PrintModelText(model));
    if (text.empty() || text.back() != '\n') text += '\n';
    std::fwrite(text.data(), 1, text.size(), stdout);
    return OkStatus();
  }

  std::string path_;
  int64_t top_ = 10;
  bool text_ = false;
  CommonArgs common_;
};

}  // namespace

std::unique_ptr<Tool> MakeInspect() { return std::make_unique<InspectTool>(); }

}  // namespace quant
