#include <map>

#include "libquant/model/check.h"
#include "libquant/model/opset.h"
#include "libquant/model/read.h"
#include "libquant/report/table.h"
#include "passes/pipeline.h"
#include "passes/shape/bind_dims.h"
#include "passes/shape/dynamic_causes.h"
#include "tools/argument_groups.h"
#include "tools/dim_args.h"
#include "tools/output_args.h"
#include "tools/pass_args.h"
#include "tools/tool.h"
#include "tools/units.h"

namespace quant {
namespace {

constexpr size_t kMostRows = 40;  // of a table in the report

std::string ShapeText(const Value& value) {
  if (value.shape) return ToString(*value.shape);
  return value.dtype == DType::kUndefined ? "no tensor" : "unknown rank";
}

// What the report says of an input or output.
struct Port {
  std::string name, before, after;
  bool is_output = false;
};

class FixShapeTool : public Tool {
 public:
  ToolInfo Info() const override {
    return {
        "fixshape",
        "give dimensions numbers and fold what follows",
        "Gives named dimensions, or whole inputs, the numbers a device is built for. The numbers replace the names "
        "everywhere, in bodies and functions too; all other shapes are forgotten and inferred anew; then what the "
        "model computes of its shapes becomes constants. A name made of others, such as 'past + seq', is computed "
        "once its parts have numbers. A 0 makes every tensor with that dimension empty in every run, such as a cache "
        "that holds nothing yet.\n"
        "What stays dynamic is named with the first thing that makes it so. Names and inputs that are not in the "
        "model, and numbers that contradict it or each other, are errors.",
        {"nibble fixshape model.onnx --dim batch=1 --dim sequence=128 -o fixed.onnx",
         "nibble fixshape model.onnx --input x=1x3x224x224 -o fixed.onnx",
         "nibble fixshape decoder.onnx --dim 'past + seq=33' --dim seq=1 --dim past=32 -o fixed.onnx",
         "# the first step, when the cache is empty",
         "nibble fixshape decoder.onnx --dim past=0 --dim seq=8 -o first.onnx",
         "# a model for two sampling rates, at one of them",
         "nibble fixshape vad.onnx --input input=1x512 --value sr=16000 -o fixed.onnx",
         "# leave the second dimension as it is", "nibble fixshape model.onnx --input 'x=1x?x224x224' -o fixed.onnx",
         "# what would stay dynamic? Nothing is written", "nibble fixshape model.onnx --dim batch=1"}};
  }

  void Declare(Args& args) override {
    args.Positional("MODEL", &path_, "the ONNX file");
    args.Group("Shapes");
    args.Value("--dim", "NAME=N", &dims_, "the number of a named dimension, wherever the name stands; may be repeated");
    args.Value("--input", "NAME=SHAPE", &inputs_,
               "the shape of an input, as 1x3x224x224; its names get these numbers everywhere. ? leaves a dimension as "
               "it is; scalar is the shape of none. May be repeated");
    args.Value(
        "--value", "NAME=NUMBER", &values_,
        "an input of one element becomes this constant and is no input any more, so that branches that depend on "
        "it can go; may be repeated");
    output_.Declare(args, "without it nothing is written, and the report says what would be done");
    passes_.Declare(args, false);
    common_.Declare(args);
  }

  Status Run(const Args& args) override {
    RETURN_IF_ERROR(common_.Apply());
    RETURN_IF_ERROR(passes_.Check(args));
    ASSIGN_OR_RETURN(const DimRequest request, Request());
    ASSIGN_OR_RETURN(const std::vector<const Pass*> passes, ReadPipeline("fixshape"));
    ASSIGN_OR_RETURN(Model model, ReadModel(path_));
    RETURN_IF_ERROR(WithContext(CheckModel(model), path_));
    RaiseIrVersion(model, 4);  // before it an initializer has to be an input, and those made here are none
    std::vector<std::string> files = output_.Files();
    if (common_.report()) files.push_back(*common_.report());
    RETURN_IF_ERROR(CheckOutputs(files, {&model}, std::nullopt));
    std::vector<Port> ports = Ports(model);
    ASSIGN_OR_RETURN(const auto as_it_is, AsItIs(model));
    const auto [before, sound] = as_it_is;
    auto bound = BindDims(model, request);
    if (!bound.ok()) return WithContext(bound.status(), path_);
    ASSIGN_OR_RETURN(const DriverReport report, passes_.Run(model, passes));
    KeepDeclared(model, *bound);
    FillAfter(model, ports);
    if (const Status shapes = CheckShapes(model); sound && !shapes.ok()) {
      return UsageError(
          "{}: with these shapes the model contradicts itself, and runtimes would refuse it: {}. If that is a branch "
          "which is never taken, --value can give the input that decides so a constant",
          path_, Shortened(Message(shapes), 240));
    }
    const StaticCount after = CountStatic(model.graph);
    const DynamicReport dynamic = FindDynamic(model.graph);
    std::string text =
        fmt::format("{}\n{}", Text(*bound, ports, before, after, model.graph, dynamic), passes_.Text(report));
    Json json = Json::Object();
    json.Set("schema_version", 1).Set("model", path_).Set("output", output_.path());
    json.Merge(ToJson(*bound, ports, before, after, model.graph, dynamic)).Merge(passes_.ToJson(report));
    RETURN_IF_ERROR(output_.WriteAndReport(model, common_.quiet(), text, json));
    json.Set("peak_rss_bytes", PeakResidentBytes());
    return common_.Emit(text, json);
  }

 private:
  StatusOr<DimRequest> Request() const {
    DimRequest out;
    for (const std::string& text : dims_) {
      ASSIGN_OR_RETURN(out.dims.emplace_back(), ParseDim(text));
    }
    for (const std::string& text : inputs_) {
      ASSIGN_OR_RETURN(out.inputs.emplace_back(), ParseInput(text));
    }
    for (const std::string& text : values_) {
      ASSIGN_OR_RETURN(const auto parts, SplitAtEquals("--value", text, "NAME=NUMBER"));
      out.values.push_back({parts.first, parts.second});
    }
    return out;
  }

  // As it is without any number given: static values, and whether its shapes are sound.
  StatusOr<std::pair<StaticCount, bool>> AsItIs(const Model& model) const {
    Model inferred = model;
    RETURN_IF_ERROR(WithContext(InferShapes(inferred), path_));
    return std::pair(CountStatic(inferred.graph), CheckShapes(inferred).ok());
  }

  static std::vector<Port> Ports(const Model& model) {
    std::vector<Port> out;
    const Graph& graph = model.graph;
    for (ValueId v : graph.main().inputs) {
      const Value& value = graph.value(v);
      if (!value.is_initializer) out.push_back({value.name, ShapeText(value), "", false});
    }
    for (ValueId v : graph.main().outputs) out.push_back({graph.value(v).name, ShapeText(graph.value(v)), "", true});
    return out;
  }

  static void FillAfter(const Model& model, std::vector<Port>& ports) {
    const Graph& graph = model.graph;
    std::map<std::string, std::string> inputs, outputs;
    for (ValueId v : graph.main().inputs) inputs[graph.value(v).name] = ShapeText(graph.value(v));
    for (ValueId v : graph.main().outputs) outputs[graph.value(v).name] = ShapeText(graph.value(v));
    for (Port& p : ports) {
      const auto& list = p.is_output ? outputs : inputs;
      const auto it = list.find(p.name);
      p.after = it == list.end() ? "constant" : it->second;
    }
  }

  static std::string Text(const BoundDims& bound, const std::vector<Port>& ports, StaticCount before, StaticCount after,
                          const Graph& graph, const DynamicReport& dynamic) {
    std::string out;
    Table names({"dimension", "number", "by", "places"});
    for (const BoundDim& d : bound.names) names.AddRow({d.name, Grouped(d.number), d.from, Grouped(d.places)});
    if (names.rows() > 0) out += names.Render() + "\n";
    for (const BoundDim& d : bound.names) {
      if (d.number == 0)
        out += fmt::format("{} is 0: tensors with this dimension hold no elements, in any run\n\n", d.name);
    }
    Table shapes({"value", "", "was", "is"});
    for (const Port& p : ports) {
      shapes.AddRow({Shortened(p.name, 48), p.is_output ? "output" : "input", p.before, p.after});
    }
    out += shapes.Render();
    out += fmt::format("\nstatic shapes: {} of {} values; {} of {} before\n", Grouped(after.fixed), Grouped(after.all),
                       Grouped(before.fixed), Grouped(before.all));
    Table open({"still dynamic", "dimension", "because of"});
    for (const DynamicDim& d : dynamic.outputs) {
      if (open.rows() == kMostRows) break;
      open.AddRow({Shortened(graph.value(d.value).name, 48), AxisText(d), d.cause});
    }
    if (open.rows() > 0) out += fmt::format("\n{}", open.Render());
    if (dynamic.outputs.size() > kMostRows) out += fmt::format("and {} more\n", dynamic.outputs.size() - kMostRows);
    Table causes({"what makes shapes dynamic", "values"});
    for (const auto& [cause, values] : dynamic.causes) {
      if (causes.rows() < kMostRows) causes.AddRow({cause, Grouped(values)});
    }
    if (causes.rows() > 0) out += fmt::format("\n{}", causes.Render());
    return out;
  }

  static std::string AxisText(const DynamicDim& d) {
    if (d.axis < 0) return "all: unknown rank";
    return d.symbol.empty() ? std::to_string(d.axis) : fmt::format("{} ({})", d.axis, d.symbol);
  }

  static Json ToJson(const BoundDims& bound, const std::vector<Port>& ports, StaticCount before, StaticCount after,
                     const Graph& graph, const DynamicReport& dynamic) {
    Json names = Json::Array(), shapes = Json::Array(), open = Json::Array(), causes = Json::Array();
    for (const BoundDim& d : bound.names) {
      names.Append(
          Json::Object().Set("name", d.name).Set("number", d.number).Set("by", d.from).Set("places", d.places));
    }
    for (const Port& p : ports) {
      shapes.Append(Json::Object()
                        .Set("name", p.name)
                        .Set("kind", p.is_output ? "output" : "input")
                        .Set("was", p.before)
                        .Set("is", p.after));
    }
    for (const DynamicDim& d : dynamic.outputs) {
      open.Append(Json::Object()
                      .Set("output", graph.value(d.value).name)
                      .Set("dimension", d.axis < 0 ? Json() : Json(d.axis))
                      .Set("name", d.symbol.empty() ? Json() : Json(d.symbol))
                      .Set("cause", d.cause));
    }
    for (const auto& [cause, values] : dynamic.causes) {
      causes.Append(Json::Object().Set("cause", cause).Set("values", values));
    }
    Json out = Json::Object();
    out.Set("bound", names).Set("unnamed_bound", bound.unnamed).Set("shapes", shapes);
    out.Set("values_before", before.all).Set("static_before", before.fixed);
    out.Set("values", after.all).Set("static", after.fixed);
    out.Set("dynamic_outputs", open).Set("dynamic_causes", causes);
    return out;
  }

  std::string path_;
  std::vector<std::string> dims_, inputs_, values_;
  OutputArgs output_;
  PassArgs passes_;
  CommonArgs common_;
};

}  // namespace

std::unique_ptr<Tool> MakeFixshape() { return std::make_unique<FixShapeTool>(); }

}  // namespace quant
