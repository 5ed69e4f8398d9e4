#include "libquant/ops/evaluate.h"

#include <memory>
#include <new>
#include <stdexcept>

namespace quant {

StatusOr<std::vector<Tensor>> EvaluateOp(const OpDef& op, const Attributes& attributes, int64_t version,
                                         std::span<const Tensor* const> inputs, size_t outputs) {
  if (op.eval == nullptr) return Unsupported("{} has no kernel of its own", op.name);
  for (int i = 0; i < op.min_inputs; ++i) {
    if (static_cast<size_t>(i) >= inputs.size() || inputs[static_cast<size_t>(i)] == nullptr) {
      return DataError("input {} of {} is left out", i, op.name);
    }
  }
  const KernelContext::Allocator allocator = [](int64_t bytes) { return std::make_shared<Buffer>(bytes); };
  const auto wanted = std::make_unique<bool[]>(outputs);
  std::fill_n(wanted.get(), outputs, true);
  const KernelCall call = {
      .attributes = attributes, .version = version, .inputs = inputs, .wanted = {wanted.get(), outputs}};
  KernelContext context(call, allocator);
  try {
    RETURN_IF_ERROR(op.eval(context));
  } catch (const std::bad_alloc&) {
    return DataError("there is not enough memory");
  } catch (const std::length_error&) {
    return DataError("there is not enough memory");
  }
  return std::move(context.outputs());
}

}  // namespace quant
