#include "libquant/lint/rules.h"
#include "libquant/model/check.h"

namespace quant {

void LintSoundness(Model& model, std::vector<Finding>& out) {
  const Status checked = CheckModel(model);
  if (!checked.ok()) out.push_back(Finding::Of(FindingId::kModelChecker, Message(checked)));
  const Status inferred = InferShapes(model);
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
