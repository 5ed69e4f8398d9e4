#include <algorithm>
#include <array>
#include <set>

#include "libquant/base/nearest_hint.h"
#include "libquant/lint/lint.h"
#include "libquant/model/read.h"
#include "libquant/report/table.h"
#include "tools/argument_groups.h"
#include "tools/progress.h"
#include "tools/tool.h"
#include "tools/units.h"

namespace quant {
namespace {

// How many places the text names; JSON has them all.
constexpr size_t kShown = 4;
constexpr size_t kPlaceWidth = 100;
constexpr size_t kIndent = 10;

std::string Plural(size_t n, std::string_view what) { return fmt::format("{} {}{}", n, what, n == 1 ? "" : "s"); }

// "  where:  a; b; c", lines after the first indented.
std::string Line(const std::string& label, const std::string& text) {
  return fmt::format("  {:<8}{}\n", label, Wrapped(text, kIndent));
}

std::string FindingText(const Finding& f) {
  std::string out = fmt::format("{:<8}  {}\n", NameOf(f.severity), KindOf(f.finding).id);
  out += Line("what:", f.what);
  if (!f.where.empty()) {
    std::string places;
    for (size_t i = 0; i < std::min(kShown, f.where.size()); ++i) {
      places += (i == 0 ? "" : "; ") + Shortened(f.where[i], kPlaceWidth);
    }
    if (f.where.size() > kShown) places += fmt::format("; and {} more", f.where.size() - kShown);
    out += Line("where:", places);
  }
  // A command stays on its line, to be copied.
  const bool command = f.next.find('`') != std::string::npos;
  return out + (command ? fmt::format("  {:<8}{}\n", "next:", f.next) : Line("next:", f.next)) + "\n";
}

Json FindingJson(const Finding& f) {
  Json out = Json::Object();
  out.Set("id", KindOf(f.finding).id).Set("severity", NameOf(f.severity)).Set("what", f.what);
  return out.Set("where", f.where).Set("next", f.next);
}

class CheckTool : public Tool {
 public:
  ToolInfo Info() const override {
    return {
        "check",
        "is a model sound, and what in it would trouble a runtime or a device",
        "Looks a model over: ONNX's checker and shape inference, opsets, open dimensions, operators that the target "
        "does not run, and every weight's numbers (NaN, zeros, range, what float16 would do to them, copies). Each "
        "finding says where it is and what to do next. Errors are what a runtime is likely to refuse or to get "
        "wrong, warnings what costs accuracy or speed, notes what is good to know.\n"
        "Targets are lists from the runtimes' own documentation; the files in configs/targets name the versions.",
        {"nibble check model.onnx", "nibble check model.onnx --target qnn",
         "# in CI: exit code 1 for any error or warning but one", "nibble check model.onnx --strict --ignore opset.old",
         "nibble check --list"}};
  }

  void Declare(Args& args) override {
    args.OptionalPositional("MODEL", &path_, "the ONNX file");
    args.Group("What to look for");
    args.Choice("--target", TargetNames(), &target_, "the runtime the model is for; default portable");
    args.Value("--ignore", "ID", &ignored_, "leave out findings of this id; may be given several times");
    args.Flag("--list", &list_, "list the ids of all findings, and what they mean");
    args.Flag("--strict", &strict_, "exit with 1 when there are errors or warnings");
    common_.Declare(args);
  }

  Status Run(const Args& args) override {
    RETURN_IF_ERROR(common_.Apply());
    if (list_) return List(args);
    if (path_.empty()) return UsageError("MODEL is missing: the ONNX file (or --list)");
    RETURN_IF_ERROR(CheckIgnored());
    ASSIGN_OR_RETURN(Model model, ReadModel(path_));
    if (common_.report()) RETURN_IF_ERROR(CheckOutputs({*common_.report()}, {&model}, std::nullopt));
    LintOptions options;
    ASSIGN_OR_RETURN(options.target, FindTarget(target_));
    options.file = path_;
    std::vector<Finding> findings;
    {
      Progress progress("reading weights", common_.quiet());
      options.progress = [&progress](int64_t done, int64_t total) { progress.Update(done, total); };
      ASSIGN_OR_RETURN(findings, Lint(model, options));
    }
    const size_t all = findings.size();
    findings.erase(std::remove_if(findings.begin(), findings.end(), [this](const Finding& f) { return Ignored(f); }),
                   findings.end());
    RETURN_IF_ERROR(common_.Emit(Text(model, options.target, findings, all - findings.size()),
                                 ToJson(model, findings, all - findings.size())));
    const std::array<size_t, 3> counts = CountsOf(findings);
    if (!strict_ || counts[0] + counts[1] == 0) return OkStatus();
    return GateError("{}: {}, {}", path_, Plural(counts[0], "error"), Plural(counts[1], "warning"));
  }

 private:
  Status CheckIgnored() const {
    for (const std::string& id : ignored_) {
      if (FindFindingKind(id) != nullptr) continue;
      std::vector<std::string> ids;
      for (const FindingKind& kind : FindingKinds()) ids.emplace_back(kind.id);
      const std::string hint = NearestHint(id, ids);
      return UsageError("--ignore {}: there is no such finding{}", id, hint.empty() ? "; --list names them" : hint);
    }
    return OkStatus();
  }

  bool Ignored(const Finding& f) const {
    return std::find(ignored_.begin(), ignored_.end(), KindOf(f.finding).id) != ignored_.end();
  }

  static std::array<size_t, 3> CountsOf(const std::vector<Finding>& findings) {
    std::array<size_t, 3> out = {};
    for (const Finding& f : findings) ++out[static_cast<size_t>(f.severity)];
    return out;
  }

  std::string Text(const Model& model, const Target& target, const std::vector<Finding>& findings,
                   size_t ignored) const {
    std::string opsets;
    for (const OpsetImport& o : model.opsets) {
      opsets += fmt::format("{}{} {}", opsets.empty() ? "" : ", ", o.domain.empty() ? "ai.onnx" : o.domain, o.version);
    }
    std::string out =
        fmt::format("model     {}, {}; IR {}, opset {}\n", path_, Bytes(SourceBytes(model)), model.ir_version, opsets);
    out += fmt::format("target    {}: {}\n\n", target.name, target.about);
    for (const Finding& f : findings) out += FindingText(f);
    const std::array<size_t, 3> counts = CountsOf(findings);
    out +=
        fmt::format("{}, {}, {}", Plural(counts[0], "error"), Plural(counts[1], "warning"), Plural(counts[2], "note"));
    if (ignored > 0) out += fmt::format("; {} ignored", ignored);
    return out + "\n";
  }

  Json ToJson(const Model& model, const std::vector<Finding>& findings, size_t ignored) const {
    const std::array<size_t, 3> counts = CountsOf(findings);
    Json list = Json::Array();
    for (const Finding& f : findings) list.Append(FindingJson(f));
    Json out = Json::Object();
    out.Set("schema_version", 1).Set("model", path_).Set("bytes", SourceBytes(model)).Set("target", target_);
    out.Set("errors", static_cast<int64_t>(counts[0])).Set("warnings", static_cast<int64_t>(counts[1]));
    out.Set("notes", static_cast<int64_t>(counts[2])).Set("ignored", static_cast<int64_t>(ignored));
    return out.Set("findings", list).Set("peak_rss_bytes", PeakResidentBytes());
  }

  Status List(const Args& args) const {
    for (const char* name : {"--target", "--ignore", "--strict"}) {
      if (args.Given(name)) return UsageError("{} has no effect with --list", name);
    }
    if (!path_.empty()) return UsageError("MODEL has no effect with --list");
    Table table({"id", "severity", "what it means"});
    Json kinds = Json::Array();
    for (const FindingKind& kind : FindingKinds()) {
      table.AddRow({std::string(kind.id), std::string(NameOf(kind.severity)), std::string(kind.about)});
      kinds.Append(Json::Object()
                       .Set("id", kind.id)
                       .Set("severity", NameOf(kind.severity))
                       .Set("about", kind.about)
                       .Set("next", kind.next));
    }
    return common_.Emit(table.Render(), Json::Object().Set("schema_version", 1).Set("findings", kinds));
  }

  std::string path_;
  std::string target_ = "portable";
  std::vector<std::string> ignored_;
  bool list_ = false;
  bool strict_ = false;
  CommonArgs common_;
};

}  // namespace

std::unique_ptr<Tool> MakeCheck() { return std::make_unique<CheckTool>(); }

}  // namespace quant
