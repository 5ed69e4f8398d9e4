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
// Elements of a tensor that inference may take for a shape. ONNX makes a message of every element, also where only the
// length is known.
constexpr int64_t kLongestShape = 1 << 10;

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
  if (!onnx::hasInputShape(context, 1)) return;
  const auto& indices = onnx::getInputShape(context, 1);
  if (indices.dim_size() > 0 && indices.dim(indices.dim_size() - 1).dim_value() < 0) Refuse("an index has no length");
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

// The length of a tensor of rank 1; 0 for others, and where it is not known.
int64_t LengthOf(const onnx::TypeProto* type) {
  if (type == nullptr || !type->has_tensor_type()) return 0;
  const onnx::TensorShapeProto& shape = type->tensor_type().shape();
  return shape.dim_size() == 1 ? shape.dim(0).dim_value() : 0;
}

// Inputs that say how many dims the result has.
template <size_t... kInputs>
void CheckShapeInput(onnx::InferenceContext& context) {
  const auto check = [&](size_t i) {
    if (i < context.getNumInputs() && LengthOf(context.getInputType(i)) > kLongestShape) {
      Refuse("the shape wanted has too many dimensions");
    }
  };
  (check(kInputs), ...);
}

// The part of each output is looked up among as many as the attribute says.
void CheckOutputCount(onnx::InferenceContext& context) {
  const auto outputs = static_cast<int64_t>(context.getNumOutputs());
  if (IntOf(context, "num_outputs", outputs) != outputs) Refuse("num_outputs is not the number of outputs");
}

// False: values must not be followed through the node.
bool MayPropagate(const std::string& op_type, onnx::DataPropagationContext& context) {
  int64_t length = 0;
  for (size_t i = 0; i < context.getNumInputs(); ++i) {
    const int64_t more = LengthOf(context.getInputType(i));
    if (more > kLongestShape) return false;
    length += std::max<int64_t>(more, 0);
  }
  if (length > kLongestShape) return false;
  if (op_type != "Slice" || context.getNumInputs() < 5) return true;
  // Added to an int again and again, which such a step would not move, or out of the tensor.
  const onnx::TensorShapeProto* steps = context.getInputData(4);
  for (int i = 0; steps != nullptr && i < steps->dim_size(); ++i) {
    const int64_t step = steps->dim(i).dim_value();
    if (step < -kLongestShape || step > kLongestShape) return false;
  }
  return true;
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
      {{onnx::ONNX_DOMAIN, "AffineGrid"}, CheckShapeInput<1>},
      {{onnx::ONNX_DOMAIN, "Attention"}, CheckHeads},
      {{onnx::ONNX_DOMAIN, "Col2Im"}, CheckShapeInput<1, 2>},
      {{onnx::ONNX_DOMAIN, "ConstantOfShape"}, CheckShapeInput<0>},
      {{onnx::ONNX_DOMAIN, "DepthToSpace"}, CheckBlock},
      {{onnx::ONNX_DOMAIN, "Einsum"}, CheckEquation},
      {{onnx::ONNX_DOMAIN, "Expand"}, CheckShapeInput<1>},
      {{onnx::ONNX_DOMAIN, "EyeLike"}, CheckFirstInput},
      {{onnx::ONNX_DOMAIN, "GatherND"}, CheckBatchDims},
      {{onnx::ONNX_DOMAIN, "LayerNormalization"}, CheckAxis},
      {{onnx::ONNX_DOMAIN, "OneHot"}, CheckDepth},
      {{onnx::ONNX_DOMAIN, "RegexFullMatch"}, CheckFirstInput},
      {{onnx::ONNX_DOMAIN, "RMSNormalization"}, CheckAxis},
      {{onnx::ONNX_DOMAIN, "Reshape"}, CheckShapeInput<1>},
      {{onnx::ONNX_DOMAIN, "Resize"}, CheckShapeInput<3>},
      {{onnx::ONNX_DOMAIN, "SpaceToDepth"}, CheckBlock},
      {{onnx::ONNX_DOMAIN, "Split"}, CheckOutputCount},
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
    copy->PartialDataPropagationFunction(
        [op_type = schema.Name(), propagate = PropagationOf(schema)](onnx::DataPropagationContext& context) {
          if (MayPropagate(op_type, context)) propagate(context);
        });
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
