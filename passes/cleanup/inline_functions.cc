// Calls of the model's functions become their bodies, so that passes see operators alone.
//
//   y = local.f(x)        =>        t = Elu(x)   y = Add(t, x)
//
// Not in the default pipeline: the model grows with every call, and a runtime may know the function by its name.
#include "libquant/model/inline_functions.h"

#include "passes/pass.h"

namespace quant {
namespace {

StatusOr<int> Inline(const PassContext& context, Model& model) {
  const auto count = static_cast<int>(model.functions.size());
  if (count == 0) return 0;
  Model inlined = model;
  if (const Status status = InlineFunctions(inlined); !status.ok()) {
    if (context.on_miss) context.on_miss(Message(status));
    return 0;
  }
  model = std::move(inlined);
  return count;
}

}  // namespace

const Pass& InlineFunctionsPass() {
  static const Pass pass = {.name = "inline-functions",
                            .summary = "Calls of the model's own functions become their bodies",
                            .run_model = Inline};
  return pass;
}

}  // namespace quant
