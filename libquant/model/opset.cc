#include "libquant/model/opset.h"

#include <onnx/defs/schema.h>

#include <algorithm>
#include <map>
#include <set>

#include "libquant/model/onnx_version.h"
#include "libquant/model/opset_downgrades.h"
#include "libquant/model/opset_fit.h"
#include "libquant/model/opset_rewrites.h"
#include "libquant/model/signature.h"

namespace quant {
namespace {

using Mend = Status (OpsetRewrite::*)();

// (operator, version) -> what to do on the way up; null for nothing.
const std::map<std::pair<std::string, int64_t>, Mend>& Table() {
  static const std::map<std::pair<std::string, int64_t>, Mend> table = {
#define COMPATIBLE(op, version) {{#op, version}, nullptr},
#define REWRITE(op, version, function) {{#op, version}, &OpsetRewrite::function},
#define DOWN(op, version, function)
#define NO_WAY_DOWN(op, version, why)
#include "libquant/model/opset.def"
#undef COMPATIBLE
#undef REWRITE
#undef DOWN
#undef NO_WAY_DOWN
  };
  return table;
}

// The versions at which each operator of the default domain was defined anew.
const std::map<std::string, std::set<int64_t>>& Versions() {
  static const auto versions = [] {
    std::map<std::string, std::set<int64_t>> out;
    for (const onnx::OpSchema& schema : onnx::OpSchemaRegistry::get_all_schemas_with_history()) {
      if (schema.domain() == onnx::ONNX_DOMAIN) out[schema.Name()].insert(schema.SinceVersion());
    }
    return out;
  }();
  return versions;
}

bool IsDefaultDomain(const Node& node) { return node.domain.empty() || node.domain == "ai.onnx"; }

Status RaiseNode(Graph& graph, NodeId id, int64_t version) {
  const std::string op_type = graph.node(id).op_type;
  const auto versions = Versions().find(op_type);
  if (versions == Versions().end())
    return Unsupported("operator {} is unknown to ONNX; opset {} cannot be reached", op_type, version);
  if (!versions->second.contains(version) || *versions->second.begin() == version) return OkStatus();
  const auto row = Table().find({op_type, version});
  if (row == Table().end()) {
    return Unsupported("operator {} cannot be converted from opset {} to {}", op_type, version - 1, version);
  }
  if (row->second == nullptr) return OkStatus();
  OpsetRewrite rewrite(graph, id);
  return WithContext((rewrite.*row->second)(), fmt::format("node {}, to opset {}", graph.NodeLabel(id), version));
}

Status RaiseGraph(Graph& graph, int64_t from, int64_t target) {
  for (int64_t version = from + 1; version <= target; ++version) {
    for (NodeId id : graph.AllNodes()) {
      if (IsDefaultDomain(graph.node(id))) RETURN_IF_ERROR(RaiseNode(graph, id, version));
    }
  }
  return OkStatus();
}

// What to do on the way down from a version.
struct WayDown {
  Status (OpsetDowngrade::*mend)() = nullptr;
  std::string_view why_not;
};

const std::map<std::pair<std::string, int64_t>, WayDown>& DownTable() {
  static const auto table = [] {
    std::map<std::pair<std::string, int64_t>, WayDown> rows;
#define COMPATIBLE(op, version) rows.insert({{#op, version}, {}});
#define REWRITE(op, version, function)
#define DOWN(op, version, function) rows[{#op, version}] = {&OpsetDowngrade::function, ""};
#define NO_WAY_DOWN(op, version, why) rows[{#op, version}] = {nullptr, why};
#include "libquant/model/opset.def"
#undef COMPATIBLE
#undef REWRITE
#undef DOWN
#undef NO_WAY_DOWN
    return rows;
  }();
  return table;
}

// From the definition of `version` to the one before.
Status LowerNode(Graph& graph, NodeId id, int64_t version) {
  const std::string op_type = graph.node(id).op_type;
  const auto versions = Versions().find(op_type);
  if (versions == Versions().end()) {
    return Unsupported("operator {} is unknown to ONNX; opset {} cannot be reached", op_type, version - 1);
  }
  if (!versions->second.contains(version)) return OkStatus();
  if (*versions->second.begin() == version) {
    return Unsupported("operator {} came with opset {}; --decompose {} may make older operators of it", op_type,
                       version, op_type);
  }
  const auto row = DownTable().find({op_type, version});
  if (row == DownTable().end()) return Unsupported("operator {} has no row for the way down", op_type);
  if (!row->second.why_not.empty()) return Unsupported("{}: {}", op_type, row->second.why_not);
  if (row->second.mend != nullptr) {
    OpsetDowngrade downgrade(graph, id);
    RETURN_IF_ERROR((downgrade.*row->second.mend)());
  }
  return FitOlderDefinition(graph, id, version, version - 1);
}

Status LowerGraph(Graph& graph, int64_t from, int64_t target) {
  for (int64_t version = from; version > target; --version) {
    for (NodeId id : graph.AllNodes()) {
      if (!IsDefaultDomain(graph.node(id))) continue;
      RETURN_IF_ERROR(WithContext(LowerNode(graph, id, version),
                                  fmt::format("node {}, to opset {}", graph.NodeLabel(id), version - 1)));
    }
  }
  graph.RemoveUnused();
  return OkStatus();
}

// What the types and functions of a model need.
int64_t NeededIrVersion(const Model& model) {
  int64_t needed = model.functions.empty() ? 3 : 8;
  const auto look = [&needed](const Graph& graph) {
    for (ValueId v = 0; v < graph.value_count(); ++v) {
      if (graph.value(v).removed) continue;
      needed = std::max<int64_t>(needed, InfoOf(DTypeOfValue(graph, v)).min_ir_version);
    }
  };
  look(model.graph);
  for (const Function& function : model.functions) {
    look(function.body);
    if (!function.overload.empty()) needed = std::max<int64_t>(needed, 10);
  }
  return needed;
}

}  // namespace

std::vector<std::string> StepsWithoutWayDown(int64_t from, int64_t to) {
  std::vector<std::string> out;
  for (const auto& [op_type, versions] : Versions()) {
    for (int64_t version : versions) {
      const bool changes = version != *versions.begin() && version <= from && version > to;
      if (changes && !DownTable().contains({op_type, version})) out.push_back(fmt::format("{} {}", op_type, version));
    }
  }
  return out;
}

std::vector<std::string> StepsWithoutRow(int64_t from, int64_t to) {
  std::vector<std::string> out;
  for (const auto& [op_type, versions] : Versions()) {
    for (int64_t version : versions) {
      const bool changes = version != *versions.begin() && version > from && version <= to;
      if (changes && !Table().contains({op_type, version})) out.push_back(fmt::format("{} {}", op_type, version));
    }
  }
  return out;
}

int64_t MinIrVersion(int64_t opset) {
  constexpr std::pair<int64_t, int64_t> kFirstOpsetOf[] = {{25, 13}, {24, 12}, {23, 11}, {21, 10}, {19, 9},
                                                           {15, 8},  {12, 7},  {11, 6},  {10, 5},  {9, 4}};
  for (const auto& [first, ir] : kFirstOpsetOf) {
    if (opset >= first) return ir;
  }
  return 3;
}

void RaiseIrVersion(Model& model, int64_t target) {
  if (model.ir_version >= target) return;
  if (model.ir_version < 4) {
    Graph& graph = model.graph;
    std::erase_if(graph.main().inputs, [&](ValueId v) { return graph.value(v).is_initializer; });
    for (ValueId v : graph.main().initializers) graph.value(v).is_input = false;
  }
  model.ir_version = target;
}

Status RaiseOpset(Model& model, int64_t target) {
  const int64_t from = model.OpsetOf("");
  if (from < 7 && from < target) return Unsupported("the model is of opset {}; conversion starts at 7", from);
  RETURN_IF_ERROR(RaiseGraph(model.graph, from, target));
  for (Function& function : model.functions) {
    for (auto& [domain, version] : function.opsets) {
      if (!domain.empty() && domain != "ai.onnx") continue;
      if (version >= target) continue;
      RETURN_IF_ERROR(WithContext(RaiseGraph(function.body, version, target), "function " + function.name));
      version = target;
    }
  }
  if (from >= target) return OkStatus();
  model.SetOpset("", target);
  RaiseIrVersion(model, MinIrVersion(target));
  return OkStatus();
}

Status LowerOpset(Model& model, int64_t target) {
  const int64_t from = model.OpsetOf("");
  if (target < kLowestOpset && from > target) {
    return Unsupported("opset {}: conversion goes down to {}", target, kLowestOpset);
  }
  RETURN_IF_ERROR(LowerGraph(model.graph, from, target));
  for (Function& function : model.functions) {
    for (auto& [domain, version] : function.opsets) {
      if ((!domain.empty() && domain != "ai.onnx") || version <= target) continue;
      RETURN_IF_ERROR(WithContext(LowerGraph(function.body, version, target), "function " + function.name));
      version = target;
    }
  }
  if (from <= target) return OkStatus();
  model.SetOpset("", target);
  model.ir_version = std::min(model.ir_version, std::max(MinIrVersion(target), NeededIrVersion(model)));
  return OkStatus();
}

}  // namespace quant
