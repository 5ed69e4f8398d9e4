#include "libquant/model/type_clashes.h"

#include <fmt/format.h>

#include <map>
#include <optional>
#include <utility>

#include "libquant/model/signature.h"

namespace quant {
namespace {

class Clashes {
 public:
  Clashes(const Graph& graph, std::map<std::string, int64_t> opsets) : graph_(graph), opsets_(std::move(opsets)) {}

  std::vector<TypeClash> Find() {
    for (NodeId n : graph_.AllNodes()) {
      const Node& node = graph_.node(n);
      if (!BodiesOf(node).empty()) {
        CheckBodies(n);
      } else if (const auto& signature = SignatureFor(node)) {
        CheckNode(n, *signature);
      }
    }
    return std::move(found_);
  }

 private:
  const std::optional<Signature>& SignatureFor(const Node& node) {
    const auto key = std::make_pair(node.domain, node.op_type);
    const auto known = signatures_.find(key);
    if (known != signatures_.end()) return known->second;
    const auto opset = opsets_.find(node.domain == "ai.onnx" ? "" : node.domain);
    auto signature = opset == opsets_.end() ? std::nullopt : SignatureOf(node.domain, node.op_type, opset->second);
    return signatures_[key] = std::move(signature);
  }

  void Found(NodeId n, std::string what) { found_.push_back({graph_.NodeLabel(n), std::move(what)}); }

  void CheckNode(NodeId n, const Signature& signature) {
    const Node& node = graph_.node(n);
    std::map<std::string, std::pair<DType, ValueId>> bound;
    const auto check = [&](ValueId v, const FormalType* formal) {
      const DType dtype = DTypeOfValue(graph_, v);
      if (dtype == DType::kUndefined || formal == nullptr) return;
      if (!formal->tensors.empty() && !formal->Takes(dtype)) {
        Found(n, fmt::format("{} ({}) does not take {} for '{}'", graph_.NodeLabel(n), node.op_type, NameOf(dtype),
                             graph_.value(v).name));
        return;
      }
      if (formal->heterogeneous || formal->fixed) return;
      const auto [other, first] = bound.try_emplace(formal->variable, dtype, v);
      if (first || other->second.first == dtype) return;
      Found(n, fmt::format("{} ({}) has '{}' of {} beside '{}' of {}", graph_.NodeLabel(n), node.op_type,
                           graph_.value(v).name, NameOf(dtype), graph_.value(other->second.second).name,
                           NameOf(other->second.first)));
    };
    for (size_t i = 0; i < node.inputs.size(); ++i) check(node.inputs[i], signature.Input(i));
    for (size_t i = 0; i < node.outputs.size(); ++i) check(node.outputs[i], signature.Output(i));
  }

  void CheckPair(NodeId n, ValueId a, ValueId b) {
    const DType one = DTypeOfValue(graph_, a), other = DTypeOfValue(graph_, b);
    if (one == other || one == DType::kUndefined || other == DType::kUndefined) return;
    Found(n, fmt::format("{} ({}) hands '{}' of {} on as '{}' of {}", graph_.NodeLabel(n), graph_.node(n).op_type,
                         graph_.value(a).name, NameOf(one), graph_.value(b).name, NameOf(other)));
  }

  // What goes into the bodies and what comes out of them. A Loop's body takes the count and the condition first and
  // gives the condition first; a Scan's states come first on both sides.
  void CheckBodies(NodeId n) {
    const Node& node = graph_.node(n);
    const bool loop = node.op_type == "Loop", scan = node.op_type == "Scan";
    if (!node.domain.empty() || (!loop && !scan && node.op_type != "If")) return;
    if (scan && opsets_[""] < 9) return;  // with an input for lengths
    for (RegionId r : BodiesOf(node)) {
      const Region& body = graph_.region(r);
      const size_t skipped = loop ? 1 : 0;
      if (loop || scan) {
        for (size_t i = loop ? 2 : 0; i < node.inputs.size() && i < body.inputs.size(); ++i) {
          CheckPair(n, node.inputs[i], body.inputs[i]);
        }
      }
      for (size_t i = 0; i < node.outputs.size() && i + skipped < body.outputs.size(); ++i) {
        CheckPair(n, body.outputs[i + skipped], node.outputs[i]);
      }
    }
  }

  const Graph& graph_;
  std::map<std::string, int64_t> opsets_;
  std::map<std::pair<std::string, std::string>, std::optional<Signature>> signatures_;
  std::vector<TypeClash> found_;
};

}  // namespace

std::vector<TypeClash> TypeClashes(const Model& model) {
  std::map<std::string, int64_t> opsets;
  for (const OpsetImport& o : model.opsets) opsets[o.domain == "ai.onnx" ? "" : o.domain] = o.version;
  std::vector<TypeClash> out = Clashes(model.graph, opsets).Find();
  for (const Function& f : model.functions) {
    std::map<std::string, int64_t> own;
    for (const auto& [domain, version] : f.opsets) own[domain == "ai.onnx" ? "" : domain] = version;
    for (TypeClash& clash : Clashes(f.body, own).Find()) {
      out.push_back({clash.node, fmt::format("in function {}: {}", f.name, clash.what)});
    }
  }
  return out;
}

}  // namespace quant
