#include "libquant/model/load.h"
#include "libquant/report/gate.h"
#include "tools/argument_groups.h"
#include "tools/compare.h"
#include "tools/tool.h"
#include "tools/units.h"

namespace quant {
namespace {

class DiffTool : public Tool {
 public:
  ToolInfo Info() const override {
    return {"diff",
            "how far one model's answers are from another's",
            "Runs both models on the same samples, one at a time, and reports per output: largest and mean absolute "
            "error, RMSE, relative RMS, cosine, SQNR in dB, and top-1 agreement where there is a class axis. With "
            "labels also the accuracy of both. Inputs must match by name and type.",
            {"nibble diff model.onnx small.onnx --data samples.npz",
             "nibble diff model.onnx small.onnx --random 20 --seed 1 --gate 'sqnr>=20'",
             "nibble diff model.onnx small.onnx --data samples.npz --labels labels.npy --gate 'accuracy.drop<=1'"}};
  }

  void Declare(Args& args) override {
    args.Positional("REFERENCE", &reference_path_, "the ONNX file to compare with");
    args.Positional("CANDIDATE", &candidate_path_, "the ONNX file to judge");
    samples_.Declare(args);
    args.Value("--labels", "FILE", &compare_.labels, "right classes, one per row of classes: .npy, or a number a line");
    args.Group("Comparison");
    args.Value("--output", "NAME", &compare_.output, "compare this output only");
    args.Value("--gate", "EXPR", &gates_,
               "exit code 1 unless it holds, as in 'sqnr>=30' or 'accuracy.drop<=1'; may be repeated");
    common_.Declare(args);
  }

  Status Run(const Args& args) override {
    RETURN_IF_ERROR(common_.Apply());
    RETURN_IF_ERROR(samples_.Check(args, true));
    compare_.quiet = common_.quiet();
    std::map<std::string, std::string> unmeasured;
    for (const char* metric : {"coverage", "bits_per_weight"}) unmeasured[metric] = "`nibble quantize` measures it";
    if (!compare_.labels) {
      for (const char* metric : {"accuracy", "accuracy.drop"}) unmeasured[metric] = "give --labels, to measure it";
    }
    ASSIGN_OR_RETURN(std::vector<Gate> gates, ParseGates(gates_, unmeasured));
    const int64_t rss_before = PeakResidentBytes();
    ASSIGN_OR_RETURN(Model reference, LoadToRun(reference_path_));
    ASSIGN_OR_RETURN(Model candidate, LoadToRun(candidate_path_));
    if (common_.report()) {
      RETURN_IF_ERROR(CheckOutputs({*common_.report()}, {&reference, &candidate}, samples_.data()));
    }
    ASSIGN_OR_RETURN(std::unique_ptr<SampleSource> source, samples_.Open(reference));
    ASSIGN_OR_RETURN(DiffReport report,
                     CompareModels({reference_path_, reference}, {candidate_path_, candidate}, *source, compare_));
    report.reference = reference_path_;
    report.candidate = candidate_path_;
    report.reference_bytes = SourceBytes(reference);
    report.candidate_bytes = SourceBytes(candidate);
    ASSIGN_OR_RETURN(report.gates, JudgeGates(gates, MeasuresOf(report)));
    Json json = Json::Parse(DiffJson(report)).Set("source", samples_.Describe());
    json.Set("rss_before_bytes", rss_before).Set("peak_rss_bytes", PeakResidentBytes());
    const std::string head =
        fmt::format("{} against {} on {}\n", candidate_path_, reference_path_, samples_.Describe());
    RETURN_IF_ERROR(common_.Emit(head + DiffText(report), json));
    return CheckGates(gates, MeasuresOf(report));
  }

 private:
  std::string reference_path_;
  std::string candidate_path_;
  SampleArgs samples_;
  CompareOptions compare_;
  std::vector<std::string> gates_;
  CommonArgs common_;
};

}  // namespace

std::unique_ptr<Tool> MakeDiff() { return std::make_unique<DiffTool>(); }

}  // namespace quant
