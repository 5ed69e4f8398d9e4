#include <map>

#include "libquant/base/memory.h"
#include "libquant/config/quantize_file.h"
#include "libquant/exec/buffer_pool.h"
#include "libquant/model/load.h"
#include "libquant/model/read.h"
#include "libquant/numerics/format.h"
#include "libquant/verify/compare.h"
#include "passes/quant/weight_quant.h"
#include "tools/argument_groups.h"
#include "tools/auto_args.h"
#include "tools/auto_report.h"
#include "tools/gate_args.h"
#include "tools/integer_args.h"
#include "tools/output_args.h"
#include "tools/progress.h"
#include "tools/quantize_report.h"
#include "tools/tool.h"
#include "tools/units.h"

namespace quant {
namespace {

std::vector<std::string> FormatNames() {
  std::vector<std::string> names;
  for (const Format& format : AllFormats()) {
    if (format.bits <= 8) names.emplace_back(format.name);
  }
  return names;
}

// Libraries know of no options: what they advise is named here.
Status WithAdvice(const Status& status) {
  const std::string message = Message(status);
  const bool about_nan = message.find("NaN clamped") != std::string::npos;
  return about_nan ? Status(status.code(), message + " (--clamp-non-finite)") : status;
}

class QuantizeTool : public Tool {
 public:
  ToolInfo Info() const override {
    return {
        "quantize",
        "quantize a model's weights and write the new model",
        "Quantizes the weights of MatMul, Gemm, Conv, ConvTranspose and Gather, also where Transpose, Reshape or "
        "Cast lie between, in If, Loop and Scan bodies and in the model's functions. Activations stay float, unless "
        "--activations says otherwise: then products run in integers, where --target has kernels for that, and the "
        "ranges of what they read and make come from --calib. Every "
        "weight gets a verdict: quantized and in which form, skipped by which rule, or unsupported and why. "
        "LayerNormalization and Softmax stay float unless --only names one of their constants letter for letter. "
        "Patterns are RE2 regular expressions, found anywhere in a node's or weight's name; one that matches "
        "nothing is an error, and so is an option without effect.\n"
        "--config FILE holds the same options in YAML, the words those of the flags, and `rules`, a list of which "
        "the first that matches a weight decides its format: `- match: PATTERN`, `op: TYPE` or both, with weights, "
        "group-size, scheme, scale-type, or skip: true. Flags go before the file, rules before both.\n"
        "--auto and --budget choose a format for each weight instead: each weight is quantized alone in every format "
        "of --candidates and its error at the outputs measured, formats are chosen by that, and the choice is "
        "measured as a whole and improved. What --config rules take stays as they say.\n"
        "With samples, the written model is run beside MODEL and measured. A gate that is not met ends in exit "
        "code 1; the written model stays, to be looked at. --min-coverage fails before anything is written.",
        {"nibble quantize model.onnx -o small.onnx",
         "nibble quantize model.onnx -o small.onnx --weights int8 --group-size channel",
         "nibble quantize model.onnx -o small.onnx --emit nbits --group-size 128 --scheme asymmetric",
         "nibble quantize model.onnx --plan --skip 'lm_head|embed'",
         "nibble quantize model.onnx -o small.onnx --config rules.yaml --keep fp16",
         "nibble quantize model.onnx -o small.onnx --weights int8 --include-op LSTM",
         "nibble quantize model.onnx -o small.onnx --activations uint8 --calib samples.npz --target onnxruntime-cpu",
         "nibble quantize model.onnx -o small.onnx --activations uint8 --calib samples.npz --improve balance",
         "nibble quantize model.onnx -o small.onnx --data samples.npz --gate 'sqnr>=20'",
         "nibble quantize model.onnx -o small.onnx --data samples.npz --auto 'sqnr>=35'",
         "nibble quantize model.onnx -o small.onnx --data samples.npz --budget 4.5bpw --write-config chosen.yaml"}};
  }

  void Declare(Args& args) override {
    args.Positional("MODEL", &path_, "the ONNX file");
    output_.Declare(args, "needed unless --plan is given");
    args.Flag("--plan", &plan_only_, "say what would happen and write nothing; -o may be given and is checked");
    args.Group("Format");
    args.Choice("--weights", FormatNames(), &words_["weights"], "number format of the weights; default int4");
    args.Value("--group-size", "SIZE", &words_["group-size"],
               "values along the reduction axis that share a scale: a number, channel or tensor; default 32");
    args.Choice("--scheme", {"symmetric", "asymmetric"}, &words_["scheme"],
                "whether there are zero points; default symmetric");
    args.Choice("--emit", {"qdq", "nbits", "qoperator"}, &words_["emit"],
                "DequantizeLinear nodes that every runtime knows (the default); com.microsoft MatMulNBits and "
                "GatherBlockQuantized; with --activations, QLinearConv, QLinearMatMul and their like");
    args.Choice("--scale-type", {"fp32", "fp16"}, &words_["scale-type"],
                "type of the scales; default the activation's");
    args.Choice("--keep", {"fp32", "fp16"}, &words_["keep"],
                "type of the weights that are not quantized; default as they are. fp16 puts a Cast behind each");
    args.Value("--accuracy-level", "N", &words_["accuracy-level"], "of MatMulNBits, 0 to 4; default 4");
    args.Choice("--target", TargetNames(), &words_["target"],
                "runtime the model is for; default portable, with positive scales only");
    args.Flag("--clamp-non-finite", &clamp_, "take NaN as 0 and infinities as the largest value, instead of failing");
    integer_.Declare(args, words_, lists_);
    args.Group("Which weights");
    args.Value("--config", "FILE", &config_, "options and rules for single weights, in YAML");
    args.Value("--skip", "PATTERN", &lists_["skip"], "leave these float; may be repeated");
    args.Value("--skip-op", "TYPE", &lists_["skip-op"], "leave the weights of this operator float; may be repeated");
    args.Value("--only", "PATTERN", &lists_["only"], "quantize only these; may be repeated");
    args.Value("--include-op", "TYPE", &lists_["include-op"],
               "also quantize what stays float by default, as no runtime gains speed by it: weights of LSTM, GRU and "
               "RNN, a left operand or a stack of matrices of MatMul; may be repeated");
    args.Value("--min-coverage", "F", &min_coverage_,
               "fail, writing nothing, when less than this part (0 to 1) of all weight elements is quantized");
    auto_.Declare(args);
    samples_.Declare(args);
    args.Value("--labels", "FILE", &labels_, "what is right, as `nibble diff` takes it: measures accuracy");
    args.Group("Measuring");
    gates_.Declare(args);
    common_.DeclareRendered(args);
  }

  Status Run(const Args& args) override {
    RETURN_IF_ERROR(ReadOptions(args));
    RETURN_IF_ERROR(gates_.Parse(Unmeasured()));
    ASSIGN_OR_RETURN(Model model, LoadModel(path_));
    RETURN_IF_ERROR(CheckOutputs(OutputFiles(), {&model}, samples_.data()));
    std::optional<FormatChoice> choice;
    if (auto_.given()) {
      ASSIGN_OR_RETURN(choice, Choose(model));
      options_ = choice->options;
    }
    const auto sources = model.sources;
    RETURN_IF_ERROR(integer_.Prepare(model, options_));
    QuantizeReport report;
    report.model = path_;
    report.output = output_.path();
    report.options = options_;
    report.source_bytes = SourceBytes(model);
    ASSIGN_OR_RETURN(report.plan, PlanWeights(model, options_));
    if (choice) auto_.NameIn(report.plan);
    RETURN_IF_ERROR(integer_.FindRanges(args, path_, model, report.plan, options_, common_.quiet(), plan_only_));
    report.estimated_bytes = EstimateBytes(model, report.plan, options_);
    report.opset_before = model.OpsetOf("");
    const Status verdict = choice ? auto_.Verdict(*choice) : OkStatus();
    if (!verdict.ok()) {
      RETURN_IF_ERROR(Emit(args, report, choice, choice->diff, sources).status());
      return verdict;
    }
    if (min_coverage_ && report.plan.coverage() < *min_coverage_) {
      RETURN_IF_ERROR(Emit(args, report, choice, std::nullopt, sources).status());
      return GateError("coverage is {:.4f}, --min-coverage asks for {}; nothing was written", report.plan.coverage(),
                       *min_coverage_);
    }
    if (report.plan.quantized_elements() == 0) common_.Warn("no weight is quantized");
    if (!plan_only_) RETURN_IF_ERROR(Write(model, report));
    if (choice) RETURN_IF_ERROR(auto_.WriteConfig(*choice));
    std::optional<DiffReport> diff;
    if (choice && plan_only_) {
      diff = choice->diff;
    } else if (samples_.given()) {
      ASSIGN_OR_RETURN(diff, Measure());
    }
    ASSIGN_OR_RETURN(const Report emitted, Emit(args, report, choice, diff, sources));
    return GateArgs::Verdict(emitted);
  }

 private:
  Status ReadOptions(const Args& args) {
    RETURN_IF_ERROR(common_.Apply());
    RETURN_IF_ERROR(samples_.Check(args, false));
    RETURN_IF_ERROR(auto_.Check(args, samples_.given(), Unmeasured()));
    if (labels_ && !samples_.given()) return UsageError("--labels has no effect without samples");
    if (config_) RETURN_IF_ERROR(ReadQuantizeFile(*config_, options_));
    for (const std::string& gate : options_.gate) gates_.Add(gate);
    for (const auto& [key, word] : words_) {
      if (args.Given("--" + key)) RETURN_IF_ERROR(SetFlag(key, word));
    }
    for (const auto& [key, words] : lists_) {
      for (const std::string& word : words) RETURN_IF_ERROR(SetFlag(key, word));
    }
    if (clamp_) options_.non_finite = NonFinite::kClamp;
    if (const Status status = CompleteOptions(options_); !status.ok()) return status;
    RETURN_IF_ERROR(integer_.Check(args, options_, auto_.given()));
    if (min_coverage_ && (*min_coverage_ < 0 || *min_coverage_ > 1)) {
      return UsageError("--min-coverage takes a part of all weights, 0 to 1");
    }
    if (!plan_only_ && !output_.path())
      return UsageError("-o OUT is missing: the model to write (or --plan, to write none)");
    if (plan_only_ && samples_.given() && !auto_.given()) return UsageError("samples have no effect with --plan");
    if (plan_only_ && args.Given("--external-data")) return UsageError("--external-data has no effect with --plan");
    return OkStatus();
  }

  Status SetFlag(const std::string& key, const std::string& word) {
    const Status status = SetQuantizeOption(options_, key, word);
    return status.ok() ? status : UsageError("--{}", Message(status));
  }

  std::map<std::string, std::string> Unmeasured() const {
    std::map<std::string, std::string> out;
    for (const char* metric : {"accuracy", "accuracy.drop", "f1", "f1.drop", "mse", "mse.ratio"}) {
      if (!labels_) out[metric] = "give --labels, to measure it";
    }
    out["layer.sqnr"] = "`nibble diff --layers` measures it";
    if (samples_.given()) return out;
    for (const char* metric : {"sqnr", "cosine", "relative_rms", "rmse", "max_abs", "mean_abs", "non_finite", "top1"}) {
      out[metric] = "give samples (--data or --random), to measure it";
    }
    return out;
  }

  std::vector<std::string> OutputFiles() const {
    std::vector<std::string> files = output_.Files();
    if (common_.report()) files.push_back(*common_.report());
    if (auto_.config()) files.push_back(*auto_.config());
    return files;
  }

  StatusOr<FormatChoice> Choose(const Model& model) const {
    ASSIGN_OR_RETURN(const std::unique_ptr<SampleSource> source, samples_.Open(model));
    StatusOr<FormatChoice> choice = auto_.Choose(path_, model, *source, options_, labels_, common_.quiet());
    if (!choice.ok()) return WithAdvice(choice.status());
    return choice;
  }

  Status Write(Model& model, QuantizeReport& report) {
    RETURN_IF_ERROR(integer_.used() ? integer_.Apply(model, options_, report.plan)
                                    : ApplyPlan(model, options_, report.plan));
    report.opset_after = model.OpsetOf("");
    StatusOr<WriteResult> written = output_.Write(model, "quantizing", common_.quiet());
    if (!written.ok()) return WithAdvice(written.status());
    report.written = *written;
    return OkStatus();
  }

  StatusOr<DiffReport> Measure() const {
    ASSIGN_OR_RETURN(Model reference, LoadToRun(path_));
    ASSIGN_OR_RETURN(Model candidate, LoadToRun(*output_.path()));
    ASSIGN_OR_RETURN(std::unique_ptr<SampleSource> source, samples_.Open(reference));
    RETURN_IF_ERROR(MatchInputs({path_, reference}, {*output_.path(), candidate}));
    const SessionOptions options = {.pool = std::make_shared<BufferPool>(PhysicalMemory())};
    ASSIGN_OR_RETURN(std::unique_ptr<Session> ours, CreateSession(path_, reference, options));
    ASSIGN_OR_RETURN(std::unique_ptr<Session> theirs, CreateSession(*output_.path(), candidate, options));
    const auto before = RunningAnswers(path_, reference, std::move(ours));
    const auto after = RunningAnswers(*output_.path(), candidate, std::move(theirs));
    CompareOptions compare;
    compare.labels = labels_;
    Progress progress("comparing", common_.quiet());
    compare.progress = [&](int64_t done, int64_t all) { progress.Update(done, all); };
    return Compare(*before, *after, *source, compare);
  }

  using Files = std::vector<std::shared_ptr<const File>>;

  StatusOr<Report> Emit(const Args& args, const QuantizeReport& report, const std::optional<FormatChoice>& choice,
                        const std::optional<DiffReport>& diff, const Files& sources) const {
    Report out;
    out.tool = "quantize";
    out.title = report.Title();
    out.config = args.Resolved();
    report.AddTo(out);
    if (choice) AddChoice(*choice, out);
    if (integer_.used()) integer_.AddTo(out);
    if (diff) {
      out.data.Set("diff", DiffJson(*diff).Set("source", samples_.Describe()));
      AddDiff(*diff, out);
    }
    RETURN_IF_ERROR(gates_.Judge(out));
    RETURN_IF_ERROR(AddFiles(report, sources, out));
    Json process = Json::Object();
    process.Set("peak_rss_bytes", PeakResidentBytes());
    RETURN_IF_ERROR(common_.Emit(out, process));
    return out;
  }

  Status AddFiles(const QuantizeReport& report, const Files& sources, Report& out) const {
    FileList files(out, common_.report().has_value());
    for (size_t i = 0; i < sources.size(); ++i) {
      RETURN_IF_ERROR(files.Add(i == 0 ? "model" : "model data", sources[i]->path()));
    }
    RETURN_IF_ERROR(files.Add("config", config_));
    RETURN_IF_ERROR(files.Add("samples", samples_.data()));
    RETURN_IF_ERROR(files.Add("calibration", integer_.file()));
    RETURN_IF_ERROR(files.Add("labels", labels_));
    RETURN_IF_ERROR(files.Add("baseline", gates_.baseline()));
    if (!report.written) return OkStatus();
    RETURN_IF_ERROR(files.Add("config written", auto_.config()));
    RETURN_IF_ERROR(files.Add("output", output_.path()));
    return report.written->data_bytes > 0 ? files.Add("output data", *output_.path() + ".data") : OkStatus();
  }

  std::string path_;
  OutputArgs output_;
  bool plan_only_ = false;
  QuantizeOptions options_;
  std::optional<std::string> config_;
  std::map<std::string, std::string> words_;               // by key, as SetQuantizeOption wants them
  std::map<std::string, std::vector<std::string>> lists_;  // the same for keys that hold a list
  bool clamp_ = false;
  std::optional<double> min_coverage_;
  AutoArgs auto_;
  IntegerArgs integer_;
  std::optional<std::string> labels_;
  GateArgs gates_;
  SampleArgs samples_;
  CommonArgs common_;
};

}  // namespace

std::unique_ptr<Tool> MakeQuantize() { return std::make_unique<QuantizeTool>(); }

}  // namespace quant
