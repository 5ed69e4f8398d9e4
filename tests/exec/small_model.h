// Small models made in a line or two each.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "libquant/ir/graph.h"

namespace quant {

struct SmallModel {
  Model model;

  explicit SmallModel(int64_t opset = 21) {
    model.ir_version = 10;
    model.opsets = {{"", opset}, {"com.microsoft", 1}};
  }
  Graph& graph() { return model.graph; }

  ValueId Input(const std::string& name, Shape shape, DType dtype = DType::kFloat) {
    Value v;
    v.name = name;
    v.dtype = dtype;
    v.shape = std::move(shape);
    v.is_input = true;
    const ValueId id = graph().AddValue(std::move(v));
    graph().main().inputs.push_back(id);
    return id;
  }
  ValueId Constant(const std::string& name, Tensor tensor, bool also_input = false) {
    Value v;
    v.name = name;
    v.dtype = tensor.dtype();
    v.shape = ShapeOf(tensor.dims());
    v.constant = std::move(tensor);
    v.is_initializer = true;
    v.is_input = also_input;
    const ValueId id = graph().AddValue(std::move(v));
    graph().main().initializers.push_back(id);
    if (also_input) graph().main().inputs.push_back(id);
    return id;
  }
  // One output of this name; "" leaves the node's output out.
  ValueId Op(const std::string& type, std::vector<ValueId> inputs, const std::string& out, Attributes attributes = {}) {
    Value v;
    v.name = out;
    Node n;
    n.name = type + "_" + out;
    n.op_type = type;
    n.inputs = std::move(inputs);
    n.attributes = std::move(attributes);
    n.outputs = {graph().AddValue(std::move(v))};
    const ValueId y = n.outputs[0];
    graph().AddNode(std::move(n));
    return y;
  }
  void Output(ValueId v) { graph().AddOutput(kMainRegion, v); }
};

inline Tensor Floats(Dims dims, const std::vector<float>& values) {
  return Tensor::Of<float>(std::move(dims), std::span<const float>(values));
}
inline Tensor Ints(Dims dims, const std::vector<int64_t>& values) {
  return Tensor::Of<int64_t>(std::move(dims), std::span<const int64_t>(values));
}
inline std::vector<float> FloatsOf(const Tensor& t) { return {t.data<float>().begin(), t.data<float>().end()}; }

}  // namespace quant
