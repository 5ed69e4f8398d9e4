#include "libquant/lint/rules.h"
#include "libquant/model/check.h"

namespace quant {
namespace {

// Both are known, and no tensor has both.
bool Contradict(const std::optional<Shape>& a, const std::optional<Shape>& b) {
  if (!a || !b) return false;
  if (a->size() != b->size()) return true;
  for (size_t i = 0; i < a->size(); ++i) {
    if ((*a)[i].known() && (*b)[i].known() && (*a)[i].value != (*b)[i].value) return true;
  }
  return false;
}

std::string TypeText(const Value& value) {
  return fmt::format("{} {}", NameOf(value.dtype), value.shape ? ToString(*value.shape) : "of unknown rank");
}

// Inference takes what is declared for true: it is asked again without.
void LintDeclaredOutputs(const Model& model, std::vector<Finding>& out) {
  Model undeclared = model;
  for (ValueId v : model.graph.main().outputs) {
    Value& value = undeclared.graph.value(v);
    if (value.producer == kNoNode) continue;
    value.dtype = DType::kUndefined;
    value.shape.reset();
  }
  if (!InferShapes(undeclared).ok()) return;
  std::vector<std::string> where;
  for (ValueId v : model.graph.main().outputs) {
    const Value& declared = model.graph.value(v);
    const Value& found = undeclared.graph.value(v);
    const bool types = declared.dtype != DType::kUndefined && found.dtype != DType::kUndefined;
    if (!Contradict(declared.shape, found.shape) && !(types && declared.dtype != found.dtype)) continue;
    where.push_back(fmt::format("{}: {} declared, {} found", declared.name, TypeText(declared), TypeText(found)));
  }
  if (where.empty()) return;
  out.push_back(
      Finding::Of(FindingId::kModelDeclaredOutput, Count(where.size(), "output") + " declared wrongly", where));
}

}  // namespace

void LintSoundness(Model& model, std::vector<Finding>& out) {
  const Status checked = CheckModel(model);
  if (!checked.ok()) out.push_back(Finding::Of(FindingId::kModelChecker, Message(checked)));
  LintDeclaredOutputs(model, out);
  Status inferred = InferShapes(model);
  if (inferred.ok()) inferred = CheckShapes(model);
  if (!inferred.ok()) out.push_back(Finding::Of(FindingId::kModelInference, Message(inferred)));
  const Status verified = Verify(model.graph);
  if (!verified.ok()) out.push_back(Finding::Of(FindingId::kModelGraph, Message(verified)));

  std::vector<std::string> unknown;
  for (ValueId v = 0; v < model.graph.value_count(); ++v) {
    const Value& value = model.graph.value(v);
    if (value.removed || value.constant || value.producer == kNoNode || value.uses.empty()) continue;
    // Lists and optionals have no element type of their own.
    if (value.dtype != DType::kUndefined && !value.shape) unknown.push_back(value.name);
  }
  if (unknown.empty()) return;
  out.push_back(Finding::Of(FindingId::kModelUnknownShape,
                            Count(unknown.size(), "value") + " of unknown rank after shape inference", unknown));
}

}  // namespace quant
