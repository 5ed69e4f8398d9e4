// Constants that hold the same are one.
//
//   a = [1, 2]   b = [1, 2]   Op(x, a)   Op(y, b)        =>        Op(x, a)   Op(y, a)
//
// Same type, dims and bytes; NaN equals NaN, -0 does not equal 0. The one that stays lies in the region of the other or
// in one around it; of two above 1024 bytes in bodies beside each other one moves to the region around both. Untouched
// are constants that callers may override, outputs of regions, what is made on request, and what a quantizing or
// dequantizing operator reads, as a runtime fuses those only with scales of their own.
//
// Large weights are compared piece by piece, and only when they begin alike. Rewrites change only a weight of one
// reader: they should have run before.
#include <algorithm>
#include <map>
#include <span>
#include <string>
#include <tuple>
#include <unordered_map>

#include "passes/match.h"
#include "passes/pass.h"

namespace quant {
namespace {

constexpr int64_t kBeginning = 4096;          // bytes that are looked at first
constexpr int64_t kPiece = int64_t{1} << 20;  // bytes compared at a time
constexpr int64_t kWorthMoving = 1024;        // bytes

bool IsQuantizing(const Node& node) {
  return node.op_type.find("Quantize") != std::string::npos || node.op_type.find("Dequantize") != std::string::npos ||
         node.op_type.rfind("QLinear", 0) == 0 || node.op_type.find("NBits") != std::string::npos;
}

// Up to `size` bytes from `offset`; empty when they can't be read.
std::string BytesAt(const Tensor& tensor, int64_t offset, int64_t size) {
  std::string out(static_cast<size_t>(std::min(size, tensor.byte_size() - offset)), '\0');
  const Status read = tensor.ReadBytes(offset, std::as_writable_bytes(std::span(out)));
  return read.ok() ? out : std::string();
}

// Of two that begin alike.
bool HoldTheSame(const Tensor& a, const Tensor& b) {
  if (a.SharesPayloadWith(b)) return true;
  for (int64_t at = kBeginning; at < a.byte_size(); at += kPiece) {
    const std::string piece = BytesAt(a, at, kPiece);
    if (piece.empty() || piece != BytesAt(b, at, kPiece)) return false;
  }
  return true;
}

class Merger {
 public:
  explicit Merger(Graph& graph) : graph_(graph) {
    for (ValueId v = 0; v < graph.value_count(); ++v) {
      if (!graph.value(v).removed) ++names_[graph.value(v).name];
    }
  }

  int Run() {
    VisitRegion(kMainRegion);
    return changes_;
  }

 private:
  // Outer regions first, and of one region what is defined first.
  void VisitRegion(RegionId region) {
    for (ValueId v : std::vector<ValueId>(graph_.region(region).initializers)) Visit(v);
    for (NodeId n : std::vector<NodeId>(graph_.region(region).nodes)) {
      if (IsOp(graph_.node(n), "Constant") && OutputOf(graph_.node(n), 0) != kNoValue) Visit(graph_.node(n).outputs[0]);
      for (RegionId body : BodiesOf(graph_.node(n))) VisitRegion(body);
    }
  }

  void Visit(ValueId v) {
    if (ConstantOf(graph_, v) == nullptr || !MayBeShared(v)) return;
    const Tensor& tensor = *graph_.value(v).constant;
    if (tensor.deferred() != nullptr || tensor.strings() != nullptr) return;
    const std::string beginning = BytesAt(tensor, 0, kBeginning);
    if (beginning.empty() && tensor.byte_size() > 0) return;
    std::vector<ValueId>& same = seen_[{tensor.dtype(), tensor.dims(), beginning}];
    for (ValueId other : same) {
      if (!HoldTheSame(*graph_.value(other).constant, tensor) || !MakeVisible(other, v)) continue;
      if (IsRegionOutput(graph_, v)) return;
      graph_.ReplaceUses(v, other);
      ++changes_;
      return;
    }
    same.push_back(v);
  }

  bool MayBeShared(ValueId v) const {
    const auto& uses = graph_.value(v).uses;
    return !uses.empty() && std::none_of(uses.begin(), uses.end(), [&](const Use& use) {
      return use.node != kNoNode && IsQuantizing(graph_.node(use.node));
    });
  }

  bool IsWithin(RegionId region, RegionId outer) const {
    while (region != outer && region > kMainRegion) region = graph_.region(region).parent;
    return region == outer;
  }

  // Readers of `other` may be where those of `v` are, after a move of a large one if need be.
  bool MakeVisible(ValueId other, ValueId v) {
    Value& value = graph_.value(other);
    RegionId around = value.region;
    while (!IsWithin(graph_.value(v).region, around)) around = graph_.region(around).parent;
    if (around == value.region) return true;
    const bool worth = value.constant->byte_size() > kWorthMoving;
    if (!worth || !value.is_initializer || graph_.is_function) return false;
    if (IsRegionOutput(graph_, v) || IsRegionOutput(graph_, other)) return false;
    std::erase(graph_.region(value.region).initializers, other);
    graph_.region(around).initializers.push_back(other);
    value.region = around;
    if (names_[value.name] > 1) {
      --names_[value.name];
      value.name = graph_.FreshName(value.name);
    }
    return true;
  }

  Graph& graph_;
  std::map<std::tuple<DType, Dims, std::string>, std::vector<ValueId>> seen_;
  std::unordered_map<std::string, int> names_;  // how many values have each
  int changes_ = 0;
};

StatusOr<int> Merge(const PassContext& /*context*/, Graph& graph) { return Merger(graph).Run(); }

}  // namespace

const Pass& MergeConstantsPass() {
  static const Pass pass = {.name = "merge-constants", .summary = "Constants that hold the same are one", .run = Merge};
  return pass;
}

}  // namespace quant
