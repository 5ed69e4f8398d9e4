// Of nodes that compute the same from the same, one remains.
//
//   a = Relu(x)   b = Relu(x)   y = Add(a, b)        =>        a = Relu(x)   y = Add(a, a)
//
// Same operator, attributes, inputs (Add's and Mul's in either order) and number of outputs. The one that stays comes
// first, in the same region or in one around it. Untouched are operators that make random numbers, run bodies or are
// not known; those that quantize or dequantize, as a runtime fuses each with its one reader; constants, which
// merge-constants looks after; and nodes whose output must keep the name of a region's output.
#include <algorithm>
#include <cstring>
#include <map>
#include <string>

#include "libquant/ops/find_kernel.h"
#include "libquant/ops/random.h"
#include "passes/match.h"
#include "passes/pass.h"

namespace quant {
namespace {

constexpr int64_t kMaxTensorBytes = 1024;

bool IsKept(const PassContext& context, const Node& node) {
  if (IsOp(node, "Constant") || MayDrawRandomNumbers(node, context.opset(node.domain))) return true;
  const OpDef* op = FindKernel(node.domain, node.op_type, context.opset(node.domain));
  if (op == nullptr || RunsBodies(*op) || !BodiesOf(node).empty()) return true;
  if (std::holds_alternative<Quantizer>(op->role)) return true;
  return IsOp(node, "BatchNormalization") && node.attributes.Int("training_mode", 0) != 0;
}

// Appends a value so that different ones never read alike.
void Put(std::string& key, std::string_view text) { key += fmt::format("{}:{};", text.size(), text); }

template <typename T>
void PutBytes(std::string& key, const T* data, size_t count) {
  Put(key, {reinterpret_cast<const char*>(data), count * sizeof(T)});
}

struct PutValue {
  std::string& key;
  bool operator()(int64_t v) const { return PutBytes(key, &v, 1), true; }
  bool operator()(float v) const { return PutBytes(key, &v, 1), true; }
  bool operator()(const std::string& v) const { return Put(key, v), true; }
  bool operator()(const std::vector<int64_t>& v) const { return PutBytes(key, v.data(), v.size()), true; }
  bool operator()(const std::vector<float>& v) const { return PutBytes(key, v.data(), v.size()), true; }
  bool operator()(const std::vector<std::string>& v) const {
    Put(key, std::to_string(v.size()));
    for (const std::string& s : v) Put(key, s);
    return true;
  }
  bool operator()(const Tensor& v) const {
    if (v.byte_size() > kMaxTensorBytes || v.strings() != nullptr) return false;
    const auto owned = v.Materialize();
    if (!owned.ok()) return false;
    Put(key, Describe(v));
    PutBytes(key, owned->bytes().data(), owned->bytes().size());
    return true;
  }
  bool operator()(const auto& /*opaque, bodies, lists of tensors*/) const { return false; }
};

// Equal for nodes that compute the same; empty when that can't be said.
std::string KeyOf(const Node& node) {
  std::string key;
  Put(key, node.domain == "ai.onnx" ? "" : node.domain);
  Put(key, node.op_type);
  Put(key, std::to_string(node.outputs.size()));
  std::vector<ValueId> inputs = node.inputs;
  if ((IsOp(node, "Add") || IsOp(node, "Mul")) && !node.attributes.Has("axis")) {
    std::sort(inputs.begin(), inputs.end());
  }
  PutBytes(key, inputs.data(), inputs.size());
  std::vector<const Attribute*> attributes;
  for (const Attribute& a : node.attributes.list()) attributes.push_back(&a);
  std::sort(attributes.begin(), attributes.end(), [](const auto* a, const auto* b) { return a->name < b->name; });
  for (const Attribute* a : attributes) {
    Put(key, a->name);
    Put(key, a->ref_name);
    Put(key, std::to_string(a->value.index()));
    if (a->ref_name.empty() && !std::visit(PutValue{key}, a->value)) return {};
  }
  return key;
}

class Eliminator {
 public:
  Eliminator(const PassContext& context, Graph& graph) : context_(context), graph_(graph) {}

  StatusOr<int> Run() {
    RETURN_IF_ERROR(VisitRegion(kMainRegion));
    return changes_;
  }

 private:
  Status VisitRegion(RegionId region) {
    std::vector<std::string> added;
    for (NodeId n : std::vector<NodeId>(graph_.region(region).nodes)) {
      for (RegionId body : BodiesOf(graph_.node(n))) RETURN_IF_ERROR(VisitRegion(body));
      if (IsKept(context_, graph_.node(n))) continue;
      std::string key = KeyOf(graph_.node(n));
      if (key.empty()) continue;
      const auto [it, is_new] = seen_.emplace(key, n);
      if (is_new) {
        added.push_back(std::move(key));
      } else if (MayStandFor(it->second, n)) {
        RETURN_IF_ERROR(Replace(n, it->second));
      }
    }
    for (const std::string& key : added) seen_.erase(key);
    return OkStatus();
  }

  bool MayStandFor(NodeId first, NodeId second) const {
    const Node &a = graph_.node(first), &b = graph_.node(second);
    for (size_t i = 0; i < b.outputs.size(); ++i) {
      const ValueId from = b.outputs[i], to = a.outputs[i];
      if (from == kNoValue || graph_.value(from).uses.empty()) continue;
      if (to == kNoValue || !MayReplace(graph_, from, to)) return false;
      const DType x = graph_.value(from).dtype, y = graph_.value(to).dtype;
      if (x != y && x != DType::kUndefined && y != DType::kUndefined) return false;
    }
    return true;
  }

  Status Replace(NodeId second, NodeId first) {
    GraphEdit edit(second);
    const Node &a = graph_.node(first), &b = graph_.node(second);
    for (size_t i = 0; i < b.outputs.size(); ++i) {
      const ValueId from = b.outputs[i];
      if (from != kNoValue && !graph_.value(from).uses.empty()) edit.Replace(from, ValueRef::Of(a.outputs[i]));
    }
    edit.Remove(second);
    ++changes_;
    return edit.ApplyTo(graph_);
  }

  const PassContext& context_;
  Graph& graph_;
  std::map<std::string, NodeId> seen_;
  int changes_ = 0;
};

StatusOr<int> Eliminate(const PassContext& context, Graph& graph) { return Eliminator(context, graph).Run(); }

}  // namespace

const Pass& EliminateCommonSubexpressionsPass() {
  static const Pass pass = {.name = "eliminate-common-subexpressions",
                            .summary = "Of nodes that compute the same from the same, one remains",
                            .run = Eliminate};
  return pass;
}

}  // namespace quant
