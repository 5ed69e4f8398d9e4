// Constants that hold the same are one.
//
//   a = [1, 2]   b = [1, 2]   Op(x, a)   Op(y, b)        =>        Op(x, a)   Op(y, a)
//
// Same type and dims, and the same payload or, up to 4096 bytes, the same bytes; NaN equals NaN, -0 does not equal 0.
// The one that stays lies in the region of the other or in one around it. Untouched are constants that callers may
// override, outputs of regions, and what a quantizing or dequantizing operator reads, as a runtime fuses those only
// with scales of their own. Large weights that are merely equal stay two: rewrites change only a weight of one reader.
#include <algorithm>
#include <cstring>
#include <map>
#include <string>
#include <tuple>

#include "passes/match.h"
#include "passes/pass.h"

namespace quant {
namespace {

constexpr int64_t kMaxCompared = 4096;

bool IsQuantizing(const Node& node) {
  return node.op_type.find("Quantize") != std::string::npos || node.op_type.find("Dequantize") != std::string::npos ||
         node.op_type.rfind("QLinear", 0) == 0 || node.op_type.find("NBits") != std::string::npos;
}

class Merger {
 public:
  explicit Merger(Graph& graph) : graph_(graph) {}

  int Run() {
    VisitRegion(kMainRegion);
    return changes_;
  }

 private:
  // Constants seen so far in this region and those around it.
  using Key = std::tuple<DType, Dims, std::string>;

  // Outer regions first, and of one region what is defined first.
  void VisitRegion(RegionId region) {
    std::vector<Key> added;
    for (ValueId v : std::vector<ValueId>(graph_.region(region).initializers)) Visit(v, added);
    for (NodeId n : std::vector<NodeId>(graph_.region(region).nodes)) {
      if (graph_.node(n).op_type == "Constant" && !graph_.node(n).outputs.empty())
        Visit(graph_.node(n).outputs[0], added);
      for (RegionId body : BodiesOf(graph_.node(n))) VisitRegion(body);
    }
    for (const Key& key : added) seen_[key].pop_back();
  }

  void Visit(ValueId v, std::vector<Key>& added) {
    if (ConstantOf(graph_, v) == nullptr || !MayBeShared(v)) return;
    const Tensor& tensor = *graph_.value(v).constant;
    const Key key = {tensor.dtype(), tensor.dims(), BytesOf(tensor)};
    std::vector<ValueId>& same = seen_[key];
    const bool small = !std::get<2>(key).empty() || tensor.size() == 0;
    for (ValueId other : same) {
      if (!small && !graph_.value(other).constant->SharesPayloadWith(tensor)) continue;
      if (IsRegionOutput(graph_, v)) return;
      graph_.ReplaceUses(v, other);
      ++changes_;
      return;
    }
    same.push_back(v);
    added.push_back(key);
  }

  bool MayBeShared(ValueId v) const {
    const auto& uses = graph_.value(v).uses;
    return !uses.empty() && std::none_of(uses.begin(), uses.end(), [&](const Use& use) {
      return use.node != kNoNode && IsQuantizing(graph_.node(use.node));
    });
  }

  // Empty for what is too large or made on request.
  static std::string BytesOf(const Tensor& tensor) {
    if (tensor.byte_size() > kMaxCompared || tensor.deferred() != nullptr || tensor.strings() != nullptr) return {};
    const auto owned = tensor.Materialize();
    if (!owned.ok()) return {};
    const auto bytes = owned->bytes();
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }

  Graph& graph_;
  std::map<Key, std::vector<ValueId>> seen_;
  int changes_ = 0;
};

StatusOr<int> Merge(const PassContext& /*context*/, Graph& graph) { return Merger(graph).Run(); }

}  // namespace

const Pass& MergeConstantsPass() {
  static const Pass pass = {
      .name = "merge-constants", .summary = "Small constants that hold the same are one", .run = Merge};
  return pass;
}

}  // namespace quant
