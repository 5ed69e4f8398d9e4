// Constant: its tensor is known when the model is read; the executor never runs it.
#include "libquant/ops/op_def.h"

namespace quant {
namespace {

Status EvalConstant(KernelContext& context) {
  const Tensor* value = context.attributes().TensorOrNull("value");
  if (value == nullptr) return Unsupported("a constant that is no tensor");
  ASSIGN_OR_RETURN(Tensor tensor, value->Materialize());
  context.Set(0, std::move(tensor));
  return OkStatus();
}

}  // namespace

const OpDef& ConstantOp() {
  static const OpDef def = {.name = "Constant",
                            .since = {1, 9, 11, 12, 13, 19, 21, 23, 24, 25},
                            .min_inputs = 0,
                            .eval = EvalConstant,
                            .role = Control{},
                            .exactness = Exactness::kExact,
                            .summary = "A tensor kept in the model"};
  return def;
}

}  // namespace quant
