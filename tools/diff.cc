#include <filesystem>

#include "libquant/base/memory.h"
#include "libquant/exec/buffer_pool.h"
#include "libquant/model/load.h"
#include "libquant/model/read.h"
#include "libquant/report/gate.h"
#include "libquant/verify/compare.h"
#include "tools/argument_groups.h"
#include "tools/gate_args.h"
#include "tools/progress.h"
#include "tools/tool.h"
#include "tools/units.h"

namespace quant {
namespace {

bool IsFolder(const std::string& path) {
  std::error_code error;
  return std::filesystem::is_directory(path, error);
}

// Answers that are there already, by what the path is.
bool IsSaved(const std::string& path) { return path.ends_with(".npz") || IsFolder(path); }

class DiffTool : public Tool {
 public:
  ToolInfo Info() const override {
    return {
        "diff",
        "how far one model's answers are from another's",
        "Runs both models on the same samples, one at a time, and reports per output: largest and mean absolute "
        "error, RMSE, relative RMS, cosine, SQNR and PSNR in dB, the largest distance in ulp, the tolerance that "
        "would have been needed, and where there is a class axis top-1, top-5 and KL divergence. Inputs must match "
        "by name and type.\n"
        "REFERENCE may also be answers saved before, by `nibble run -o FILE.npz` or by another runtime, or a folder "
        "of test_data_set_* with outputs. With --layers the values that both models make under the same name are "
        "compared too, along the graph. With --labels: accuracy, precision, recall and F1 of both, or, when the "
        "labels are floats, mean squared error.",
        {"nibble diff model.onnx small.onnx --data samples.npz",
         "nibble diff model.onnx small.onnx --random 20 --seed 1 --gate 'sqnr>=20'",
         "nibble diff model.onnx small.onnx --data samples.npz --labels labels.npy --gate 'accuracy.drop<=1'",
         "nibble diff model.onnx small.onnx --data samples.npz --layers --report diff.html",
         "nibble diff phone.npz small.onnx --data samples.npz",
         "# Fail when a figure is worse than in the last accepted report",
         "nibble diff model.onnx small.onnx --data samples.npz --baseline accepted.json --report now.json"}};
  }

  void Declare(Args& args) override {
    args.Positional("REFERENCE", &reference_path_, "the ONNX file to compare with, or saved answers");
    args.Positional("CANDIDATE", &candidate_path_, "the ONNX file to judge");
    samples_.Declare(args);
    args.Value("--labels", "FILE", &compare_.labels,
               "what is right: classes, one per row of classes (.npy, or a number a line), or a .npy of floats with a "
               "row for each sample");
    args.Group("Comparison");
    args.Value("--output", "NAME", &compare_.output, "compare this output only");
    args.Flag("--layers", &layers_,
              "compare what both models compute under the same names. Values of a sample wait in a temporary file "
              "(TMPDIR)");
    args.Value("--line", "DB", &line_, "with --layers, name the first layer whose SQNR is below; default 20");
    gates_.Declare(args);
    common_.DeclareRendered(args);
  }

  Status Run(const Args& args) override {
    RETURN_IF_ERROR(Check(args));
    const int64_t rss_before = PeakResidentBytes();
    std::optional<Model> reference;
    if (!IsSaved(reference_path_)) {
      ASSIGN_OR_RETURN(reference, LoadToRun(reference_path_));
    }
    ASSIGN_OR_RETURN(const Model candidate, LoadToRun(candidate_path_));
    RETURN_IF_ERROR(CheckFiles(reference, candidate));
    ASSIGN_OR_RETURN(const std::unique_ptr<SampleSource> source, samples_.Open(reference ? *reference : candidate));
    ASSIGN_OR_RETURN(DiffReport diff, Measure(reference, candidate, *source));
    Report report;
    report.tool = "diff";
    report.title = fmt::format("{} against {} on {}", candidate_path_, reference_path_, samples_.Describe());
    diff.reference = reference_path_;
    diff.candidate = candidate_path_;
    diff.source = samples_.Describe();
    if (reference) {
      diff.reference_bytes = SourceBytes(*reference);
      diff.candidate_bytes = SourceBytes(candidate);
    }
    AddDiff(diff, report);
    report.data = DiffJson(diff);
    report.config = args.Resolved();
    RETURN_IF_ERROR(gates_.Judge(report));
    RETURN_IF_ERROR(AddFiles(reference, candidate, report));
    Json process = Json::Object();
    process.Set("rss_before_bytes", rss_before).Set("peak_rss_bytes", PeakResidentBytes());
    RETURN_IF_ERROR(common_.Emit(report, process));
    return gates_.Verdict(report);
  }

 private:
  Status Check(const Args& args) {
    RETURN_IF_ERROR(common_.Apply());
    RETURN_IF_ERROR(samples_.Check(args, true));
    if (!layers_ && args.Given("--line")) return UsageError("--line has no effect without --layers");
    if (layers_ && IsSaved(reference_path_)) {
      return UsageError("--layers needs a model to compare with; {} holds answers only", reference_path_);
    }
    std::map<std::string, std::string> unmeasured;
    for (const char* metric : {"coverage", "bits_per_weight"}) unmeasured[metric] = "`nibble quantize` measures it";
    if (!compare_.labels) {
      for (const char* metric : {"accuracy", "accuracy.drop", "f1", "f1.drop", "mse", "mse.ratio"}) {
        unmeasured[metric] = "give --labels, to measure it";
      }
    }
    if (!layers_) unmeasured["layer.sqnr"] = "give --layers, to measure it";
    return gates_.Parse(unmeasured);
  }

  Status CheckFiles(const std::optional<Model>& reference, const Model& candidate) const {
    std::vector<const Model*> models = {&candidate};
    if (reference) models.push_back(&*reference);
    return common_.report() ? CheckOutputs({*common_.report()}, models, samples_.data()) : OkStatus();
  }

  StatusOr<std::unique_ptr<Answers>> ReferenceAnswers(const std::optional<Model>& reference,
                                                      SampleSource& source) const {
    if (reference) {
      ASSIGN_OR_RETURN(std::unique_ptr<Session> session, CreateSession(reference_path_, *reference, {.pool = pool_}));
      return RunningAnswers(reference_path_, *reference, std::move(session));
    }
    if (!IsFolder(reference_path_)) return SavedAnswers(reference_path_, source.count());
    if (samples_.data() != reference_path_) {
      return UsageError("{} is a folder: its outputs go with its own samples (--data {})", reference_path_,
                        reference_path_);
    }
    return StoredAnswers(reference_path_, source);
  }

  StatusOr<DiffReport> Measure(const std::optional<Model>& reference, const Model& candidate, SampleSource& source) {
    if (reference) RETURN_IF_ERROR(MatchInputs({reference_path_, *reference}, {candidate_path_, candidate}));
    ASSIGN_OR_RETURN(const std::unique_ptr<Answers> ours, ReferenceAnswers(reference, source));
    ASSIGN_OR_RETURN(std::unique_ptr<Session> session, CreateSession(candidate_path_, candidate, {.pool = pool_}));
    const std::unique_ptr<Answers> theirs = RunningAnswers(candidate_path_, candidate, std::move(session));
    std::unique_ptr<LayerCollector> collector;
    if (layers_) {
      ASSIGN_OR_RETURN(collector, LayerCollector::Make(*reference, candidate));
    }
    compare_.layers = collector.get();
    compare_.line = line_;
    Progress progress("comparing", common_.quiet());
    compare_.progress = [&](int64_t done, int64_t all) { progress.Update(done, all); };
    return Compare(*ours, *theirs, source, compare_);
  }

  Status AddFiles(const std::optional<Model>& reference, const Model& candidate, Report& report) const {
    FileList files(report, common_.report().has_value());
    if (reference) {
      RETURN_IF_ERROR(files.AddModel("reference", *reference));
    } else {
      RETURN_IF_ERROR(files.Add("reference", reference_path_));
    }
    RETURN_IF_ERROR(files.AddModel("candidate", candidate));
    RETURN_IF_ERROR(files.Add("samples", samples_.data()));
    RETURN_IF_ERROR(files.Add("labels", compare_.labels));
    return files.Add("baseline", gates_.baseline());
  }

  std::string reference_path_;
  std::string candidate_path_;
  std::shared_ptr<BufferPool> pool_ = std::make_shared<BufferPool>(PhysicalMemory());
  SampleArgs samples_;
  CompareOptions compare_;
  bool layers_ = false;
  double line_ = 20;
  GateArgs gates_;
  CommonArgs common_;
};

}  // namespace

std::unique_ptr<Tool> MakeDiff() { return std::make_unique<DiffTool>(); }

}  // namespace quant
