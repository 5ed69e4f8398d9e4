#include "passes/pass.h"

#include <algorithm>

#include "libquant/ops/op_def.h"

namespace quant {

#define NIBBLE_PASS(name) const Pass& name##Pass();
#include "passes/passes.def"
#undef NIBBLE_PASS

const std::vector<const Pass*>& AllPasses() {
  static const std::vector<const Pass*> all = {
#define NIBBLE_PASS(name) &name##Pass(),
#include "passes/passes.def"
#undef NIBBLE_PASS
  };
  return all;
}

const Pass* FindPass(std::string_view name) {
  const auto& all = AllPasses();
  const auto it = std::find_if(all.begin(), all.end(), [&](const Pass* p) { return p->name == name; });
  return it == all.end() ? nullptr : *it;
}

int64_t PassContext::opset(std::string_view domain) const {
  const auto plain = [](std::string_view d) { return d == "ai.onnx" ? std::string_view() : d; };
  for (const OpsetImport& import : opsets_) {
    if (plain(import.domain) == plain(domain)) return import.version;
  }
  return 0;
}

bool PassContext::MayMake(std::string_view domain, std::string_view op_type) const {
  if (!target().Runs(domain, op_type)) return false;
  if (!domain.empty()) return true;
  const OpDef* op = FindOp(domain, op_type);
  return op != nullptr && !op->since.empty() && opset() >= op->since.front();
}

}  // namespace quant
