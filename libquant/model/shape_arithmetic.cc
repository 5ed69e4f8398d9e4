#include "libquant/model/shape_arithmetic.h"

#include <map>
#include <optional>
#include <string>

namespace quant {
namespace {

constexpr size_t kTarget = 1;
constexpr int kKnowsComputedTargets = 14;  // the first opset whose inference of Reshape does

// Another context, whose target has only the names that may be believed.
class BelievedTarget : public onnx::InferenceContext {
 public:
  explicit BelievedTarget(onnx::InferenceContext& context) : context_(context) {
    const onnx::TensorShapeProto* target = context.getSymbolicInput(kTarget);
    if (target == nullptr) return;
    target_ = *target;
    const onnx::AttributeProto* allow_zero = context.getAttribute("allowzero");
    if (allow_zero != nullptr && allow_zero->i() != 0) return;
    const onnx::TensorShapeProto* data = nullptr;
    if (onnx::hasInputShape(context, 0)) data = &context.getInputType(0)->tensor_type().shape();
    for (int i = 0; i < target_->dim_size(); ++i) {
      auto& dim = *target_->mutable_dim(i);
      if (!dim.has_dim_param()) continue;
      const bool same = data != nullptr && i < data->dim_size() && data->dim(i).dim_param() == dim.dim_param();
      if (!same) dim.clear_dim_param();
    }
  }

  const onnx::TensorShapeProto* getSymbolicInput(size_t index) const override {
    if (index == kTarget) return target_ ? &*target_ : nullptr;
    return context_.getSymbolicInput(index);
  }

  const onnx::AttributeProto* getAttribute(const std::string& name) const override {
    return context_.getAttribute(name);
  }
  size_t getNumInputs() const override { return context_.getNumInputs(); }
  const onnx::TypeProto* getInputType(size_t index) const override { return context_.getInputType(index); }
  bool hasInput(size_t index) const override { return context_.hasInput(index); }
  const onnx::TensorProto* getInputData(size_t index) const override { return context_.getInputData(index); }
  size_t getNumOutputs() const override { return context_.getNumOutputs(); }
  onnx::TypeProto* getOutputType(size_t index) override { return context_.getOutputType(index); }
  bool hasOutput(size_t index) override { return context_.hasOutput(index); }
  onnx::GraphInferencer* getGraphAttributeInferencer(const std::string& name) override {
    return context_.getGraphAttributeInferencer(name);
  }
  const onnx::SparseTensorProto* getInputSparseData(size_t index) const override {
    return context_.getInputSparseData(index);
  }
  std::string getDisplayName() const override { return context_.getDisplayName(); }

 private:
  onnx::InferenceContext& context_;
  std::optional<onnx::TensorShapeProto> target_;
};

// Versions of an operator that do the same to the elements of a vector, the last one having ONNX's function for it.
struct Lent {
  int from;
  int by;
};

const std::map<std::string, Lent>& LentPropagation() {
  static const std::map<std::string, Lent> lent = {
      {"Add", {7, 14}}, {"Cast", {6, 13}},   {"Concat", {4, 13}},  {"Mul", {7, 14}},
      {"Sub", {7, 14}}, {"Slice", {10, 13}}, {"Squeeze", {1, 13}}, {"Unsqueeze", {1, 13}},
  };
  return lent;
}

}  // namespace

void InferReshape(const onnx::OpSchema& schema, onnx::InferenceContext& context) {
  const onnx::OpSchema* by = &schema;
  if (schema.SinceVersion() < kKnowsComputedTargets) {
    by = onnx::OpSchemaRegistry::Instance()->GetSchema("Reshape", kKnowsComputedTargets);
  }
  BelievedTarget believed(context);
  by->GetTypeAndShapeInferenceFunction()(believed);
}

onnx::DataPropagationFunction PropagationOf(const onnx::OpSchema& schema) {
  const auto lent = LentPropagation().find(schema.Name());
  const bool lacks = schema.domain() == onnx::ONNX_DOMAIN && lent != LentPropagation().end() &&
                     schema.SinceVersion() >= lent->second.from && schema.SinceVersion() < lent->second.by;
  const onnx::OpSchema* by = &schema;
  if (lacks) by = onnx::OpSchemaRegistry::Instance()->GetSchema(schema.Name(), lent->second.by);
  return by->GetDataPropagationFunction();
}

}  // namespace quant
