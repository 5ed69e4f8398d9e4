#include "libquant/config/quantize_file.h"
#include "libquant/model/load.h"
#include "tools/argument_groups.h"
#include "tools/auto_report.h"
#include "tools/search_args.h"
#include "tools/tool.h"
#include "tools/units.h"

namespace quant {
namespace {

class SensitivityTool : public Tool {
 public:
  ToolInfo Info() const override {
    return {"sensitivity",
            "which weights a model can least do without",
            "Quantizes one weight at a time in each of the candidates, all others staying float, runs the model on "
            "samples and ranks the weights by the error at the outputs: SQNR of the worst output, in dB. `nibble "
            "quantize --auto` and `--budget` choose formats by these figures.\n"
            "--config FILE is one of `nibble quantize`: what it skips is left out, and weights that its rules take "
            "are quantized as they say in every run.",
            {"nibble sensitivity model.onnx --data samples.npz",
             "nibble sensitivity model.onnx --random 8 --candidates int4/32,int8/channel",
             "nibble sensitivity model.onnx --data samples.npz --report sensitivity.html"}};
  }

  void Declare(Args& args) override {
    args.Positional("MODEL", &path_, "the ONNX file");
    args.Group("Formats");
    search_.Declare(args);
    args.Value("--config", "FILE", &config_, "options of `nibble quantize`, in YAML");
    samples_.Declare(args);
    common_.DeclareRendered(args);
  }

  Status Run(const Args& args) override {
    RETURN_IF_ERROR(common_.Apply());
    RETURN_IF_ERROR(samples_.Check(args, true));
    RETURN_IF_ERROR(search_.Check());
    QuantizeOptions options;
    if (config_) RETURN_IF_ERROR(ReadQuantizeFile(*config_, options));
    RETURN_IF_ERROR(NeedFloatActivations(options));
    ASSIGN_OR_RETURN(const Model model, LoadModel(path_));
    if (common_.report()) RETURN_IF_ERROR(CheckOutputs({*common_.report()}, {&model}, samples_.data()));
    ASSIGN_OR_RETURN(const std::unique_ptr<SampleSource> source, samples_.Open(model));
    ASSIGN_OR_RETURN(const MeasuredFormats measured, search_.Measure(path_, model, *source, options, common_.quiet()));
    Report report;
    report.tool = "sensitivity";
    report.title = fmt::format("{} on {}", path_, samples_.Describe());
    report.config = args.Resolved();
    report.data.Set("model", path_).Set("source", samples_.Describe()).Set("samples", measured.samples->count());
    AddSensitivity(measured.formats, measured.base_noise, report);
    report.facts.emplace_back("samples", fmt::format("{} of {}", measured.samples->count(), source->count()));
    FileList files(report, common_.report().has_value());
    RETURN_IF_ERROR(files.AddModel("model", model));
    RETURN_IF_ERROR(files.Add("config", config_));
    RETURN_IF_ERROR(files.Add("samples", samples_.data()));
    Json process = Json::Object();
    process.Set("peak_rss_bytes", PeakResidentBytes());
    return common_.Emit(report, process);
  }

 private:
  std::string path_;
  std::optional<std::string> config_;
  SearchArgs search_;
  SampleArgs samples_;
  CommonArgs common_;
};

}  // namespace

std::unique_ptr<Tool> MakeSensitivity() { return std::make_unique<SensitivityTool>(); }

}  // namespace quant
