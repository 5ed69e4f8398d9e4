#include "tests/fuzz/change_model.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <optional>
#include <set>

#include "libquant/base/hash_text.h"
#include "libquant/base/parallel.h"
#include "libquant/exec/session.h"
#include "libquant/lint/lint.h"
#include "libquant/model/check.h"
#include "libquant/model/expand_operators.h"
#include "libquant/model/load.h"
#include "libquant/model/opset.h"
#include "libquant/model/read.h"
#include "libquant/ops/random.h"
#include "passes/convert/decompose.h"
#include "passes/convert/to_half.h"
#include "passes/driver.h"
#include "passes/pipeline.h"
#include "passes/shape/bind_dims.h"
#include "tests/fuzz/answers.h"
#include "tests/fuzz/feeds.h"
#include "tests/fuzz/load_and_run.h"

namespace quant {
namespace {

Status VerifyAll(const Model& model) {
  RETURN_IF_ERROR(Verify(model.graph));
  for (const Function& f : model.functions) RETURN_IF_ERROR(Verify(f.body));
  return OkStatus();
}

Status RunPipeline(Model& model, const std::string& pipeline, const std::string& target) {
  ASSIGN_OR_RETURN(const std::vector<const Pass*> passes, ReadPipeline(pipeline));
  DriverOptions options;
  options.explain = true;
  ASSIGN_OR_RETURN(options.pass.target, FindTarget(target));
  return RunPasses(model, passes, options).status();
}

// The shapes of inputs as they were fed. What contradicts the model is its own fault here.
Status FixShapes(Model& model, const NamedTensors& feeds) {
  DimRequest request;
  for (const auto& [name, tensor] : feeds) {
    if (tensor.dtype() == DType::kUndefined || tensor.list() != nullptr) continue;
    DimRequest::Input& input = request.inputs.emplace_back();
    input.name = name;
    input.dims.assign(tensor.dims().begin(), tensor.dims().end());
  }
  RaiseIrVersion(model, 4);
  const StatusOr<BoundDims> bound = BindDims(model, request);
  if (!bound.ok()) return ExitCode(bound.status()) == 2 ? DataError("{}", Message(bound.status())) : bound.status();
  RETURN_IF_ERROR(RunPipeline(model, "fixshape", "portable"));
  KeepDeclared(model, *bound);
  return OkStatus();
}

Status Move(Model& model, int64_t opset) {
  const int64_t from = model.OpsetOf("");
  if (from == opset || from == 0) return Unsupported("the opset is {}", from);
  RETURN_IF_ERROR(opset > from ? RaiseOpset(model, opset) : LowerOpset(model, opset));
  RETURN_IF_ERROR(VerifyAll(model));
  return InferShapes(model);
}

// Whether a rule of ours decomposes it; else ONNX's function body does, which is not held to answers here: bodies ask
// more of ranks and attributes than kernels do.
bool HasRule(const std::string& op_type) {
  if (op_type == "Attention") return false;  // the rule is com.microsoft's
  const auto& passes = AllPasses();
  return std::any_of(passes.begin(), passes.end(), [&](const Pass* pass) {
    return pass->name.substr(0, 10) == "decompose-" &&
           std::find(pass->roots.begin(), pass->roots.end(), op_type) != pass->roots.end();
  });
}

// Every operator that can be made others.
Status Decompose(Model& model) {
  std::set<std::string> operators;
  for (NodeId n : model.graph.AllNodes()) operators.insert(model.graph.node(n).op_type);
  Status last = Unsupported("no operators");
  for (const std::string& op_type : operators) {
    Model attempt = model;
    const Status status = DecomposeOperators(attempt, {{op_type}, std::nullopt}).status();
    if (status.ok()) {
      RETURN_IF_ERROR(VerifyAll(attempt));
      if (HasRule(op_type)) model = std::move(attempt);
      last = status;
    } else if (ExitCode(status) != 4 && ExitCode(status) != 2) {
      return status;
    } else if (!last.ok()) {
      last = Unsupported("{}", Message(status));
    }
  }
  return last;
}

Status MakeHalf(Model& model, DType type) {
  HalfOptions options;
  options.type = type;
  ASSIGN_OR_RETURN(HalfReport report, ConvertToHalf(model, options));
  return CountLosses(report);
}

using Change = std::function<Status(Model&)>;

class Changes {
 public:
  Changes(const Model& model, uint64_t seed) : model_(model) {
    const auto feeds = SeededFeeds(RequiredInputs(model), seed, /*sound=*/true);
    if (!feeds.ok()) return;
    feeds_ = *feeds;
    before_ = FuzzAnswers::Of(model, feeds_);
  }

  void Try(Stage stage, const Change& change, Sameness wanted) {
    Model changed = model_;
    Status status = change(changed);
    if (status.ok()) status = VerifyAll(changed);
    if (status.ok()) status = InferShapes(changed);
    if (status.ok() && before_) status = before_->Check(changed, wanted);
    endings_.push_back({stage, std::move(status)});
  }

  const NamedTensors& feeds() const { return feeds_; }
  Endings Take() { return std::move(endings_); }

 private:
  const Model& model_;
  NamedTensors feeds_;
  std::optional<FuzzAnswers> before_;
  Endings endings_;
};

}  // namespace

Endings ChangeModel(const std::string& path, const std::string& bytes) {
  const uint64_t seed = HashText(bytes);
  SetThreads(seed % 2 == 0 ? 1 : 2);
  StatusOr<Model> read = ReadModel(path);
  if (!read.ok()) return {{Stage::kLoad, read.status()}};
  LintOptions lint;
  lint.target = *FindTarget(seed % 3 == 0 ? "qnn" : "portable");
  Endings out = {{Stage::kCheck, Lint(*read, lint).status()}};
  const StatusOr<Model> model = LoadModel(path);
  out.push_back({Stage::kLoad, model.status()});
  if (!model.ok()) return out;
  Changes changes(*model, seed);
  changes.Try(
      Stage::kFuse, [](Model& m) { return RunPipeline(m, "default", "portable"); }, Sameness::kSame);
  changes.Try(
      Stage::kFuseForRuntime, [](Model& m) { return RunPipeline(m, "onnxruntime", "onnxruntime-cpu"); },
      Sameness::kSame);
  changes.Try(
      Stage::kFixShape, [&](Model& m) { return FixShapes(m, changes.feeds()); }, Sameness::kSame);
  changes.Try(
      Stage::kRaise, [](Model& m) { return Move(m, kHighestOpset); }, Sameness::kSame);
  changes.Try(
      Stage::kLower, [](Model& m) { return Move(m, kLowestOpset); }, Sameness::kSame);
  changes.Try(Stage::kDecompose, Decompose, Sameness::kWhereDefined);
  changes.Try(
      Stage::kHalf, [](Model& m) { return MakeHalf(m, DType::kFloat16); }, Sameness::kRuns);
  changes.Try(
      Stage::kBfloat16, [](Model& m) { return MakeHalf(m, DType::kBfloat16); }, Sameness::kRuns);
  for (Ending& e : changes.Take()) out.push_back(std::move(e));
  return out;
}

}  // namespace quant
