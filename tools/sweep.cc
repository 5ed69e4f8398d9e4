#include <map>

#include "libquant/config/sweep_grid.h"
#include "libquant/model/load.h"
#include "libquant/search/sweep_file.h"
#include "libquant/search/trial.h"
#include "tools/argument_groups.h"
#include "tools/limit_args.h"
#include "tools/progress.h"
#include "tools/tool.h"

namespace quant {
namespace {

std::vector<std::string> Split(const std::string& text) {
  std::vector<std::string> out;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    out.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return out;
}

std::string Joined(const std::vector<std::string>& words) {
  std::string out;
  for (const std::string& word : words) out += (out.empty() ? "" : ", ") + word;
  return out;
}

SweepRow RowOf(size_t config, const std::string& name, const StatusOr<TrialResult>& found) {
  SweepRow row;
  row.config = config;
  row.name = name;
  if (!found.ok()) {
    row.failed = Message(found.status());
    return row;
  }
  row.bytes = found->bytes;
  row.coverage = found->plan.coverage();
  row.bits_per_weight = found->plan.bits_per_weight();
  row.measures = MeasuresOf(found->diff);
  if (found->diff.task) row.reference_accuracy = found->diff.task->reference.accuracy;
  return row;
}

class SweepTool : public Tool {
 public:
  ToolInfo Info() const override {
    return {"sweep",
            "try formats, group sizes and schemes, and recommend one",
            "Quantizes a model in memory in every way of a grid and measures each on the same samples: formats x group "
            "sizes x schemes x sets of weights that stay float. The float model runs once. The report shows what no "
            "other configuration beats (the Pareto front of size and error) and recommends one within the limits "
            "given, with its reason; exit code 1 when none is within. Sizes are estimates of the files that "
            "`nibble quantize` writes.\n"
            "Lists are separated by commas, or options repeated. --config FILE holds the same in YAML, and all other "
            "options of `nibble quantize --config`; flags go before it.\n"
            "--results FILE keeps a line for each configuration as it is done. Stopped at any time, the same command "
            "goes on with what FILE lacks, and ends with the same bytes. --shard I/N measures a part, for several "
            "machines; `nibble report merge` makes the report of their files.",
            {"nibble sweep model.onnx --data samples.npz --labels labels.npy --report sweep.html",
             "nibble sweep model.onnx --random 20 --weights int4,int8 --group-size 32,128,channel --min-sqnr 25",
             "nibble sweep model.onnx --data samples.npz --skip-set none --skip-set head=lm_head --max-size-ratio 0.3",
             "nibble sweep model.onnx --data samples.npz --config sweep.yaml --results sweep.jsonl",
             "nibble sweep model.onnx --data samples.npz --shard auto --results shard.jsonl"}};
  }

  void Declare(Args& args) override {
    args.Positional("MODEL", &path_, "the ONNX file");
    samples_.Declare(args);
    args.Value("--labels", "FILE", &trial_.labels,
               "what is right: classes, one per row of classes (.npy, or a number a line)");
    args.Value("--output", "NAME", &trial_.output, "compare this output only");
    args.Group("Grid");
    args.Value("--weights", "LIST", &axes_["weights"], "formats; default int4,int8");
    args.Value("--group-size", "LIST", &axes_["group-size"],
               "numbers, channel, tensor; default 32,64,128,256,channel,tensor");
    args.Value("--scheme", "LIST", &axes_["scheme"], "default symmetric,asymmetric");
    args.Value("--skip-set", "NAME=PATTERNS", &skip_sets_,
               "weights that stay float, patterns as in `quantize --skip` separated by commas; may be repeated. `none` "
               "is the set that skips nothing, the default");
    args.Value("--config", "FILE", &config_, "grid and options in YAML");
    args.Group("For all configurations");
    for (const char* key : {"emit", "scale-type", "keep", "target"}) {
      args.Value(std::string("--") + key, "WORD", &words_[key], std::string("as in `quantize --") + key + "`");
    }
    for (const char* key : {"skip", "skip-op", "only", "include-op"}) {
      args.Value(std::string("--") + key, key[0] == 'o' || std::string(key) == "skip" ? "PATTERN" : "TYPE",
                 &lists_[key], std::string("as in `quantize --") + key + "`; may be repeated");
    }
    args.Flag("--clamp-non-finite", &clamp_, "as in `quantize --clamp-non-finite`");
    args.Group("Results");
    args.Value("--results", "FILE.jsonl", &results_,
               "a line for each configuration as it is done; where it holds some of this sweep, the rest is done");
    args.Flag("--fresh", &fresh_, "empty FILE first");
    args.Value("--shard", "I/N", &shard_text_,
               "measure every N-th configuration, from the I-th; auto reads I/N from the environment of Slurm, "
               "Kubernetes (auto/N), GitLab or NIBBLE_SHARD");
    limits_.Declare(args);
    common_.DeclareRendered(args);
  }

  Status Run(const Args& args) override {
    RETURN_IF_ERROR(ReadOptions(args));
    ASSIGN_OR_RETURN(const Model model, LoadModel(path_));
    RETURN_IF_ERROR(CheckOutputs(OutputFiles(), {&model}, samples_.data()));
    ASSIGN_OR_RETURN(const std::vector<SweepConfig> configs, PlanSweep(model, grid_));
    ASSIGN_OR_RETURN(const std::unique_ptr<SampleSource> source, samples_.Open(model));
    SweepResults results;
    ASSIGN_OR_RETURN(results.head, HeadOf(args, model, configs, source->count()));
    std::unique_ptr<SweepFile> file;
    if (results_) {
      ASSIGN_OR_RETURN(file, SweepFile::Open(*results_, results.head, fresh_));
      results.rows = file->rows();
    }
    RETURN_IF_ERROR(Measure(model, configs, *source, file.get(), results));
    if (shard_.count == 1) return limits_.Emit(results, common_);
    return common_.Emit(ShardText(results), Json::Object()
                                                .Set("shard", shard_.Text())
                                                .Set("configurations", static_cast<int64_t>(results.rows.size()))
                                                .Set("results", *results_));
  }

 private:
  Status ReadOptions(const Args& args) {
    RETURN_IF_ERROR(common_.Apply());
    RETURN_IF_ERROR(samples_.Check(args, true));
    RETURN_IF_ERROR(limits_.Check(trial_.labels.has_value()));
    if (!shard_text_.empty()) {
      ASSIGN_OR_RETURN(shard_, ParseShard(shard_text_));
      if (!results_) return UsageError("--shard needs --results FILE.jsonl: what `nibble report merge` reads");
      if (shard_.count > 1 && (limits_.given() || common_.report())) {
        return UsageError("with --shard there is no report to hold against limits: `nibble report merge` takes them");
      }
    }
    if (fresh_ && !results_) return UsageError("--fresh has no effect without --results");
    return ReadGrid(args);
  }

  Status ReadGrid(const Args& args) {
    if (config_) RETURN_IF_ERROR(ReadSweepFile(*config_, grid_));
    if (!grid_.base.gate.empty()) return UsageError("{}: gate has no effect here; --gate judges a sweep", *config_);
    if (args.Given("--weights")) grid_.weights.clear();
    if (args.Given("--group-size")) grid_.group_sizes.clear();
    if (args.Given("--scheme")) grid_.schemes.clear();
    if (args.Given("--skip-set")) grid_.skip_sets.clear();
    for (const auto& [key, given] : axes_) {
      for (const std::string& list : given) {
        for (const std::string& word : Split(list)) RETURN_IF_ERROR(Flag(AddSweepWord(grid_, key, word)));
      }
    }
    for (const std::string& text : skip_sets_) {
      const size_t equals = text.find('=');
      SkipSet set{text.substr(0, equals), {}};
      if (equals != std::string::npos && equals + 1 < text.size()) set.patterns = Split(text.substr(equals + 1));
      RETURN_IF_ERROR(Flag(AddSkipSet(grid_, std::move(set))));
    }
    for (const auto& [key, word] : words_) {
      if (args.Given("--" + key)) RETURN_IF_ERROR(Flag(SetQuantizeOption(grid_.base, key, word)));
    }
    for (const auto& [key, words] : lists_) {
      for (const std::string& word : words) RETURN_IF_ERROR(Flag(SetQuantizeOption(grid_.base, key, word)));
    }
    if (clamp_) grid_.base.non_finite = NonFinite::kClamp;
    RETURN_IF_ERROR(NeedFloatActivations(grid_.base));
    FinishSweepGrid(grid_);
    return OkStatus();
  }

  static Status Flag(const Status& status) { return status.ok() ? status : UsageError("--{}", Message(status)); }

  std::vector<std::string> OutputFiles() const {
    std::vector<std::string> files;
    if (common_.report()) files.push_back(*common_.report());
    if (results_) files.push_back(*results_);
    return files;
  }

  // What is in force: the grid in its own order, whether flags or the file gave it.
  std::vector<std::pair<std::string, std::string>> Config(const Args& args) const {
    std::vector<std::pair<std::string, std::string>> out;
    for (auto& [key, value] : args.Resolved()) {
      const bool ours = key == "weights" || key == "group-size" || key == "scheme" || key == "skip-set" ||
                        key == "results" || key == "fresh" || key == "shard";
      if (!ours && !LimitArgs::IsLimit(key)) out.emplace_back(key, value);
    }
    out.emplace_back("weights", Joined(grid_.weights));
    out.emplace_back("group-size", Joined(grid_.group_sizes));
    out.emplace_back("scheme", Joined(grid_.schemes));
    for (const SkipSet& set : grid_.skip_sets) {
      if (!set.patterns.empty()) out.emplace_back("skip-set " + set.name, Joined(set.patterns));
    }
    return out;
  }

  StatusOr<SweepHead> HeadOf(const Args& args, const Model& model, const std::vector<SweepConfig>& configs,
                             int64_t samples) const {
    Report described;
    FileList files(described, true);
    RETURN_IF_ERROR(files.AddModel("model", model));
    RETURN_IF_ERROR(files.Add("samples", samples_.data()));
    RETURN_IF_ERROR(files.Add("labels", trial_.labels));
    RETURN_IF_ERROR(files.Add("config", config_));
    SweepHead head;
    head.title = fmt::format("{} on {}", path_, samples_.Describe());
    head.files = std::move(described.files);
    head.config = Config(args);
    head.samples = samples;
    for (const auto& source : model.sources) head.float_bytes += source->size();
    for (const SweepConfig& c : configs) head.entries.push_back({c.name, c.refused, c.same_as});
    head.shard = shard_;
    head.key = SweepKey(head, KeyText(head));
    return head;
  }

  // Of random samples also how they are drawn.
  std::string KeyText(const SweepHead& head) const {
    std::string out = BaseText(grid_.base) + "\noutput " + trial_.output.value_or("") + "\n";
    for (const SkipSet& set : grid_.skip_sets) out += fmt::format("skip-set {} {}\n", set.name, Joined(set.patterns));
    if (samples_.data()) return out;
    for (const auto& [key, value] : head.config) {
      if (key == "random" || key == "seed" || key == "dynamic-dim" || key == "dim")
        out += fmt::format("{} {}\n", key, value);
    }
    return out;
  }

  Status Measure(const Model& model, const std::vector<SweepConfig>& configs, SampleSource& source, SweepFile* file,
                 SweepResults& results) {
    std::vector<size_t> waiting = results.head.Mine();
    waiting.erase(waiting.begin(), waiting.begin() + static_cast<ptrdiff_t>(results.rows.size()));
    if (waiting.empty()) return OkStatus();
    Progress progress("sweeping", common_.quiet());
    int64_t done = 0;
    const int64_t all = source.count() * static_cast<int64_t>(waiting.size() + 1);
    trial_.progress = [&](int64_t, int64_t) { progress.Update(++done, all); };
    ASSIGN_OR_RETURN(const std::unique_ptr<Trials> trials, Trials::Make(path_, model, source, trial_));
    size_t kept = results.rows.size();
    bool any = kept > 0;
    for (const size_t c : waiting) {
      const StatusOr<TrialResult> found = trials->Run(configs[c].options);
      // What this model can't have is a result; a full disk or a bug is not.
      if (!found.ok() && ExitCode(found.status()) != 4 && ExitCode(found.status()) != 3) {
        return WithContext(found.status(), configs[c].name);
      }
      results.rows.push_back(RowOf(c, configs[c].name, found));
      // What fails every time, say labels that don't fit, is no result either: failures wait for the first that does
      // not.
      if (found.ok()) any = true;
      for (; any && file != nullptr && kept < results.rows.size(); ++kept) {
        RETURN_IF_ERROR(file->Append(results.rows[kept]));
      }
      if (!any && c == waiting.back()) return WithContext(found.status(), configs[c].name);
    }
    return OkStatus();
  }

  std::string ShardText(const SweepResults& results) const {
    return fmt::format(
        "shard {}: {} of {} configurations are in {}; `nibble report merge` makes the report of all shards\n",
        shard_.Text(), results.rows.size(), results.head.entries.size(), *results_);
  }

  std::string path_;
  SampleArgs samples_;
  TrialOptions trial_;
  SweepGrid grid_;
  std::map<std::string, std::vector<std::string>> axes_, lists_;  // as given
  std::map<std::string, std::string> words_;
  std::vector<std::string> skip_sets_;
  std::optional<std::string> config_, results_;
  bool clamp_ = false, fresh_ = false;
  std::string shard_text_;
  Shard shard_;
  LimitArgs limits_;
  CommonArgs common_;
};

}  // namespace

std::unique_ptr<Tool> MakeSweep() { return std::make_unique<SweepTool>(); }

}  // namespace quant
