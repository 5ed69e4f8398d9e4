#include "libquant/model/load.h"
#include "tools/argument_groups.h"
#include "tools/output_args.h"
#include "tools/pass_args.h"
#include "tools/tool.h"
#include "tools/units.h"

namespace quant {
namespace {

class FuseTool : public Tool {
 public:
  ToolInfo Info() const override {
    return {"fuse",
            "simplify a model and fuse its operators",
            "Runs passes over a model: first those that clean up what exporters leave behind, then those that make one "
            "operator of many. Each fires only where all its conditions hold; --explain says which did not. Answers "
            "stay the same within float32 rounding; --verify proves it on this model and undoes what fails.\n"
            "What operators a fusion may make depends on --target and on the model's opset.",
            {"nibble fuse model.onnx -o small.onnx", "nibble fuse model.onnx -o fast.onnx --target onnxruntime-cpu",
             "nibble fuse model.onnx -o small.onnx --verify --data samples.npz", "nibble fuse --list-passes",
             "# why was my BatchNormalization not folded?", "nibble fuse model.onnx --explain",
             "nibble fuse model.onnx -o out.onnx --passes eliminate-identity --passes fold-constants"}};
  }

  void Declare(Args& args) override {
    args.OptionalPositional("MODEL", &path_, "the ONNX file");
    output_.Declare(args, "without it nothing is written, and the report says what would be done");
    passes_.Declare(args, true);
    common_.Declare(args);
  }

  Status Run(const Args& args) override {
    RETURN_IF_ERROR(common_.Apply());
    RETURN_IF_ERROR(passes_.Check(args));
    if (passes_.list_wanted()) return common_.Emit(passes_.List(), passes_.ListJson());
    if (path_.empty()) return UsageError("MODEL is missing: the ONNX file (or --list-passes)");
    ASSIGN_OR_RETURN(const std::vector<const Pass*> passes, passes_.Chosen("default"));
    ASSIGN_OR_RETURN(Model model, LoadModel(path_));
    std::vector<std::string> files = output_.Files();
    if (common_.report()) files.push_back(*common_.report());
    RETURN_IF_ERROR(CheckOutputs(files, {&model}, std::nullopt));
    ASSIGN_OR_RETURN(const DriverReport report, passes_.Run(model, passes));
    std::string text = passes_.Text(report);
    Json json = Json::Object();
    json.Set("schema_version", 1).Set("model", path_).Set("output", output_.path());
    json.Merge(passes_.ToJson(report));
    RETURN_IF_ERROR(output_.WriteAndReport(model, common_.quiet(), text, json));
    json.Set("peak_rss_bytes", PeakResidentBytes());
    return common_.Emit(text, json);
  }

 private:
  std::string path_;
  OutputArgs output_;
  PassArgs passes_;
  CommonArgs common_;
};

}  // namespace

std::unique_ptr<Tool> MakeFuse() { return std::make_unique<FuseTool>(); }

}  // namespace quant
