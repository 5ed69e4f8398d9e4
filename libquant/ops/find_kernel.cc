#include "libquant/ops/find_kernel.h"

namespace quant {

const OpDef* FindKernel(std::string_view domain, std::string_view op_type, int64_t version) {
  const OpDef* op = FindOp(domain, op_type);
  if (op == nullptr) return nullptr;
  return op->since.empty() || version >= op->since.front() ? op : nullptr;
}

}  // namespace quant
