#include "libquant/ops/op_def.h"

#include <map>
#include <utility>

namespace quant {

StatusOr<Tensor*> KernelContext::Allocate(int i, DType dtype, Dims dims) {
  if (i < 0 || i >= output_count()) return BugError("output {} of {} was made", i, output_count());
  const auto bytes = BytesFor(dtype, dims);
  if (!bytes) return DataError("output {} would be {}[{}]", i, NameOf(dtype), ToString(dims));
  Tensor& out = outputs_[static_cast<size_t>(i)];
  out = Tensor::FromBuffer(dtype, std::move(dims), allocator_(*bytes));
  return &out;
}

StatusOr<Tensor*> KernelContext::AllocateOverInput(int i, DType dtype, Dims dims) {
  for (int k = 0; i < output_count() && k < input_count(); ++k) {
    const Tensor* t = input(k);
    if (t == nullptr || !Says(call_.last_read, k) || t->dtype() != dtype || t->dims() != dims || !t->is_sole_owner()) {
      continue;
    }
    Tensor& out = outputs_[static_cast<size_t>(i)];
    out = t->InPlace(dtype, std::move(dims));
    return &out;
  }
  return Allocate(i, dtype, std::move(dims));
}

#define NIBBLE_OP(name) const OpDef& name##Op();
#include "libquant/ops/ops.def"
#undef NIBBLE_OP

const std::vector<const OpDef*>& AllOps() {
  static const std::vector<const OpDef*> ops = {
#define NIBBLE_OP(name) &name##Op(),
#include "libquant/ops/ops.def"
#undef NIBBLE_OP
  };
  return ops;
}

const OpDef* FindOp(std::string_view domain, std::string_view op_type) {
  static const auto index = [] {
    std::map<std::pair<std::string_view, std::string_view>, const OpDef*> by_name;
    for (const OpDef* op : AllOps()) by_name[{op->domain, op->name}] = op;
    return by_name;
  }();
  const auto it = index.find({domain == "ai.onnx" ? std::string_view() : domain, op_type});
  return it == index.end() ? nullptr : it->second;
}

}  // namespace quant
