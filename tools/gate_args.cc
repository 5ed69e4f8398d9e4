#include "tools/gate_args.h"

#include <algorithm>

#include "libquant/base/file.h"

namespace quant {
namespace {

constexpr int64_t kMaxReport = int64_t{1} << 28;

StatusOr<Measures> ReadMeasures(const std::string& path) {
  ASSIGN_OR_RETURN(const std::string text, ReadTextFile(path, kMaxReport));
  Measures out;
  for (const auto& [name, value] : Json::Parse(text).At("measures").Items()) {
    if (const auto number = value.Number()) out.emplace_back(name, *number);
  }
  if (out.empty()) return DataError("{} is no report with measures: `--report FILE.json` writes one", path);
  return out;
}

ReportTable AgainstBaseline(const Measures& baseline, const Measures& measures) {
  ReportTable table{{"measure", "accepted", "now"}, {}};
  for (const auto& [name, now] : measures) {
    const auto before = std::find_if(baseline.begin(), baseline.end(), [&](const auto& m) { return m.first == name; });
    if (before == baseline.end() || before->second == now) continue;
    table.rows.push_back({name, ReportCell(fmt::format("{:.6g}", before->second), before->second),
                          ReportCell(fmt::format("{:.6g}", now), now)});
  }
  return table;
}

}  // namespace

void GateArgs::Declare(Args& args) {
  args.Value("--gate", "EXPR", &texts_,
             "exit code 1 unless it holds, as in 'sqnr>=30', 'accuracy.drop<=1' or, with --baseline, "
             "'sqnr>=baseline-0.5'; may be repeated");
  args.Value("--baseline", "FILE.json", &baseline_path_,
             "report of the last accepted run. Where no gate is given, none of its measures may be worse now");
}

Status GateArgs::Parse(const std::map<std::string, std::string>& unmeasured) {
  if (baseline_path_) {
    ASSIGN_OR_RETURN(baseline_, ReadMeasures(*baseline_path_));
  }
  for (const std::string& text : texts_) {
    ASSIGN_OR_RETURN(const Gate gate, ParseGate(text));
    const auto hint = unmeasured.find(gate.metric);
    if (hint != unmeasured.end()) return UsageError("gate '{}': {}", text, hint->second);
    ASSIGN_OR_RETURN(const Gate resolved, ResolveGate(gate, baseline_ ? &*baseline_ : nullptr));
    gates_.push_back(resolved);
  }
  return OkStatus();
}

Status GateArgs::Judge(Report& report) const {
  std::vector<Gate> gates = gates_;
  if (baseline_ && texts_.empty()) {
    for (const Gate& gate : BaselineGates(*baseline_, report.measures)) {
      ASSIGN_OR_RETURN(const Gate resolved, ResolveGate(gate, &*baseline_));
      gates.push_back(resolved);
    }
  }
  if (baseline_) {
    ReportTable table = AgainstBaseline(*baseline_, report.measures);
    const std::string same = "every measure is that of the accepted report";
    ReportSection section{"Against " + *baseline_path_, {}, true};
    if (table.rows.empty()) {
      section.blocks.emplace_back(same);
    } else {
      section.blocks.emplace_back(std::move(table));
    }
    report.sections.push_back(std::move(section));
  }
  ASSIGN_OR_RETURN(report.gates, JudgeGates(gates, report.measures));
  return OkStatus();
}

Status GateArgs::Verdict(const Report& report) { return CheckVerdicts(report.gates); }

}  // namespace quant
