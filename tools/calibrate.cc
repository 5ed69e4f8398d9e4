#include <algorithm>
#include <span>

#include "libquant/base/file.h"
#include "tools/units.h"
#include "libquant/calib/calibration.h"
#include "libquant/calib/ranges_file.h"
#include "libquant/model/load.h"
#include "tools/argument_groups.h"
#include "tools/calib_args.h"
#include "tools/progress.h"
#include "tools/tool.h"

namespace quant {
namespace {

// A channel counts as an outlier when it reaches further than the median channel by this.
constexpr float kOutlier = 8;
// Rows on the terminal.
constexpr size_t kShown = 40;

int64_t OutlierChannels(const CalibratedValue& value) {
  std::vector<float> sorted = value.channel_absmax;
  if (sorted.size() < 4) return 0;
  std::nth_element(sorted.begin(), sorted.begin() + static_cast<ptrdiff_t>(sorted.size() / 2), sorted.end());
  const float median = sorted[sorted.size() / 2];
  if (median <= 0) return 0;
  return std::count_if(value.channel_absmax.begin(), value.channel_absmax.end(),
                       [&](float x) { return x > kOutlier * median; });
}

class CalibrateTool : public Tool {
 public:
  ToolInfo Info() const override {
    return {
        "calibrate",
        "measure the ranges of a model's activations on samples",
        "Runs the model once on each sample and keeps, for each float value, its extremes and counts in bins: never "
        "the "
        "tensors, so that memory does not grow with the samples. The file written is JSON that may be read and edited; "
        "`nibble quantize --calib` takes it.\n"
        "Samples can be divided over several machines: --merge makes of their files, in any order, the very file that "
        "all "
        "samples together give. Moving averages depend on the order and can't be merged.",
        {"nibble calibrate model.onnx --data samples.npz -o ranges.json",
         "nibble calibrate model.onnx --random 8 --method percentile --percentile 99.9 -o ranges.json",
         "nibble calibrate --merge a.json --merge b.json -o ranges.json",
         "nibble quantize model.onnx -o small.onnx --activations uint8 --calib ranges.json --target onnxruntime-cpu"}};
  }

  void Declare(Args& args) override {
    args.OptionalPositional("MODEL", &path_, "the ONNX file; none with --merge");
    args.Group("Output");
    args.Value("-o,--output", "FILE", &output_, "the file of ranges, NAME.json");
    args.InUsage();
    args.Value("--merge", "FILE", &merge_, "a file of ranges to put together; given twice or more");
    args.Group("Ranges");
    method_.Declare(args);
    samples_.Declare(args);
    common_.DeclareRendered(args);
  }

  Status Run(const Args& args) override {
    RETURN_IF_ERROR(common_.Apply());
    if (!output_ || !NamesRanges(*output_))
      return UsageError("-o FILE is missing: the file of ranges to write, NAME.json");
    return merge_.empty() ? Measure(args) : Merge(args);
  }

 private:
  Status Measure(const Args& args) {
    if (path_.empty()) return UsageError("MODEL is missing: the ONNX file to calibrate (or --merge)");
    RETURN_IF_ERROR(samples_.Check(args, true));
    ASSIGN_OR_RETURN(const RangeOptions options, method_.Options(args));
    ASSIGN_OR_RETURN(const Model model, LoadToRun(path_));
    std::vector<std::string> outputs = {*output_};
    if (common_.report()) outputs.push_back(*common_.report());
    RETURN_IF_ERROR(CheckOutputs(outputs, {&model}, samples_.data()));
    ASSIGN_OR_RETURN(const std::unique_ptr<SampleSource> source, samples_.Open(model));
    Progress progress("calibrating", common_.quiet());
    ASSIGN_OR_RETURN(const Calibration calibration,
                     Calibrate(model, AllFloatValues(model), *source, options,
                               [&](int64_t done, int64_t all) { progress.Update(done, all); }));
    RETURN_IF_ERROR(calibration.Ranges(method_.non_finite()).status());
    RETURN_IF_ERROR(Write(calibration));
    Report report = ReportOn(calibration, args);
    report.title = fmt::format("{} on {}", path_, samples_.Describe());
    FileList files(report, common_.report().has_value());
    RETURN_IF_ERROR(files.AddModel("model", model));
    RETURN_IF_ERROR(files.Add("samples", samples_.data()));
    return Finish(report, files);
  }

  Status Merge(const Args& args) {
    if (!path_.empty() || samples_.given()) return UsageError("--merge takes files of ranges, no model and no samples");
    if (method_.given(args)) return UsageError("--merge keeps the files' method: options of ranges have no effect");
    if (merge_.size() < 2) return UsageError("--merge is to be given twice or more");
    for (const std::string& file : merge_) {
      if (file == *output_) return UsageError("-o {} is one of the files to merge", file);
    }
    std::optional<Calibration> all;
    for (const std::string& file : merge_) {
      ASSIGN_OR_RETURN(RangesFile part, ReadRanges(file));
      if (!all) {
        all = std::move(part.calibration);
      } else if (const Status status = all->Merge(part.calibration); !status.ok()) {
        return Status(status.code(), fmt::format("{} and {}: {}", merge_[0], file, Message(status)));
      }
    }
    RETURN_IF_ERROR(Write(*all));
    Report report = ReportOn(*all, args);
    report.title = fmt::format("{} files merged", merge_.size());
    FileList files(report, common_.report().has_value());
    for (const std::string& file : merge_) RETURN_IF_ERROR(files.Add("ranges", file));
    return Finish(report, files);
  }

  Status Write(const Calibration& calibration) const {
    const std::string text = RangesText(calibration);
    ASSIGN_OR_RETURN(const std::unique_ptr<PendingFile> file, PendingFile::Create(*output_));
    RETURN_IF_ERROR(file->WriteAt(0, std::as_bytes(std::span(text))));
    return CommitFiles({file.get()});
  }

  static Report ReportOn(const Calibration& calibration, const Args& args) {
    Report report;
    report.tool = "calibrate";
    report.config = args.Resolved();
    ReportTable table{{"value", "low", "high", "min", "max", "clipped", "zeros", "outlier channels"}, {}, kShown};
    std::vector<std::string> never;
    Json rows = Json::Array();
    for (const auto& [name, value] : calibration.values) {
      const ValueHistogram& h = value.histogram;
      if (h.count() == 0) {
        never.push_back(name);
        continue;
      }
      const ValueRange range = calibration.RangeOfValue(value);
      const double clipped = ClippedPart(h, range),
                   zeros = static_cast<double>(h.zeros()) / static_cast<double>(h.count());
      const int64_t outliers = OutlierChannels(value);
      const auto number = [](double x) { return ReportCell(fmt::format("{:.4g}", x), x); };
      const auto percent = [](double x) { return ReportCell(fmt::format("{:.2f} %", x * 100), x); };
      table.rows.push_back({name, number(range.min), number(range.max), number(h.min()), number(h.max()),
                            percent(clipped), percent(zeros),
                            ReportCell(std::to_string(outliers), static_cast<double>(outliers))});
      rows.Append(Json::Object()
                      .Set("value", name)
                      .Set("low", range.min)
                      .Set("high", range.max)
                      .Set("min", h.min())
                      .Set("max", h.max())
                      .Set("clipped", clipped)
                      .Set("zeros", zeros)
                      .Set("nan", h.nans())
                      .Set("infinite", h.infinities())
                      .Set("outlier_channels", outliers));
    }
    ReportSection section{"Ranges", {}, true};
    section.blocks.emplace_back(std::move(table));
    if (!never.empty()) {
      section.blocks.emplace_back(fmt::format("made in no sample, and without a range: {}", fmt::join(never, ", ")));
    }
    report.sections.push_back(std::move(section));
    report.facts.emplace_back("samples", std::to_string(calibration.samples));
    report.facts.emplace_back("method", std::string(NameOf(calibration.options.method)));
    report.data.Set("samples", calibration.samples).Set("method", NameOf(calibration.options.method));
    report.data.Set("ranges", rows).Set("never_made", never);
    return report;
  }

  Status Finish(Report& report, FileList& files) const {
    RETURN_IF_ERROR(files.Add("output", output_));
    Json process = Json::Object();
    process.Set("peak_rss_bytes", PeakResidentBytes());
    return common_.Emit(report, process);
  }

  std::string path_;
  std::optional<std::string> output_;
  std::vector<std::string> merge_;
  MethodArgs method_;
  SampleArgs samples_;
  CommonArgs common_;
};

}  // namespace

std::unique_ptr<Tool> MakeCalibrate() { return std::make_unique<CalibrateTool>(); }

}  // namespace quant
