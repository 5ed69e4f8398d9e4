// Models for tests of Lint, and its findings by id.
#pragma once

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "libquant/lint/lint.h"
#include "libquant/model/text.h"
#include "tests/catch.h"

namespace quant {

// A model of opset 17 around the given graph: "g (float[2,4] x) => (float[2,4] y) { y = Relu(x) }".
inline Model ModelOf(const std::string& graph, const std::string& opsets = "\"\": 17", int ir = 8) {
  auto model = ParseModelText(fmt::format("<ir_version: {}, opset_import: [{}]>\n{}", ir, opsets, graph));
  INFO(Message(model.status()));
  REQUIRE(model.ok());
  return std::move(*model);
}

inline ValueId ValueNamed(const Graph& graph, const std::string& name) {
  for (ValueId v = 0; v < graph.value_count(); ++v) {
    if (!graph.value(v).removed && graph.value(v).name == name) return v;
  }
  FAIL("no value " << name);
  return kNoValue;
}

inline void SetConstant(Model& model, const std::string& name, Tensor tensor) {
  Value& value = model.graph.value(ValueNamed(model.graph, name));
  value.dtype = tensor.dtype();
  value.shape = ShapeOf(tensor.dims());
  value.constant = std::move(tensor);
}

inline std::vector<Finding> LintFor(Model model, const std::string& target = "portable") {
  LintOptions options;
  const auto found = FindTarget(target);
  REQUIRE(found.ok());
  options.target = *found;
  auto findings = Lint(model, options);
  INFO(Message(findings.status()));
  REQUIRE(findings.ok());
  return std::move(*findings);
}

// All findings of an id.
inline std::vector<Finding> Found(const Model& model, const std::string& id, const std::string& target = "portable") {
  REQUIRE(FindFindingKind(id) != nullptr);
  std::vector<Finding> out;
  for (Finding& f : LintFor(model, target)) {
    if (KindOf(f.finding).id == id) out.push_back(std::move(f));
  }
  return out;
}

}  // namespace quant
