#include <algorithm>
#include <map>
#include <tuple>

#include "libquant/model/check.h"
#include "libquant/model/proto_parts.h"

namespace quant {
namespace {

std::string_view Canonical(std::string_view domain) { return domain == "ai.onnx" ? std::string_view() : domain; }

using FunctionKey = std::tuple<std::string, std::string, std::string>;  // domain, name, overload

std::string LabelOf(const Function& f) {
  return fmt::format("function {}{}{}", f.domain, f.domain.empty() ? "" : ".", f.name);
}

Status CheckVersions(const onnx::ModelProto& proto) {
  const auto newest_ir = static_cast<int64_t>(onnx::Version::IR_VERSION);
  if (!proto.has_graph() && proto.ir_version() == 0) {
    return DataError("it parses but holds no graph and no IR version: it is no ONNX model");
  }
  if (proto.ir_version() <= 0) return DataError("it has no IR version: it is no ONNX model");
  if (proto.ir_version() > newest_ir) {
    return Unsupported(
        "its IR version {} is newer than {}, the newest this build of Nibble knows; export it with an "
        "older ONNX",
        proto.ir_version(), newest_ir);
  }
  if (!proto.has_graph()) return DataError("it holds no graph; export it again");
  if (proto.opset_import_size() == 0 && proto.ir_version() >= 3) {
    return DataError("it imports no opset, so its operators mean nothing; export it again");
  }
  return OkStatus();
}

Status CheckOpset(const onnx::OperatorSetIdProto& opset) {
  if (opset.version() < 0) return DataError("its opset version {} is negative", opset.version());
  if (!Canonical(opset.domain()).empty() || opset.version() <= NewestOpset()) return OkStatus();
  return Unsupported(
      "its opset {} is newer than {}, the newest this build of Nibble knows; export it with opset {} or "
      "older",
      opset.version(), NewestOpset(), NewestOpset());
}

Status Finish(Graph* graph) {
  RETURN_IF_ERROR(graph->SortTopologically());
  return Verify(*graph);
}

StatusOr<Function> TakeFunction(onnx::FunctionProto* proto, const ProtoContext& context) {
  Function out;
  out.domain = proto->domain();
  out.name = proto->name();
  out.overload = proto->overload();
  if (out.name.empty()) return DataError("a function has no name");
  for (const std::string& attribute : proto->attribute()) out.attributes.push_back(attribute);
  for (const auto& opset : proto->opset_import()) {
    RETURN_IF_ERROR(CheckOpset(opset));
    out.opsets.emplace_back(opset.domain(), opset.version());
  }
  proto->clear_domain();
  proto->clear_name();
  proto->clear_overload();
  proto->clear_attribute();
  proto->clear_opset_import();
  Status body = TakeFunctionBody(proto, context, &out.body);
  if (body.ok()) body = InlineExternalTensors(proto, context, "a default attribute");
  if (body.ok()) body = Finish(&out.body);
  if (!body.ok()) return WithContext(body, LabelOf(out));
  out.extra = Leftovers(*proto);
  return out;
}

// A function that calls itself, directly or not, could never be expanded; nor could a small file of functions that
// double each other. Whatever walks through calls, ONNX's shape inference too, can rely on these bounds.
class FunctionCheck {
 public:
  explicit FunctionCheck(const std::vector<Function>& functions) : functions_(functions) {}

  Status Run(const Graph& graph) {
    for (size_t i = 0; i < functions_.size(); ++i) {
      const Function& f = functions_[i];
      if (!index_.emplace(FunctionKey(Canonical(f.domain), f.name, f.overload), i).second) {
        return DataError("{} is defined twice", LabelOf(f));
      }
    }
    state_.assign(functions_.size(), kNew);
    depth_.assign(functions_.size(), 1);
    nodes_.assign(functions_.size(), 0);
    for (size_t i = 0; i < functions_.size(); ++i) RETURN_IF_ERROR(Visit(i));
    return CheckSize(CallsIn(graph), graph.node_count());
  }

 private:
  enum State : char { kNew, kOpen, kDone };
  static constexpr int kMostDepth = 64;
  static constexpr int64_t kMostNodes = 1'000'000;

  // Functions that nodes of the graph or its bodies call, with how often.
  std::map<size_t, int64_t> CallsIn(const Graph& graph) const {
    std::map<size_t, int64_t> calls;
    for (NodeId n = 0; n < graph.node_count(); ++n) {
      const Node& node = graph.node(n);
      const auto it = index_.find(FunctionKey(Canonical(node.domain), node.op_type, node.overload));
      if (it != index_.end()) ++calls[it->second];
    }
    return calls;
  }
  std::vector<size_t> CallsOf(size_t function) const {
    std::vector<size_t> out;
    for (const auto& call : CallsIn(functions_[function].body)) out.push_back(call.first);
    return out;
  }

  Status CheckSize(const std::map<size_t, int64_t>& calls, int64_t nodes) const {
    for (const auto& [callee, count] : calls) {
      if (count > kMostNodes || nodes > kMostNodes - count * nodes_[callee]) {
        return Unsupported("its functions expand to more than {} nodes", kMostNodes);
      }
      nodes += count * nodes_[callee];
    }
    return OkStatus();
  }

  // Called when all callees are done.
  Status Measure(size_t function) {
    const std::map<size_t, int64_t> calls = CallsIn(functions_[function].body);
    nodes_[function] = functions_[function].body.node_count();
    RETURN_IF_ERROR(CheckSize(calls, nodes_[function]));
    for (const auto& [callee, count] : calls) {
      nodes_[function] += count * nodes_[callee];
      depth_[function] = std::max(depth_[function], depth_[callee] + 1);
    }
    if (depth_[function] > kMostDepth)
      return Unsupported("its functions call each other more than {} deep", kMostDepth);
    return OkStatus();
  }

  // Depth-first with a stack of its own: a hostile chain of calls may be long.
  Status Visit(size_t root) {
    if (state_[root] != kNew) return OkStatus();
    struct Frame {
      size_t function;
      std::vector<size_t> calls;
      size_t next = 0;
    };
    std::vector<Frame> stack;
    stack.push_back({root, CallsOf(root)});
    state_[root] = kOpen;
    while (!stack.empty()) {
      Frame& frame = stack.back();
      if (frame.next == frame.calls.size()) {
        state_[frame.function] = kDone;
        RETURN_IF_ERROR(Measure(frame.function));
        stack.pop_back();
        continue;
      }
      const size_t callee = frame.calls[frame.next++];
      if (state_[callee] == kOpen) return DataError("{} calls itself", LabelOf(functions_[callee]));
      if (state_[callee] == kDone) continue;
      state_[callee] = kOpen;
      stack.push_back({callee, CallsOf(callee)});
    }
    return OkStatus();
  }

  const std::vector<Function>& functions_;
  std::map<FunctionKey, size_t> index_;
  std::vector<State> state_;
  std::vector<int> depth_;      // calls below one another, itself counted
  std::vector<int64_t> nodes_;  // when expanded
};

}  // namespace

StatusOr<Model> FromProto(onnx::ModelProto&& proto, const ProtoContext& context) {
  RETURN_IF_ERROR(CheckVersions(proto));
  Model model;
  model.ir_version = proto.ir_version();
  proto.clear_ir_version();
  for (const auto& opset : proto.opset_import()) {
    RETURN_IF_ERROR(CheckOpset(opset));
    model.opsets.push_back({opset.domain(), opset.version()});
  }
  proto.clear_opset_import();
  RETURN_IF_ERROR(TakeGraph(proto.mutable_graph(), context, &model.graph));
  proto.clear_graph();
  RETURN_IF_ERROR(Finish(&model.graph));
  for (auto& f : *proto.mutable_functions()) {
    ASSIGN_OR_RETURN(Function function, TakeFunction(&f, context));
    model.functions.push_back(std::move(function));
  }
  proto.clear_functions();
  RETURN_IF_ERROR(FunctionCheck(model.functions).Run(model.graph));
  RETURN_IF_ERROR(InlineExternalTensors(&proto, context, "training information"));
  model.extra = Leftovers(proto);
  return model;
}

}  // namespace quant
