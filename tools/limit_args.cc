#include "tools/limit_args.h"

#include "tools/units.h"

namespace quant {

void LimitArgs::Declare(Args& args) {
  args.Group("What to recommend");
  args.Value("--max-size-ratio", "F", &limits_.max_size_ratio,
             "at most this part of the float model's bytes, as in 0.3");
  args.Value("--max-bytes", "N", &limits_.max_bytes, "at most this many bytes");
  args.Value("--max-drop", "POINTS", &limits_.max_drop, "at most this many points of accuracy less; needs --labels");
  args.Value("--min-sqnr", "DB", &limits_.min_sqnr, "at least this SQNR, of the worst output");
  gates_.Declare(args);
}

Status LimitArgs::Check(bool labels, bool labels_known) {
  if (limits_.max_size_ratio && *limits_.max_size_ratio <= 0)
    return UsageError("--max-size-ratio takes a part, as in 0.3");
  if (limits_.max_bytes && *limits_.max_bytes <= 0) return UsageError("--max-bytes takes a positive number");
  if (limits_.max_drop && !labels && labels_known) return UsageError("--max-drop needs --labels");
  std::map<std::string, std::string> unmeasured;
  unmeasured["layer.sqnr"] = "`nibble diff --layers` measures it";
  if (!labels && labels_known) {
    for (const char* metric : {"accuracy", "accuracy.drop", "f1", "f1.drop", "mse", "mse.ratio"}) {
      unmeasured[metric] = "give --labels, to measure it";
    }
  }
  return gates_.Parse(unmeasured);
}

bool LimitArgs::IsLimit(const std::string& name) {
  return name == "max-size-ratio" || name == "max-bytes" || name == "max-drop" || name == "min-sqnr" ||
         name == "gate" || name == "baseline";
}

std::vector<std::pair<std::string, std::string>> LimitArgs::Words() const {
  std::vector<std::pair<std::string, std::string>> out;
  if (limits_.max_size_ratio) out.emplace_back("max-size-ratio", fmt::format("{}", *limits_.max_size_ratio));
  if (limits_.max_bytes) out.emplace_back("max-bytes", fmt::format("{}", *limits_.max_bytes));
  if (limits_.max_drop) out.emplace_back("max-drop", fmt::format("{}", *limits_.max_drop));
  if (limits_.min_sqnr) out.emplace_back("min-sqnr", fmt::format("{}", *limits_.min_sqnr));
  return out;
}

Status LimitArgs::Emit(const SweepResults& results, const CommonArgs& common) const {
  Report report = SweepReport(results, limits_);
  for (auto& word : Words()) report.config.push_back(std::move(word));
  const bool measured = !report.measures.empty();
  if (measured) RETURN_IF_ERROR(gates_.Judge(report));
  FileList files(report, common.report().has_value());
  RETURN_IF_ERROR(files.Add("baseline", gates_.baseline()));
  Json process = Json::Object();
  process.Set("peak_rss_bytes", PeakResidentBytes());
  RETURN_IF_ERROR(common.Emit(report, process));
  RETURN_IF_ERROR(CheckLimits(results, limits_));
  if (!measured && gates_.given()) return GateError("no configuration is recommended, so no gate is met");
  return GateArgs::Verdict(report);
}

}  // namespace quant
