#include <algorithm>
#include <chrono>
#include <numeric>

#include "libquant/data/npy.h"
#include "libquant/data/saved_outputs.h"
#include "libquant/exec/session.h"
#include "libquant/model/load.h"
#include "libquant/report/table.h"
#include "libquant/verify/compare.h"
#include "tools/argument_groups.h"
#include "tools/dump.h"
#include "tools/profile.h"
#include "tools/progress.h"
#include "tools/tensor_stats.h"
#include "tools/tool.h"
#include "tools/units.h"

namespace quant {
namespace {

// What came out under one name, over all samples.
struct OutputSummary {
  std::string name;
  DType dtype = DType::kUndefined;
  Dims dims;         // of the first sample
  bool same = true;  // dims and dtype, in every sample
  TensorStats stats;
  bool compared = false;
  ToleranceCheck check;
};

// With every output [1, ...] of the same dims in every sample: one tensor each, samples along the first axis.
std::optional<NamedTensors> Stacked(const std::vector<NamedTensors>& runs) {
  NamedTensors out;
  for (size_t o = 0; o < runs[0].size(); ++o) {
    const auto& [name, first] = runs[0][o];
    if (first.rank() == 0 || first.dims()[0] != 1 || InfoOf(first.dtype()).bits < 8) return std::nullopt;
    Dims dims = first.dims();
    dims[0] = static_cast<int64_t>(runs.size());
    if (!BytesFor(first.dtype(), dims)) return std::nullopt;
    Tensor all = Tensor::Allocate(first.dtype(), dims);
    auto at = all.mutable_bytes().begin();
    for (const NamedTensors& run : runs) {
      const Tensor& tensor = run[o].second;
      if (tensor.dtype() != first.dtype() || tensor.dims() != first.dims()) return std::nullopt;
      at = std::copy(tensor.bytes().begin(), tensor.bytes().end(), at);
    }
    out.emplace_back(name, std::move(all));
  }
  return out;
}

bool IsNpz(const std::string& path) { return path.size() >= 5 && path.substr(path.size() - 4) == ".npz"; }

double SecondsSince(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

double Median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

class RunTool : public Tool {
 public:
  ToolInfo Info() const override {
    return {"run",
            "run samples through a model and write its outputs",
            "Runs a model on Nibble's executor, sample by sample. With -o, outputs go to an .npz under the model's own "
            "output names, bfloat16 as float32 and types of less than a byte as int8 or uint8, as NumPy has none of "
            "them; without it nothing is written. With several samples, outputs of leading dimension 1 are stacked "
            "along it; when they cannot be, "
            "each sample gets a file of its own: OUT_0.npz, OUT_1.npz, and so on.\n"
            "With --dump, tensors inside the model whose name, or whose node's name, matches are written as they are "
            "made, one .npy file each, "
            "with a list of them in FOLDER/sample_N/index.tsv.\n"
            "With --expect, outputs are compared with those stored in test_data_set_* folders, with --expect-npz with "
            "those that -o wrote before; exit code 1 when an element is beyond atol + rtol * |expected|.",
            {"nibble run model.onnx --data samples.npz -o outputs.npz", "nibble run model.onnx --random 3 --seed 1",
             "nibble run model.onnx --data test_data_set_0 --expect --rtol 1e-4",
             "nibble run other.onnx --random 3 --seed 1 --expect-npz outputs.npz", "# which node takes the time",
             "nibble run model.onnx --random 20 --profile", "# the tensors that attention makes, one .npy file each",
             "nibble run model.onnx --data samples.npz --dump 'attn' --dump-to tensors"}};
  }

  void Declare(Args& args) override {
    args.Positional("MODEL", &path_, "the ONNX file");
    samples_.Declare(args);
    args.Group("Outputs");
    args.Value("-o,--output", "FILE.npz", &output_, "where outputs go; nothing is written without it");
    args.Flag("--expect", &expect_, "compare with the outputs stored beside the samples");
    args.Value("--expect-npz", "FILE.npz", &expect_npz_,
               "compare with outputs that -o FILE.npz wrote, or that others saved under the names of outputs, a row a "
               "sample where there are several; outputs that are not in the file are not compared");
    args.Value("--rtol", "R", &rtol_, "relative tolerance of the comparison; default 1e-3");
    args.Value("--atol", "A", &atol_, "absolute tolerance of the comparison; default 1e-5");
    args.Group("Looking inside");
    args.Flag("--profile", &profile_wanted_,
              "say how long each node and each operator took; of If, Loop and Scan without the nodes of their bodies");
    args.Value("--dump", "PATTERN", &dump_patterns_,
               "write the tensors whose name, or whose node's name, matches this RE2 pattern; may be given often. Only "
               "what nodes make is written: no weights, no inputs, nothing that is computed from constants alone");
    args.Value("--dump-to", "FOLDER", &dump_folder_, "where --dump writes; a new or an empty folder");
    args.Group("Limits");
    args.Value("--max-body-runs", "N", &max_body_runs_,
               "give up when bodies of If, Loop and Scan have run this often in a sample; a model may ask for any "
               "number");
    common_.Declare(args);
  }

  Status Run(const Args& args) override {
    RETURN_IF_ERROR(CheckOptions(args));
    rss_before_ = PeakResidentBytes();
    ASSIGN_OR_RETURN(Model model, LoadToRun(path_));
    std::vector<std::string> outputs;
    if (output_) outputs.push_back(*output_);
    if (common_.report()) outputs.push_back(*common_.report());
    ASSIGN_OR_RETURN(std::unique_ptr<SampleSource> source, samples_.Open(model));
    if (expect_npz_) {
      ASSIGN_OR_RETURN(saved_, SavedOutputs::Open(*expect_npz_, source->count()));
    }
    RETURN_IF_ERROR(CheckWritten(outputs, model));
    if (max_body_runs_ && model.graph.region_count() == 1) {
      return UsageError("--max-body-runs has no effect: the model has no If, Loop or Scan");
    }
    SessionOptions limits;
    if (max_body_runs_) limits.max_body_runs = *max_body_runs_;
    ASSIGN_OR_RETURN(std::unique_ptr<Session> session, CreateSession(path_, model, limits));
    if (profile_wanted_) profile_.emplace(model.graph);
    if (dump_folder_) {
      ASSIGN_OR_RETURN(dump_, Dump::Open(model.graph, *dump_folder_, dump_patterns_));
    }
    RETURN_IF_ERROR(RunAll(*session, *source));
    if (dump_ && dump_->never_made() > 0) {
      common_.Warn(fmt::format("{} tensors that --dump matches were not made: constant, or in a branch not taken",
                               Grouped(dump_->never_made())));
    }
    RETURN_IF_ERROR(WriteOutputs(model, source->count()));
    RETURN_IF_ERROR(common_.Emit(TextReport(), JsonReport()));
    return Verdict();
  }

 private:
  Status CheckOptions(const Args& args) const {
    RETURN_IF_ERROR(common_.Apply());
    RETURN_IF_ERROR(samples_.Check(args, true));
    if (output_ && !IsNpz(*output_)) {
      return UsageError("--output {}: outputs are written as an .npz; the name must end so", *output_);
    }
    if (expect_ && !samples_.data()) return UsageError("--expect needs --data with stored outputs");
    if (expect_ && expect_npz_) return UsageError("--expect and --expect-npz exclude each other");
    if (expect_npz_ && !IsNpz(*expect_npz_))
      return UsageError("--expect-npz {}: the name must end in .npz", *expect_npz_);
    for (const char* name : {"--rtol", "--atol"}) {
      if (args.Given(name) && !comparing())
        return UsageError("{} has no effect without --expect or --expect-npz", name);
    }
    if (dump_patterns_.empty() == dump_folder_.has_value()) {
      return UsageError("--dump and --dump-to go together: which tensors, and the folder for them");
    }
    if (max_body_runs_ && *max_body_runs_ < 0) return UsageError("--max-body-runs is 0 or more");
    if (rtol_ < 0 || atol_ < 0) return UsageError("tolerances are 0 or more");
    return OkStatus();
  }

  bool comparing() const { return expect_ || expect_npz_; }

  // No file that is written is one that is read.
  Status CheckWritten(const std::vector<std::string>& outputs, const Model& model) const {
    RETURN_IF_ERROR(CheckOutputs(outputs, {&model}, samples_.data()));
    for (const std::string& file : saved_ ? saved_->files() : std::vector<std::string>()) {
      RETURN_IF_ERROR(CheckOutputs(outputs, {}, file));
    }
    return OkStatus();
  }

  RunHooks Hooks() {
    RunHooks hooks;
    if (profile_) {
      hooks.timed = [this](std::span<const NodeId> nodes, double seconds) { profile_->Add(nodes, seconds); };
    }
    if (dump_) {
      hooks.probe = [this](const std::string& name, const Tensor& tensor) {
        const auto begin = std::chrono::steady_clock::now();
        Status status = dump_->Write(name, tensor);
        dump_seconds_ += SecondsSince(begin);
        return status;
      };
      hooks.chosen = [this](const std::string& name) { return dump_->Chosen(name); };
    }
    return hooks;
  }

  Status RunAll(Session& session, SampleSource& source) {
    const RunHooks hooks = Hooks();
    Progress progress("running", common_.quiet());
    for (int64_t i = 0; i < source.count(); ++i) {
      ASSIGN_OR_RETURN(NamedTensors feeds, source.Load(i));
      if (dump_) RETURN_IF_ERROR(dump_->BeginSample(i));
      dump_seconds_ = 0;
      const auto begin = std::chrono::steady_clock::now();
      StatusOr<NamedTensors> got = session.Run(feeds, hooks);
      if (!got.ok()) return InSample(got.status(), source, i);
      seconds_.push_back(SecondsSince(begin) - dump_seconds_);
      if (dump_) RETURN_IF_ERROR(dump_->EndSample());
      RETURN_IF_ERROR(WithContext(Take(*got), fmt::format("sample {}", i)));
      if (comparing()) RETURN_IF_ERROR(WithContext(Compare(source, i, *got), fmt::format("sample {}", i)));
      if (output_) runs_.push_back(*std::move(got));
      progress.Update(i + 1, source.count());
    }
    return OkStatus();
  }

  Status Take(const NamedTensors& got) {
    for (size_t o = 0; o < got.size(); ++o) {
      const auto& [name, tensor] = got[o];
      if (o == summaries_.size()) {
        summaries_.push_back({name, tensor.dtype(), tensor.dims(), true, {}, false, ToleranceCheck(rtol_, atol_)});
      }
      OutputSummary& summary = summaries_[o];
      summary.same = summary.same && summary.dtype == tensor.dtype() && summary.dims == tensor.dims();
      summary.stats.Add(tensor);
    }
    return OkStatus();
  }

  Status Compare(SampleSource& source, int64_t i, const NamedTensors& got) {
    ASSIGN_OR_RETURN(NamedTensors expected, saved_ ? saved_->Load(i) : source.LoadExpected(i));
    if (expected.empty()) return UsageError("--expect: there are no stored outputs (output_N.pb) beside the sample");
    for (size_t e = 0; e < expected.size(); ++e) {
      // By name; files of some exporters leave names out, then by position.
      size_t o = 0;
      while (o < got.size() && got[o].first != expected[e].first) ++o;
      if (o == got.size() && expected[e].first.empty()) o = e;
      if (o >= got.size()) return DataError("stored output '{}' is no output of the model", expected[e].first);
      summaries_[o].compared = true;
      Tensor ours = got[o].second;
      if (saved_) {
        ASSIGN_OR_RETURN(ours, ForNumpy(got[o].first, ours));
      }
      RETURN_IF_ERROR(WithContext(summaries_[o].check.Add(expected[e].second, ours), "output " + got[o].first));
    }
    return OkStatus();
  }

  Status WriteOutputs(const Model& model, int64_t count) {
    if (!output_) return OkStatus();
    std::optional<NamedTensors> stacked = count == 1 ? runs_[0] : Stacked(runs_);
    if (stacked) {
      written_.push_back(*output_);
      return WriteNpz(*output_, *stacked);
    }
    for (size_t i = 0; i < runs_.size(); ++i) written_.push_back(OutputFileOf(*output_, static_cast<int64_t>(i)));
    RETURN_IF_ERROR(CheckWritten(written_, model));
    for (size_t i = 0; i < runs_.size(); ++i) RETURN_IF_ERROR(WriteNpz(written_[i], runs_[i]));
    return OkStatus();
  }

  std::string TextReport() const {
    std::vector<std::string> headings = {"output", "type", "dims", "min", "max", "mean", "not finite"};
    if (comparing()) headings.insert(headings.end(), {"largest error", "beyond", "rtol needed"});
    Table table(headings);
    for (const OutputSummary& s : summaries_) {
      const TensorStats& t = s.stats;
      std::vector<std::string> row = {s.name,
                                      std::string(NameOf(s.dtype)),
                                      ToString(s.dims) + (s.same ? "" : " ..."),
                                      t.any() ? Real(t.min) : "",
                                      t.any() ? Real(t.max) : "",
                                      t.any() ? Real(t.mean()) : "",
                                      Grouped(t.non_finite)};
      if (s.compared) {
        row.insert(row.end(), {Real(s.check.max_abs()), Grouped(s.check.beyond()), Real(s.check.needed_rtol())});
      }
      table.AddRow(row);
    }
    std::string text =
        fmt::format("{} sample{} of {}\n", seconds_.size(), seconds_.size() == 1 ? "" : "s", samples_.Describe());
    text += table.Render();
    if (written_.size() == 1) text += "written: " + written_[0] + "\n";
    if (written_.size() > 1) text += fmt::format("written: {} to {}\n", written_.front(), written_.back());
    if (dump_) text += fmt::format("dumped: {} tensors to {}\n", Grouped(dump_->files()), *dump_folder_);
    if (profile_) text += profile_->Text(TotalSeconds());
    return text;
  }

  double TotalSeconds() const { return std::accumulate(seconds_.begin(), seconds_.end(), 0.0); }

  Json JsonReport() const {
    Json outputs = Json::Array();
    for (const OutputSummary& s : summaries_) {
      const TensorStats& t = s.stats;
      Json row = Json::Object().Set("name", s.name).Set("dtype", NameOf(s.dtype)).Set("dims", s.dims);
      row.Set("dims_differ", !s.same).Set("elements", t.elements);
      if (t.any()) row.Set("min", t.min).Set("max", t.max).Set("mean", t.mean());
      row.Set("non_finite", t.non_finite);
      if (s.compared) {
        row.Set("max_abs_error", s.check.max_abs())
            .Set("beyond_tolerance", s.check.beyond())
            .Set("rtol_needed", s.check.needed_rtol());
      }
      outputs.Append(row);
    }
    const double total = TotalSeconds();
    Json out = Json::Object()
                   .Set("schema_version", 1)
                   .Set("model", path_)
                   .Set("samples", static_cast<int64_t>(seconds_.size()));
    out.Set("source", samples_.Describe()).Set("outputs", outputs).Set("written", written_);
    if (dump_) {
      out.Set("dump", Json::Object()
                          .Set("folder", *dump_folder_)
                          .Set("tensors", dump_->files())
                          .Set("never_made", dump_->never_made()));
    }
    if (profile_) out.Set("profile", profile_->ToJson(total));
    out.Set("seconds", total).Set("median_seconds_per_sample", Median(seconds_));
    out.Set("rss_before_bytes", rss_before_).Set("peak_rss_bytes", PeakResidentBytes());
    return out;
  }

  Status Verdict() const {
    for (const OutputSummary& s : summaries_) {
      if (s.check.beyond() == 0) continue;
      return GateError("output {}: {} of {} elements are beyond rtol {}, atol {}; rtol {} would be needed", s.name,
                       s.check.beyond(), s.check.elements(), Real(rtol_), Real(atol_), Real(s.check.needed_rtol()));
    }
    return OkStatus();
  }

  std::string path_;
  std::optional<std::string> output_;
  bool expect_ = false;
  std::optional<std::string> expect_npz_;
  double rtol_ = 1e-3;
  double atol_ = 1e-5;
  bool profile_wanted_ = false;
  std::vector<std::string> dump_patterns_;
  std::optional<std::string> dump_folder_;
  std::optional<int64_t> max_body_runs_;
  SampleArgs samples_;
  CommonArgs common_;

  int64_t rss_before_ = 0;
  std::optional<Profile> profile_;
  std::unique_ptr<Dump> dump_;
  std::optional<SavedOutputs> saved_;
  std::vector<NamedTensors> runs_;
  std::vector<OutputSummary> summaries_;
  double dump_seconds_ = 0;      // of the sample that is under way
  std::vector<double> seconds_;  // by sample, without the writing of --dump
  std::vector<std::string> written_;
};

}  // namespace

std::unique_ptr<Tool> MakeRun() { return std::make_unique<RunTool>(); }

}  // namespace quant
