#include <algorithm>
#include <map>

#include "libquant/model/check.h"
#include "libquant/model/inline_functions.h"
#include "libquant/model/load.h"
#include "libquant/model/opset.h"
#include "libquant/model/read.h"
#include "libquant/report/table.h"
#include "libquant/search/half_search.h"
#include "libquant/verify/same_answers.h"
#include "passes/convert/decompose.h"
#include "passes/convert/to_half.h"
#include "tools/argument_groups.h"
#include "tools/output_args.h"
#include "tools/progress.h"
#include "tools/tool.h"
#include "tools/units.h"

namespace quant {
namespace {

// "a,b" and "c" -> a, b, c.
std::vector<std::string> SplitWords(const std::vector<std::string>& lists) {
  std::vector<std::string> out;
  for (const std::string& list : lists) {
    for (size_t begin = 0; begin <= list.size();) {
      const size_t end = std::min(list.find(',', begin), list.size());
      if (end > begin) out.push_back(list.substr(begin, end - begin));
      begin = end + 1;
    }
  }
  return out;
}

std::string Count(int64_t n, std::string_view what) {
  return fmt::format("{} {}{}", Grouped(n), what, n == 1 ? "" : "s");
}

class ConvertTool : public Tool {
 public:
  ToolInfo Info() const override {
    return {
        "convert",
        "move a model to another opset, to half precision, or to fewer operators",
        "Decomposes operators, converts the opset, makes the model half, in this order; what is not asked for stays "
        "as it is.\n"
        "The opset goes up and down; where an operator's definition changed, its nodes are rewritten, and where the "
        "older one cannot say what a node does, the tool says so and ends with exit code 4.\n"
        "With --type, weights and activations become half. Operators whose sums or range are too wide for half stay "
        "float32, with Casts around them, and so do graph inputs and outputs. Weights beyond the type's largest "
        "number saturate, and the report says where.",
        {"nibble convert model.onnx -o new.onnx --opset 21",
         "nibble convert model.onnx -o old.onnx --opset 13 --verify",
         "nibble convert model.onnx -o half.onnx --type fp16",
         "nibble convert model.onnx -o half.onnx --type fp16 --keep-op MatMul --keep '^/head/'",
         "nibble convert model.onnx -o half.onnx --type fp16 --min-sqnr 50 --data samples.npz",
         "nibble convert model.onnx -o basic.onnx --decompose LayerNormalization,Gelu",
         "nibble convert model.onnx -o device.onnx --target portable"}};
  }

  void Declare(Args& args) override {
    args.Positional("MODEL", &path_, "the ONNX file");
    output_.Declare(args, "without it nothing is written, and the report says what would be done");
    args.Group("Opset and operators");
    args.Value("--opset", "N", &opset_,
               fmt::format("version of the default domain, {} to {}", kLowestOpset, kHighestOpset));
    args.Value("--decompose", "OP,...", &decompose_, "make basic operators of these; may be repeated");
    args.Choice("--target", TargetNames(), &target_,
                "decompose what this runtime lacks, and move to an opset that it reads");
    args.Group("Half precision");
    args.Choice("--type", {"fp16", "bf16"}, &type_, "type that float32 weights and activations become");
    args.Value("--keep-op", "TYPE", &half_.keep_ops,
               "operator that stays float32 besides the default ones; may be repeated");
    args.Value("--keep", "PATTERN", &half_.keep,
               "regular expression on names of nodes that stay float32; may be repeated");
    args.Flag("--io-half", &half_.io_half, "graph inputs and outputs become half too");
    args.Value("--min-sqnr", "DB", &min_sqnr_,
               "keep nodes float32 until every output has this SQNR to the float model on every sample; which ones is "
               "measured on the samples, layer by layer. Exit code 1, and nothing written, when that can't be reached");
    args.Group("Looking inside");
    args.Flag("--explain", &explain_, "list each node that stays float32 and why");
    args.Flag(
        "--verify", &verify_,
        "run the model before and after, on the samples given or on a random one; exit code 1 when answers differ "
        "by more than a relative RMS of 1e-5, or 1e-2 with --type");
    samples_.Declare(args);
    common_.Declare(args);
  }

  Status Run(const Args& args) override {
    RETURN_IF_ERROR(common_.Apply());
    RETURN_IF_ERROR(CheckArgs(args));
    ASSIGN_OR_RETURN(Model model, Load());
    std::vector<std::string> files = output_.Files();
    if (common_.report()) files.push_back(*common_.report());
    RETURN_IF_ERROR(CheckOutputs(files, {&model}, std::nullopt));
    std::optional<SameAnswers> answers;
    if (verify_) {
      ASSIGN_OR_RETURN(const auto source, samples_.OpenOrOneRandom(model));
      AnswerTolerance tolerance;
      if (!type_.empty()) tolerance.wide = tolerance.half;
      ASSIGN_OR_RETURN(answers, SameAnswers::Of(model, *source, tolerance));
    }
    json_.Set("schema_version", 1).Set("model", path_).Set("output", output_.path());
    RETURN_IF_ERROR(Decompose(model));
    RETURN_IF_ERROR(MoveOpset(model));
    std::optional<HalfReport> half;
    if (!type_.empty()) {
      half_.type = type_ == "fp16" ? DType::kFloat16 : DType::kBfloat16;
      ASSIGN_OR_RETURN(half, min_sqnr_ ? Search(model) : ConvertToHalf(model, half_));
      WarnOfOldOpset(model);
    }
    return Finish(model, half, answers);
  }

 private:
  Status CheckArgs(const Args& args) {
    RETURN_IF_ERROR(samples_.Check(args, false));
    if (samples_.given() && !verify_ && !min_sqnr_) {
      return UsageError("samples have no effect without --verify or --min-sqnr");
    }
    decompose_ = SplitWords(decompose_);
    if (type_.empty() && (!half_.keep.empty() || !half_.keep_ops.empty() || half_.io_half || explain_ || min_sqnr_)) {
      return UsageError("--keep, --keep-op, --io-half, --min-sqnr and --explain have no effect without --type");
    }
    if (min_sqnr_ && !samples_.given()) {
      return UsageError("--min-sqnr is measured on samples: give --data or --random");
    }
    if (min_sqnr_ && !(*min_sqnr_ > 0 && *min_sqnr_ <= 200)) {
      return UsageError("--min-sqnr takes dB above 0 and up to 200, not {}", *min_sqnr_);
    }
    if (min_sqnr_ && half_.io_half) {
      return UsageError("--min-sqnr compares models of the same inputs: not with --io-half");
    }
    if (verify_ && half_.io_half) return UsageError("--verify compares models of the same inputs: not with --io-half");
    if (opset_ && (*opset_ < kLowestOpset || *opset_ > kHighestOpset)) {
      return UsageError("--opset takes {} to {}, not {}", kLowestOpset, kHighestOpset, *opset_);
    }
    if (!opset_ && decompose_.empty() && target_.empty() && type_.empty()) {
      return UsageError("nothing to do: --opset, --type, --decompose or --target says what");
    }
    return OkStatus();
  }

  // ONNX's checker refuses operators of a version that was withdrawn (GroupNormalization 18): raising the opset is what
  // helps them.
  StatusOr<Model> Load() const {
    auto model = LoadModel(path_);
    if (model.ok() || !opset_ || Message(model.status()).find("is deprecated") == std::string::npos) return model;
    ASSIGN_OR_RETURN(Model unchecked, ReadModel(path_));
    if (*opset_ <= unchecked.OpsetOf("")) return model;
    RETURN_IF_ERROR(WithContext(InferShapes(unchecked), path_));
    return unchecked;
  }

  Status Decompose(Model& model) {
    DecomposeOptions options{decompose_, std::nullopt};
    if (!target_.empty()) {
      ASSIGN_OR_RETURN(options.target, FindTarget(target_));
    }
    if (options.operators.empty() && !options.target) return OkStatus();
    ASSIGN_OR_RETURN(const DecomposeReport report, DecomposeOperators(model, options));
    Json rows = Json::Array();
    for (const auto& [op_type, count] : report.nodes) {
      text_ += fmt::format("decomposed: {} of {}\n", Count(count, "node"), op_type);
      rows.Append(Json::Object().Set("operator", op_type).Set("nodes", count));
    }
    if (report.nodes.empty()) text_ += "decomposed: nothing; the target runs all operators\n";
    json_.Set("decomposed", rows);
    return OkStatus();
  }

  Status MoveOpset(Model& model) {
    const int64_t from = model.OpsetOf("");
    int64_t to = opset_.value_or(from);
    if (!target_.empty()) {
      ASSIGN_OR_RETURN(const Target target, FindTarget(target_));
      if (opset_ && (to < target.min_opset || to > target.max_opset)) {
        return UsageError("--opset {}: target {} reads {} to {}", to, target_, target.min_opset, target.max_opset);
      }
      to = std::clamp(to, target.min_opset, target.max_opset);
    }
    json_.Set("opset_before", from).Set("opset", to);
    if (to == from) {
      if (opset_) text_ += fmt::format("opset: {}, as it was\n", to);
      return OkStatus();
    }
    RETURN_IF_ERROR(WithContext(to > from ? RaiseOpset(model, to) : LowerOpset(model, to), path_));
    RETURN_IF_ERROR(Verify(model.graph));
    text_ += fmt::format("opset: {} -> {}, IR version {}\n", from, to, model.ir_version);
    return InferShapes(model);
  }

  Status Finish(const Model& model, std::optional<HalfReport>& half, const std::optional<SameAnswers>& answers) {
    json_.Set("ir_version", model.ir_version);
    std::optional<WriteResult> written;
    if (min_sqnr_ && !met_) {
      RETURN_IF_ERROR(ReportHalf(*half));
      json_.Set("peak_rss_bytes", PeakResidentBytes());
      RETURN_IF_ERROR(common_.Emit(text_, json_));
      return GateError("SQNR stays below --min-sqnr {}; nothing is written", *min_sqnr_);
    }
    if (answers) {
      ASSIGN_OR_RETURN(const auto wrong, answers->Check(model));
      json_.Set("verified", !wrong.has_value());
      if (wrong) return GateError("answers are not the same: {}; nothing is written", *wrong);
      text_ += "verified: answers agree\n";
    }
    if (output_.path()) {
      ASSIGN_OR_RETURN(written, output_.Write(model, "writing", common_.quiet()));
    }
    if (half) RETURN_IF_ERROR(ReportHalf(*half));
    if (written) {
      const int64_t bytes = written->model_bytes + written->data_bytes;
      text_ += fmt::format("{}written: {}, {}\n", half ? "\n" : "", *output_.path(), Bytes(bytes));
      json_.Set("bytes", bytes);
    }
    json_.Set("peak_rss_bytes", PeakResidentBytes());
    return common_.Emit(text_, json_);
  }

  // Puts the half model in the float one's place.
  StatusOr<HalfReport> Search(Model& model) {
    if (!model.functions.empty()) {
      RETURN_IF_ERROR(InlineFunctions(model));
      RETURN_IF_ERROR(InferShapes(model));
    }
    ASSIGN_OR_RETURN(const auto source, samples_.Open(model));
    Progress progress("measuring", common_.quiet());
    HalfSearchOptions options;
    options.min_sqnr = *min_sqnr_;
    options.progress = [&](int64_t done, int64_t all) { progress.Update(done, all); };
    ASSIGN_OR_RETURN(HalfSearch found, SearchHalf(model, *source, half_, options));
    met_ = found.met;
    ReportSearch(found);
    model = std::move(found.model);
    return std::move(found.half);
  }

  void ReportSearch(const HalfSearch& found) {
    Json rounds = Json::Array(), outputs = Json::Array();
    Table round_table({"round", "nodes", "worst output", "SQNR dB"}), output_table({"output", "SQNR dB"});
    for (const HalfRound& round : found.rounds) {
      const std::string nodes = Grouped(static_cast<int64_t>(round.nodes.size()));
      const std::string what = round.nodes.empty() ? std::string("all that may be half")
                               : !round.gives_back ? nodes + " more float32"
                               : round.held        ? nodes + " half again"
                                                   : nodes + " half again: undone";
      round_table.AddRow({Grouped(static_cast<int64_t>(round_table.rows())), what, Shortened(round.worst, 48),
                          fmt::format("{:.1f}", round.sqnr)});
      Json names = Json::Array();
      for (const std::string& node : round.nodes) names.Append(node);
      rounds.Append(Json::Object()
                        .Set("gives_back", round.gives_back)
                        .Set("held", round.held)
                        .Set("nodes", names)
                        .Set("output", round.worst)
                        .Set("sqnr_db", round.sqnr));
    }
    for (const auto& [name, db] : found.outputs) {
      output_table.AddRow({Shortened(name, 48), fmt::format("{:.1f}", db)});
      outputs.Append(Json::Object().Set("output", name).Set("sqnr_db", db));
    }
    text_ += fmt::format("{}\n{}\n", round_table.Render(), output_table.Render());
    Json out = Json::Object();
    out.Set("min_sqnr_db", *min_sqnr_).Set("samples", samples_.Describe()).Set("met", found.met);
    json_.Set("search", out.Set("rounds", rounds).Set("outputs", outputs));
  }

  // Measured with ONNX Runtime 1.30: below opset 14 its layout optimizer can crash on a half Transpose.
  void WarnOfOldOpset(const Model& model) const {
    if (model.OpsetOf("") >= 14) return;
    for (NodeId n : model.graph.AllNodes()) {
      const Node& node = model.graph.node(n);
      if (node.op_type != "Transpose" || model.graph.value(node.outputs.at(0)).dtype != half_.type) continue;
      common_.Warn(fmt::format("ONNX Runtime may crash on a {} Transpose of opset {}: --opset 17 avoids it", type_,
                               model.OpsetOf("")));
      return;
    }
  }

  Status ReportHalf(HalfReport& half) {
    RETURN_IF_ERROR(CountLosses(half));
    text_ += fmt::format("{}: {}, {}; {} in float32; {} between the two\n", type_, Count(half.half_nodes, "node"),
                         Count(static_cast<int64_t>(half.weights.size()), "weight"),
                         Count(static_cast<int64_t>(half.kept.size()), "node"), Count(half.casts, "Cast"));
    Json weights = Json::Array(), kept = Json::Array();
    Table losses({"weight", "values", "saturated", "to zero"});
    for (const HalfReport::Weight& w : half.weights) {
      const HalfLosses& lost = *w.losses;
      if (lost.saturated == 0 && lost.to_zero == 0) continue;
      losses.AddRow({Shortened(w.name, 60), Grouped(w.half.size()), Grouped(lost.saturated), Grouped(lost.to_zero)});
      weights.Append(Json::Object()
                         .Set("weight", w.name)
                         .Set("values", w.half.size())
                         .Set("saturated", lost.saturated)
                         .Set("to_zero", lost.to_zero));
    }
    std::map<std::pair<std::string, std::string>, int64_t> reasons;
    Table nodes({"node", "operator", "float32 because"});
    for (const HalfReport::Kept& k : half.kept) {
      ++reasons[{k.op_type, k.why}];
      nodes.AddRow({Shortened(k.node, 48), k.op_type, k.why});
      kept.Append(Json::Object().Set("node", k.node).Set("operator", k.op_type).Set("why", k.why));
    }
    Table summary({"operator", "nodes", "float32 because"});
    for (const auto& [key, count] : reasons) summary.AddRow({key.first, Grouped(count), key.second});
    if (summary.rows() > 0) text_ += fmt::format("\n{}", (explain_ ? nodes : summary).Render());
    if (losses.rows() > 0) text_ += fmt::format("\n{}", losses.Render());
    Json out = Json::Object();
    out.Set("type", type_).Set("nodes", half.half_nodes).Set("weights", static_cast<int64_t>(half.weights.size()));
    out.Set("casts", half.casts).Set("losses", weights).Set("kept", kept);
    json_.Set("half", out);
    return OkStatus();
  }

  std::string path_, target_, type_;
  std::optional<int64_t> opset_;
  std::vector<std::string> decompose_;
  std::optional<double> min_sqnr_;
  bool met_ = false;  // --min-sqnr
  HalfOptions half_;
  bool explain_ = false, verify_ = false;
  std::string text_;
  Json json_ = Json::Object();
  OutputArgs output_;
  SampleArgs samples_;
  CommonArgs common_;
};

}  // namespace

std::unique_ptr<Tool> MakeConvert() { return std::make_unique<ConvertTool>(); }

}  // namespace quant
