// Of values that are surely the same sizes, the first serves all readers.
//
//   s = Shape(x)   d = Gather(s, 0)   t = Shape(Relu(x))   e = Gather(t, 0)        =>        d for e
//
// Equal are those of one element type and length whose every element is known to be the same number or polynomial over
// dimensions (shape_values.h), however it is computed. The one that stays comes first, in the same region or in one
// around it. Not in functions, whose shapes differ from call to call.
#include <string>
#include <unordered_map>

#include "passes/match.h"
#include "passes/pass.h"
#include "passes/shape/shape_values.h"

namespace quant {
namespace {

class Merger {
 public:
  Merger(const PassContext& context, Graph& graph) : graph_(graph), values_(graph, context.opset()) {}

  StatusOr<int> Run() {
    Visit(kMainRegion);
    for (const auto& [from, to] : replaced_) {
      GraphEdit edit(graph_.value(from).producer);
      edit.Replace(from, ValueRef::Of(to));
      RETURN_IF_ERROR(edit.ApplyTo(graph_));
    }
    return static_cast<int>(replaced_.size());
  }

 private:
  // The graph changes only after all is known: knowledge is good for one state of it.
  void Visit(RegionId region) {
    std::vector<std::string> added;
    for (NodeId n : graph_.region(region).nodes) {
      for (RegionId body : BodiesOf(graph_.node(n))) Visit(body);
      for (ValueId v : graph_.node(n).outputs) {
        std::string key = v == kNoValue || graph_.value(v).uses.empty() ? "" : KeyOf(v);
        if (key.empty()) continue;
        const auto [it, is_new] = seen_.emplace(key, v);
        if (is_new) {
          added.push_back(std::move(key));
        } else if (!IsRegionOutput(graph_, v)) {
          replaced_.emplace_back(v, it->second);
        }
      }
    }
    for (const std::string& key : added) seen_.erase(key);
  }

  // Empty when not every element is known, or all are numbers (fold-shapes makes those constants).
  std::string KeyOf(ValueId v) {
    const Value& value = graph_.value(v);
    if (value.constant || (value.dtype != DType::kInt64 && value.dtype != DType::kInt32)) return {};
    const ShapeValue* known = values_.Of(v);
    if (known == nullptr || known->elements.empty() || known->Numbers()) return {};
    std::string key = fmt::format("{}{}", NameOf(value.dtype), known->scalar ? " scalar" : "");
    for (const auto& element : known->elements) {
      if (!element) return {};
      key.append(" ").append(element->Key());
    }
    return key;
  }

  Graph& graph_;
  ShapeValues values_;
  std::unordered_map<std::string, ValueId> seen_;
  std::vector<std::pair<ValueId, ValueId>> replaced_;
};

StatusOr<int> Merge(const PassContext& context, Graph& graph) {
  if (graph.is_function) return 0;
  return Merger(context, graph).Run();
}

}  // namespace

const Pass& MergeEqualShapesPass() {
  static const Pass pass = {.name = "merge-equal-shapes",
                            .summary = "Of sizes that are surely equal, however computed, the first serves all readers",
                            .run = Merge};
  return pass;
}

}  // namespace quant
