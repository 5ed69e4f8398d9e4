#include "libquant/model/guarded_schemas.h"

#include <onnx/defs/shape_inference.h>
#include <onnx/defs/tensor_proto_util.h>

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <sstream>
#include <string>
#include <utility>

#include "libquant/model/shape_arithmetic.h"

namespace quant {
namespace {

using Guard = void (*)(onnx::InferenceContext& context);

constexpr int64_t kLargestBlock = 1 << 20;  // its square is a number

[[noreturn]] void Refuse(const std::string& why) { throw onnx::InferenceError(why); }

int64_t IntOf(onnx::InferenceContext& context, const std::string& name, int64_t fallback) {
  const onnx::AttributeProto* attribute = context.getAttribute(name);
  return attribute == nullptr ? fallback : attribute->i();
}

void CheckBlock(onnx::InferenceContext& context) {
  const int64_t block = IntOf(context, "blocksize", 1);
  if (block < 1 || block > kLargestBlock) Refuse("the block size is out of range");
}

void CheckBatchDims(onnx::InferenceContext& context) {
  if (!onnx::hasInputShape(context, 0)) return;
  const int64_t dims = IntOf(context, "batch_dims", 0);
  if (dims < 0 || dims > onnx::getInputShape(context, 0).dim_size()) Refuse("batch_dims is out of range");
}

void CheckAxis(onnx::InferenceContext& context) {
  if (!onnx::hasInputShape(context, 0)) return;
  const int64_t axis = IntOf(context, "axis", -1);
  const int64_t rank = onnx::getInputShape(context, 0).dim_size();
  if (axis < -rank || axis >= rank) Refuse("the axis is out of range");
}

void CheckHeads(onnx::InferenceContext& context) {
  for (const char* name : {"q_num_heads", "kv_num_heads"}) {
    if (IntOf(context, name, 1) < 1) Refuse("a number of heads is not positive");
  }
}

void CheckDepth(onnx::InferenceContext& context) {
  const onnx::TensorProto* depth = context.getNumInputs() > 1 ? context.getInputData(1) : nullptr;
  for (int i = 0; depth != nullptr && i < depth->dims_size(); ++i) {
    if (depth->dims(i) < 1) Refuse("the depth has no element");
  }
}

void CheckFirstInput(onnx::InferenceContext& context) {
  if (context.getNumInputs() == 0 || context.getInputType(0) == nullptr) Refuse("the first input's type is not known");
}

// A scalar that an axis is split by.
void CheckSplit(onnx::InferenceContext& context) {
  const onnx::TensorProto* split = context.getNumInputs() > 1 ? context.getInputData(1) : nullptr;
  if (split == nullptr) return;
  const auto check = [&](const auto& sizes) {
    if (!sizes.empty() && sizes[0] < 1) Refuse("the size of a part is not positive");
  };
  if (split->data_type() == onnx::TensorProto::INT64) check(onnx::ParseData<int64_t>(split));
  if (split->data_type() == onnx::TensorProto::INT32) check(onnx::ParseData<int32_t>(split));
}

bool IsLabel(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

// Ellipses that stand for other numbers of dims, and a result's label that no operand has.
void CheckEquation(onnx::InferenceContext& context) {
  const onnx::AttributeProto* attribute = context.getAttribute("equation");
  if (attribute == nullptr || !onnx::hasNInputShapes(context, context.getNumInputs())) return;
  const std::string& equation = attribute->s();
  const size_t arrow = std::min(equation.find("->"), equation.size());
  std::stringstream left(equation.substr(0, arrow));
  std::optional<int64_t> ellipsis;
  size_t operand = 0;
  for (std::string term; operand < context.getNumInputs() && std::getline(left, term, ','); ++operand) {
    if (term.find("...") == std::string::npos) continue;
    const int64_t dims =
        onnx::getInputShape(context, operand).dim_size() - std::count_if(term.begin(), term.end(), IsLabel);
    if (ellipsis && *ellipsis != dims) Refuse("an ellipsis stands for other numbers of dims");
    ellipsis = dims;
  }
  for (size_t i = arrow; i < equation.size(); ++i) {
    if (IsLabel(equation[i]) && equation.find(equation[i]) >= arrow) Refuse("a label of the result is no operand's");
  }
}

Guard GuardOf(const std::string& op_type, const std::string& domain) {
  static const std::map<std::pair<std::string, std::string>, Guard> guards = {
      {{onnx::ONNX_DOMAIN, "Attention"}, CheckHeads},
      {{onnx::ONNX_DOMAIN, "DepthToSpace"}, CheckBlock},
      {{onnx::ONNX_DOMAIN, "Einsum"}, CheckEquation},
      {{onnx::ONNX_DOMAIN, "EyeLike"}, CheckFirstInput},
      {{onnx::ONNX_DOMAIN, "GatherND"}, CheckBatchDims},
      {{onnx::ONNX_DOMAIN, "LayerNormalization"}, CheckAxis},
      {{onnx::ONNX_DOMAIN, "OneHot"}, CheckDepth},
      {{onnx::ONNX_DOMAIN, "RegexFullMatch"}, CheckFirstInput},
      {{onnx::ONNX_DOMAIN, "RMSNormalization"}, CheckAxis},
      {{onnx::ONNX_DOMAIN, "SpaceToDepth"}, CheckBlock},
      {{onnx::ONNX_DOMAIN, "SplitToSequence"}, CheckSplit},
      {{onnx::AI_ONNX_ML_DOMAIN, "LabelEncoder"}, CheckFirstInput},
  };
  const auto found = guards.find({domain == "ai.onnx" ? onnx::ONNX_DOMAIN : domain, op_type});
  return found == guards.end() ? nullptr : found->second;
}

class Guarded : public onnx::ISchemaRegistry {
 public:
  // NOLINTNEXTLINE(google-default-arguments): ONNX's
  const onnx::OpSchema* GetSchema(const std::string& key, const int version,
                                  const std::string& domain = onnx::ONNX_DOMAIN) const override {
    const onnx::OpSchema* schema = onnx::OpSchemaRegistry::Instance()->GetSchema(key, version, domain);
    if (schema == nullptr) return nullptr;
    const std::lock_guard lock(mutex_);
    std::unique_ptr<onnx::OpSchema>& copy = copies_[schema];
    if (copy == nullptr) copy = Copy(*schema, GuardOf(key, domain));
    return copy.get();
  }

 private:
  static std::unique_ptr<onnx::OpSchema> Copy(const onnx::OpSchema& schema, Guard guard) {
    auto copy = std::make_unique<onnx::OpSchema>(schema);
    const bool is_reshape = schema.domain() == onnx::ONNX_DOMAIN && schema.Name() == "Reshape";
    copy->TypeAndShapeInferenceFunction(
        [guard, &schema, computes_target = is_reshape && schema.SinceVersion() >= 5](onnx::InferenceContext& context) {
          if (guard != nullptr) guard(context);
          if (computes_target) return InferReshape(schema, context);
          schema.GetTypeAndShapeInferenceFunction()(context);
        });
    copy->PartialDataPropagationFunction(PropagationOf(schema));
    return copy;
  }

  mutable std::mutex mutex_;
  mutable std::map<const onnx::OpSchema*, std::unique_ptr<onnx::OpSchema>> copies_;
};

}  // namespace

const onnx::ISchemaRegistry& GuardedSchemas() {
  static const Guarded guarded;
  return guarded;
}

}  // namespace quant
